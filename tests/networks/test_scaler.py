"""What networks are shown of numbers with two values, and of all others."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from hindsight_rl.networks.normaliser import Normaliser, Scaler
from hindsight_rl.training.state import state_from_arrays, state_to_arrays

ROWS = np.array([[0.0, 5.0, 0.0, 3.0], [0.0, 7.0, 1.0, 3.0], [1.0, 7.0, 2.0, 3.0], [9.0, 9.0, 9.0, 9.0]], np.float32)
COUNTED = np.array([True, True, True, False])


def test_two_values_are_shown_as_minus_one_and_one_and_others_as_before() -> None:
    scaler = Scaler(4).seen(jnp.asarray(ROWS), jnp.asarray(COUNTED))
    usual = Normaliser(4).seen(jnp.asarray(ROWS), jnp.asarray(COUNTED))
    shown = np.asarray(scaler(jnp.asarray(ROWS[:3])))
    np.testing.assert_allclose(shown[:, 0], [-1, -1, 1])
    np.testing.assert_allclose(shown[:, 1], [-1, 1, 1])
    np.testing.assert_array_equal(shown[:, 2:], usual(jnp.asarray(ROWS[:3]))[:, 2:])


def test_a_second_value_may_come_later_and_a_third_ends_it() -> None:
    everything = jnp.ones(2, bool)
    scaler = Scaler(1).seen(jnp.zeros((2, 1)), everything)
    np.testing.assert_array_equal(scaler(jnp.zeros((1, 1))), [[0.0]])
    scaler = scaler.seen(jnp.full((2, 1), 4.0), everything)
    np.testing.assert_array_equal(scaler(jnp.array([[0.0], [4.0]])), [[-1.0], [1.0]])
    between = scaler.seen(jnp.array([[1.0], [4.0]]), everything)
    beyond = scaler.seen(jnp.array([[5.0], [4.0]]), everything)
    for three in (between, beyond):
        np.testing.assert_array_equal(three(jnp.array([[2.0]])), three.normaliser(jnp.array([[2.0]])))
        assert not np.any(three.two)


def test_nothing_seen_leaves_numbers_as_they_are() -> None:
    np.testing.assert_array_equal(Scaler(3)(jnp.asarray(ROWS[:, :3])), ROWS[:, :3])


def test_statistics_from_before_there_were_switches_show_what_they_showed() -> None:
    """Older checkpoints have no lowest and highest values: nothing in them is a switch, now or later."""
    scaler = Scaler(4).seen(jnp.asarray(ROWS), jnp.asarray(COUNTED))
    template: Any = {"inputs": {"observations": scaler, "goals": scaler}}
    arrays = state_to_arrays(template)
    older = {name: array for name, array in arrays.items() if name.rsplit("/")[-1] in ("count", "mean", "squares")}
    assert len(older) == 6 < len(arrays)
    loaded: Any = state_from_arrays(template, older)
    found = loaded["inputs"]["goals"]
    rows = jnp.asarray(ROWS[:3])
    np.testing.assert_array_equal(found(rows), scaler.normaliser(rows))
    np.testing.assert_array_equal(
        found.seen(rows, jnp.ones(3, bool))(rows), found.normaliser.seen(rows, jnp.ones(3, bool))(rows)
    )
