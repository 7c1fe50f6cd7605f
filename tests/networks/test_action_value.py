"""The Q-network: its initial weights, rectified layers, sense of time and greedy action."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.plain_replay import action_values
from reference.random_weights import random_weights

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.networks.action_value import ActionValue
from hindsight_rl.networks.images import LAYERS


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


def picture_network() -> ActionValue:
    return random_weights(lambda key: ActionValue((44, 40, 2), 2, 3, (6, 5), key), seed=4, scale=0.1)


def plain_picture_values(network: ActionValue, pictures: np.ndarray, goals: np.ndarray, times: np.ndarray) -> jax.Array:
    """Plain convolutions, and goal and time beside what they give; every hidden unit is rectified."""
    trunk = network.trunk
    assert trunk is not None
    maps = jnp.asarray(pictures, float) / 255
    for kernel, bias, (_, size, stride) in zip(trunk.kernels, trunk.biases, LAYERS, strict=True):
        blocks, depth = size // stride, maps.shape[3]
        square = kernel.reshape(blocks, blocks, stride, stride, depth, -1).transpose(0, 2, 1, 3, 4, 5)
        maps = jax.lax.conv_general_dilated(
            maps,
            square.reshape(size, size, depth, -1),
            (stride, stride),
            "VALID",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        maps = jnp.maximum(maps + bias[None, None, None], 0)
    inputs = jnp.concatenate([maps.reshape(len(pictures), -1), goals, times[:, None]], axis=1)
    first = inputs @ jnp.concatenate([trunk.state_weight, trunk.goal_weight]) + trunk.bias[None]
    (weight, last_weight), (bias, last_bias) = network.network.weights, network.network.biases
    return jnp.maximum(jnp.maximum(first, 0) @ weight + bias[None], 0) @ last_weight + last_bias[None]


@pytest.mark.usefixtures("double_precision")
def test_values_of_pictures_and_their_gradient_are_those_of_plain_rectified_convolutions() -> None:
    """For more pictures than a tile has."""
    network, generator = picture_network(), np.random.default_rng(1)
    pictures, goals = generator.integers(0, 256, (19, 44, 40, 2), np.uint8), generator.normal(size=(19, 2))
    weights, times = generator.normal(size=(19, 3)), np.arange(19) % 5

    def loss(evaluate: Any) -> Any:
        return jax.jit(jax.value_and_grad(lambda network: jnp.sum(weights * evaluate(network, pictures, goals, times))))

    ours, our_gradient = loss(ActionValue.__call__)(network)
    theirs, their_gradient = loss(plain_picture_values)(network)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    for left, right in zip(jax.tree.leaves(our_gradient), jax.tree.leaves(their_gradient), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-8, atol=1e-9 * float(jnp.abs(right).max()))
        assert np.any(left)


def test_act_takes_one_picture() -> None:
    network, generator = picture_network(), np.random.default_rng(2)
    pictures, goals = generator.integers(0, 256, (20, 44, 40, 2), np.uint8), 20 * generator.normal(size=(20, 2))
    times = 10 * np.arange(20)
    values = jax.jit(lambda *rows: network(*rows))(pictures, goals.astype(np.float32), times)
    act = jax.jit(lambda *row: network.act(*row))
    actions = [int(act(*row)) for row in zip(pictures, goals, times, strict=True)]
    assert actions == np.argmax(values, axis=1).tolist()
    assert len(set(actions)) > 1


def test_the_initial_weights_for_pictures_are_scaled_and_a_hidden_layer_is_needed() -> None:
    network = jax.jit(lambda key: ActionValue((36, 36, 1), 2, 4, (256, 256), key))(jax.random.key(0))
    assert network.trunk is not None
    assert network.trunk.goal_weight.shape == (3, 256), "two numbers of a goal, and the time"
    assert [weight.shape for weight in network.network.weights] == [(256, 256), (256, 4)]
    joint = np.concatenate([network.trunk.state_weight, network.trunk.goal_weight])
    np.testing.assert_allclose(np.var(joint), 2 / sum(joint.shape), rtol=0.05)
    np.testing.assert_array_equal(network.trunk.bias, 0)
    with pytest.raises(HindsightError, match="needs a hidden layer"):
        ActionValue((36, 36, 1), 2, 4, (), jax.random.key(0))
