"""Distributions over actions: draws, densities, entropies, bounded means and the floor of the deviation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from hindsight_rl.networks.heads import Categorical, Normal

OUTPUTS = jnp.asarray(np.random.default_rng(0).normal(size=(5, 3)), jnp.float32)
BOUNDS = ((-2.0, 0.0, -np.inf), (6.0, 1.0, np.inf))
UNIT = np.array([4, 0.5, 1])


def test_a_categorical_is_a_softmax() -> None:
    head = Categorical(3)
    rows = head.rows(OUTPUTS)
    probabilities = np.asarray(jax.nn.softmax(OUTPUTS), np.float64)
    np.testing.assert_allclose(head.entropy(rows), stats.entropy(probabilities, axis=1), rtol=1e-5)
    np.testing.assert_array_equal(head.mode(rows), np.argmax(OUTPUTS, axis=1))
    actions = jnp.array([0, 2, 1, 1, 0])
    expected = np.log(probabilities)[np.arange(5), actions]
    np.testing.assert_allclose(head.log_probability(rows, actions), expected, rtol=1e-5)
    numbers = jnp.array([[4, 0], [1, 1], [2, 3], [0, 0], [3, 2]])
    expected = np.log(probabilities)[numbers, np.asarray(actions)[:, None]]
    np.testing.assert_allclose(head.look_up(rows, numbers, actions), expected, rtol=1e-5)


@pytest.mark.parametrize("smallest", [0.0, 0.3])
@pytest.mark.parametrize("bounded", [False, True])
def test_a_normal_has_its_means_within_bounds_and_its_deviation_above_a_floor(bounded: bool, smallest: float) -> None:
    deviation = np.array([0.5, 1e-6, 2.0])
    head = Normal(jnp.log(jnp.asarray(deviation, jnp.float32)), BOUNDS, bounded, smallest)
    rows = np.asarray(head.rows(OUTPUTS))
    outputs = np.array(OUTPUTS)
    if bounded:  # the last component has a bound on one side only
        outputs[:, :2] = np.tanh(outputs[:, :2])
    np.testing.assert_allclose(rows, np.array([2, 0.5, 0]) + UNIT * outputs, rtol=1e-5, atol=1e-6)
    scale = UNIT * (deviation + smallest)
    actions = np.asarray(head.sample(jnp.asarray(rows), jax.random.key(1)))
    normal = stats.norm(rows.astype(np.float64), scale)
    np.testing.assert_allclose(head.log_probability(rows, actions), normal.logpdf(actions).sum(axis=1), rtol=2e-3)
    np.testing.assert_allclose(head.entropy(rows), normal.entropy().sum(axis=1), rtol=1e-5)
    many = np.asarray(head.sample(jnp.zeros((20000, 3)), jax.random.key(2)))
    np.testing.assert_allclose(many.std(axis=0), scale, rtol=0.03)
    assert np.all((np.asarray(head.mode(rows))[:, :2] >= [-2, 0]) & (np.asarray(head.mode(rows))[:, :2] <= [6, 1]))


def test_a_deviation_at_its_floor_still_has_a_gradient() -> None:
    """A maximum would have none there, and the deviation would never grow again."""
    slope = jax.grad(lambda log: jnp.sum(Normal(log, smallest_deviation=0.3).entropy(jnp.zeros((1, 3)))))
    assert np.all(np.asarray(slope(jnp.full(3, -4.0))) > 1e-3)
