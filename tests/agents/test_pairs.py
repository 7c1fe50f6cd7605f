"""Work on wanted pairs only, tile by tile."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.compilation import quick_jit

from hindsight.agents import pairs as pairwise

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


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128])
def test_tiles_that_are_just_full(count: int) -> None:
    wanted = np.zeros((16, 16), bool)
    wanted.ravel()[np.random.default_rng(count).permutation(256)[:count]] = True
    assert pairwise.tile_size(256) == 64
    assert int(pairwise.select(jnp.asarray(wanted)).tiles) == -(-count // 64)
    assert_evaluated(wanted)
    assert_accumulated(wanted)
