"""The Q-network: its initial weights, rectified layers, sense of time and greedy action."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.plain_replay import action_values
from reference.random_weights import random_weights

from hindsight.networks.action_value import ActionValue


def random_network() -> ActionValue:
    return random_weights(lambda key: ActionValue(4, 2, 3, (6, 5), key), seed=2)


def test_initial_weights_are_uniform_with_glorots_variance_and_biases_zero() -> None:
    network = jax.jit(lambda key: ActionValue(16, 16, 16, (256, 256), key))(jax.random.key(0)).network
    assert [weight.shape for weight in network.weights] == [(33, 256), (256, 256), (256, 16)]
    for weight in network.weights:
        bound = np.sqrt(6 / sum(weight.shape))
        assert 0.99 * bound < np.max(np.abs(weight)) <= bound * (1 + 1e-6)
        # The mean of so many uniform weights misses zero by more than 4 standard errors in 1 of 16000 cases.
        assert abs(np.mean(weight)) < 4 * bound / np.sqrt(3 * weight.size)
        np.testing.assert_allclose(np.var(weight), 2 / sum(weight.shape), rtol=0.05)
    for bias in network.biases:
        np.testing.assert_array_equal(bias, 0)


@pytest.mark.usefixtures("double_precision")
def test_values_come_from_rectified_layers_on_observation_goal_and_time() -> None:
    network = random_network()
    generator = np.random.default_rng(7)
    observations, goals, times = generator.normal(size=(9, 4)), generator.normal(size=(9, 2)), np.arange(9)
    evaluate = jax.jit(lambda *rows: network(*rows))
    found = evaluate(observations, goals, times)
    rows = zip(observations, goals, times, strict=True)
    np.testing.assert_allclose(found, [action_values(network, *row) for row in rows], rtol=1e-12, atol=1e-12)
    assert found.shape == (9, 3)
    assert np.max(np.abs(found - evaluate(observations, goals, times + 1))) > 1e-3


def test_act_takes_the_action_of_the_largest_value_at_that_time() -> None:
    network = random_network()
    generator = np.random.default_rng(3)
    observations, goals = generator.normal(size=(30, 4)), generator.normal(size=(30, 2))
    times = np.arange(30) % 5
    act = jax.jit(lambda observation, goal, time: network.act(observation, goal, time))
    rows = list(zip(observations, goals, times, strict=True))
    actions = [int(act(*row)) for row in rows]
    assert actions == [int(np.argmax(action_values(network, *row))) for row in rows]
    assert actions != [int(act(observation, goal, 4 - time)) for observation, goal, time in rows], "time must matter"


def test_act_takes_plain_lists_and_arrays_of_any_shape() -> None:
    network = random_network()
    flat = network.act(jnp.array([1.0, -2.0, 0.5, 3.0]), jnp.array([0.3, -0.7]), jnp.int32(2))
    assert flat.shape == ()
    assert int(network.act([1.0, -2.0, 0.5, 3.0], [0.3, -0.7], 2)) == int(flat)
    assert int(network.act(np.array([[1, -2], [0.5, 3]]), np.array([[0.3], [-0.7]]), 2)) == int(flat)
