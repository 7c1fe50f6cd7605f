"""Initial weights, log-probabilities, greedy actions, and the value's sense of time."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import plain_networks
from reference.random_weights import random_weights

from hindsight_rl.networks.perceptron import Perceptron
from hindsight_rl.networks.policy import Policy
from hindsight_rl.networks.value import Value

TRUNCATED_DEVIATION = 0.01 * np.sqrt(1 - 4 * np.exp(-2) / np.sqrt(2 * np.pi) / 0.9544997361)
"""Standard deviation of a normal variable of standard deviation 0.01 that is redrawn beyond two of them: 0.0088."""


def policy_with_logits(logits: jax.Array) -> Policy:
    """A policy without hidden layers whose logits are one row of a table, picked by a one-hot observation."""
    rows, actions = logits.shape
    policy = random_weights(lambda key: Policy(rows, 1, actions, (), key), seed=0)
    weights = jnp.concatenate([logits, jnp.zeros((1, actions), logits.dtype)])
    replaced = ([weights], [jnp.zeros(actions, logits.dtype)])
    return eqx.tree_at(lambda p: (p.network.weights, p.network.biases), policy, replaced)


@jax.jit
def log_probabilities_of(logits: jax.Array) -> jax.Array:
    policy = policy_with_logits(logits)
    observations = np.eye(len(logits), dtype=logits.dtype)
    return policy.log_probabilities(observations, np.zeros((len(logits), 1), logits.dtype))


def exact_log_probabilities(logits: np.ndarray) -> np.ndarray:
    """log(softmax + 1e-12) in extended precision."""
    powers = np.exp(logits.astype(np.longdouble) - logits.max(axis=1, keepdims=True))
    return np.log(powers / powers.sum(axis=1, keepdims=True) + np.longdouble("1e-12"))


def test_initial_weights_are_narrow_and_truncated_and_biases_zero() -> None:
    network = jax.jit(lambda key: Perceptron(30, (256, 256), 5, key))(jax.random.key(0))
    assert [weight.shape for weight in network.weights] == [(30, 256), (256, 256), (256, 5)]
    assert [bias.shape for bias in network.biases] == [(256,), (256,), (5,)]
    for weight in network.weights:
        assert np.max(np.abs(weight)) <= 0.02
    np.testing.assert_allclose(np.std(network.weights[1]), TRUNCATED_DEVIATION, rtol=0.01)
    np.testing.assert_allclose(TRUNCATED_DEVIATION, 0.0088, atol=1e-5)
    assert abs(np.mean(network.weights[1])) < 4 * 0.0088 / 256
    for bias in network.biases:
        np.testing.assert_array_equal(bias, 0)


def test_initial_weights_follow_the_key() -> None:
    build = jax.jit(lambda key: Perceptron(4, (4,), 4, key))
    first, again, other = (build(jax.random.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.weights[0], again.weights[0])
    assert not np.array_equal(first.weights[0], other.weights[0])
    assert not np.array_equal(first.weights[0], first.weights[1]), "each layer has a key of its own"


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("hidden_layers", [(), (5,), (5, 3, 4)])
def test_a_network_is_tanh_layers_and_a_linear_output(hidden_layers: tuple[int, ...]) -> None:
    network = random_weights(lambda key: Perceptron(3, hidden_layers, 2, key), seed=0)
    rows = np.random.default_rng(1).normal(size=(6, 3))
    found = jax.jit(lambda rows: network(rows))(rows)
    np.testing.assert_allclose(found, [plain_networks.forward(network, row) for row in rows], rtol=1e-12)


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("spread", [1.0, 20.0, 27.6, 1000.0])
def test_log_probabilities_are_of_the_softmax_plus_a_floor(spread: float) -> None:
    logits = np.random.default_rng(1).normal(size=(8, 5)) * spread
    expected = exact_log_probabilities(logits).astype(float)
    np.testing.assert_allclose(log_probabilities_of(logits), expected, rtol=1e-13, atol=1e-14)


def test_log_probabilities_hold_tiny_probabilities_in_single_precision() -> None:
    """In single precision 1 + 1e-12 is 1, but a probability near the floor must still be told from zero."""
    logits = np.array([[0.0, -27.0, -28.0, -80.0]], dtype=np.float32)
    found = np.asarray(log_probabilities_of(logits))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact_log_probabilities(logits).astype(float), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found[0, 3], np.log(1e-12), rtol=1e-6)


def test_the_gradient_of_an_action_of_no_probability_is_finite() -> None:
    logits = np.array([[0.0, -1e4]], dtype=np.float32)
    gradient = jax.grad(lambda table: jnp.sum(log_probabilities_of(table)))(jnp.asarray(logits))
    assert np.all(np.isfinite(gradient))


@pytest.mark.usefixtures("double_precision")
def test_the_gradient_is_that_of_the_floored_softmax() -> None:
    logits = np.random.default_rng(4).normal(size=(2, 3)) * 15
    found = jax.grad(lambda table: log_probabilities_of(table)[0, 1])(jnp.asarray(logits))
    step = 1e-6
    for action in range(3):
        shift = np.zeros(logits.shape)
        shift[0, action] = step
        rise = exact_log_probabilities(logits + shift) - exact_log_probabilities(logits - shift)
        np.testing.assert_allclose(found[0, action], float(rise[0, 1]) / (2 * step), rtol=1e-5, atol=1e-9)
    np.testing.assert_array_equal(found[1], 0)


def random_policy() -> Policy:
    return random_weights(lambda key: Policy(4, 2, 3, (6,), key), seed=2)


def test_act_takes_the_most_probable_action() -> None:
    policy = random_policy()
    generator = np.random.default_rng(3)
    observations, goals = generator.normal(size=(20, 4)), generator.normal(size=(20, 2))
    act = jax.jit(lambda observation, goal: policy.act(observation, goal))
    actions = [int(act(observation, goal)) for observation, goal in zip(observations, goals, strict=True)]
    expected = [
        int(np.argmax(plain_networks.action_probabilities(policy, observation, goal)))
        for observation, goal in zip(observations, goals, strict=True)
    ]
    assert actions == expected
    assert len(set(actions)) == 3, "a policy that always does the same would prove little"


def test_act_takes_plain_lists_and_arrays_of_any_shape() -> None:
    policy = random_policy()
    flat = policy.act(jnp.array([1.0, -2.0, 0.5, 3.0]), jnp.array([0.3, -0.7]))
    assert flat.shape == ()
    assert int(policy.act([1.0, -2.0, 0.5, 3.0], [0.3, -0.7])) == int(flat)
    assert int(policy.act(np.array([[1, -2], [0.5, 3]]), np.array([[0.3], [-0.7]]))) == int(flat)


@pytest.mark.usefixtures("double_precision")
def test_the_value_depends_on_observation_goal_and_time() -> None:
    baseline = random_weights(lambda key: Value(3, 2, (5,), key), seed=6)
    assert baseline.network.weights[0].shape == (3 + 2 + 1, 5)
    generator = np.random.default_rng(7)
    observations, goals = generator.normal(size=(7, 3)), generator.normal(size=(7, 2))
    times = np.arange(7.0)
    evaluate = jax.jit(lambda *rows: baseline(*rows))
    found = evaluate(observations, goals, times)
    rows = zip(observations, goals, times, strict=True)
    np.testing.assert_allclose(found, [plain_networks.value(baseline, *row) for row in rows], rtol=1e-12)
    assert found.shape == (7,)
    assert np.min(np.abs(found - evaluate(observations, goals, times + 1))) > 1e-6
