"""Work on wanted pairs only, tile by tile."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.compilation import quick_jit

from hindsight_rl.core import pairs as pairwise

SHAPES = [(5, 7), (30, 20), (70, 80)]
"""One for each size of tile: 64, 128 and 512."""


def function_of_pair(row: jax.Array, goal: jax.Array) -> jax.Array:
    """Two outputs that tell every pair from every other."""
    return jnp.stack([row * 100 + goal, goal - row], axis=1).astype(jnp.float32)


@quick_jit
def evaluated(wanted: jax.Array) -> tuple[jax.Array, jax.Array]:
    pairs = pairwise.select(wanted)
    return pairs.numbers, pairwise.evaluate(function_of_pair, pairs, 2)


@quick_jit
def accumulated(wanted: jax.Array) -> dict[str, jax.Array]:
    def tile(row: jax.Array, goal: jax.Array, real: jax.Array) -> dict[str, jax.Array]:
        contributions = jnp.where(real[:, None], function_of_pair(row, goal), 0)
        seen = jnp.zeros(wanted.shape, jnp.int32).at[row, goal].add(real.astype(jnp.int32))
        return {"sums": jnp.sum(contributions, axis=0), "seen": seen}

    return pairwise.accumulate(
        tile, pairwise.select(wanted), {"sums": jnp.zeros(2), "seen": jnp.zeros(wanted.shape, jnp.int32)}
    )


def assert_evaluated(wanted: np.ndarray) -> None:
    numbers, table = (np.asarray(part) for part in evaluated(wanted))
    rows, goals = np.nonzero(wanted)
    np.testing.assert_array_equal(numbers[rows, goals], np.arange(len(rows)))
    expected = np.stack([rows * 100 + goals, goals - rows], axis=1)
    np.testing.assert_array_equal(table[numbers[rows, goals]], expected)


def assert_accumulated(wanted: np.ndarray) -> None:
    found = accumulated(wanted)
    rows, goals = np.nonzero(wanted)
    np.testing.assert_array_equal(found["seen"], wanted.astype(int))
    np.testing.assert_allclose(found["sums"], [np.sum(rows * 100 + goals), np.sum(goals - rows)], rtol=1e-5)


@given(shape=st.sampled_from(SHAPES[:2]), share=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_every_wanted_pair_is_worked_on_once(shape: tuple[int, int], share: float, seed: int) -> None:
    wanted = np.random.default_rng(seed).random(shape) < share
    assert_evaluated(wanted)
    assert_accumulated(wanted)


@pytest.mark.parametrize("make", [np.zeros, np.ones], ids=["none", "all"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_none_and_all(shape: tuple[int, int], make: Callable[..., np.ndarray]) -> None:
    wanted = make(shape, bool)
    assert_evaluated(wanted)
    assert_accumulated(wanted)


@given(exponents=st.lists(st.floats(-30, 3), min_size=1, max_size=60), seed=st.integers(0, 2**32 - 1))
def test_what_is_not_felt_is_lost_in_rounding_even_together(exponents: list[float], seed: int) -> None:
    signs = np.random.default_rng(seed).choice([-1, 0, 1], len(exponents))
    numbers = (signs * 10.0 ** np.array(exponents)).astype(np.float32)
    left_out = np.abs(numbers[~np.asarray(pairwise.significant(numbers))])
    assert np.sum(left_out.astype(np.float64)) <= np.finfo(np.float32).eps * np.max(np.abs(numbers))
    assert np.max(np.abs(numbers)) not in left_out or not np.any(numbers)


def test_small_numbers_among_large_ones_are_not_felt_nor_are_zeros() -> None:
    numbers = jnp.array([[3.0, -1e-6], [0.0, 1e-9]])
    np.testing.assert_array_equal(pairwise.significant(numbers), [[True, True], [False, False]])
    np.testing.assert_array_equal(pairwise.significant(numbers * 1e-20), [[True, True], [False, False]])
    assert not np.any(pairwise.significant(jnp.zeros(5)))


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_felt(broken: float) -> None:
    assert pairwise.significant(jnp.array([1.0, broken, 0.0]))[1]


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128])
def test_tiles_that_are_just_full(count: int) -> None:
    wanted = np.zeros((16, 16), bool)
    wanted.ravel()[np.random.default_rng(count).permutation(256)[:count]] = True
    assert pairwise.tile_size(256) == 64
    assert int(pairwise.select(jnp.asarray(wanted)).tiles) == -(-count // 64)
    assert_evaluated(wanted)
    assert_accumulated(wanted)
