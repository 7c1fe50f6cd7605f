"""Distinct rows: each found once, and each original row found again."""

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference.compilation import quick_jit

from hindsight_rl.core.distinct import Distinct
from hindsight_rl.core.distinct import distinct_rows as distinct_rows_of_library

distinct_rows = quick_jit(distinct_rows_of_library, static_argnames="limit")

ROWS = arrays(np.float32, (12, 2), elements=st.sampled_from([-1.0, 0.0, 0.5, 2.0]))
COUNTED = arrays(bool, 12)


def assert_distinct(found: Distinct, rows: np.ndarray, counted: np.ndarray) -> None:
    present = np.asarray(found.present)
    expected = np.unique(rows[counted], axis=0)
    assert present.sum() == len(expected)
    assert not np.any(np.diff(present.astype(int)) > 0), "the distinct rows come first, then padding"
    np.testing.assert_array_equal(np.asarray(found.rows)[present], expected)
    index = np.asarray(found.index)
    assert np.all((index >= 0) & (index < len(present))), "where it means nothing, an index must still be in range"
    np.testing.assert_array_equal(np.asarray(found.rows)[index[counted]], rows[counted])


@given(rows=ROWS, counted=COUNTED)
def test_distinct_rows_are_sorted_and_lead_back(rows: np.ndarray, counted: np.ndarray) -> None:
    assert_distinct(distinct_rows(rows, counted, limit=12), rows, counted)


@given(rows=arrays(np.float32, (12, 2), elements=st.sampled_from([0.0, 1.0])), counted=COUNTED)
def test_a_limit_that_just_suffices(rows: np.ndarray, counted: np.ndarray) -> None:
    """Two bits make four rows, however many rows there are."""
    assert_distinct(distinct_rows(rows, counted, limit=4), rows, counted)


def test_nothing_counted_gives_nothing() -> None:
    found = distinct_rows(np.ones((12, 2), np.float32), np.zeros(12, bool), limit=12)
    assert not np.any(found.present)


def test_zero_and_minus_zero_are_one_row() -> None:
    rows = np.zeros((12, 2), np.float32)
    rows[::2] = -0.0
    found = distinct_rows(rows, np.ones(12, bool), limit=12)
    assert int(np.sum(found.present)) == 1
    np.testing.assert_array_equal(found.index, 0)


def test_rows_may_be_mapped_over() -> None:
    rows = np.random.default_rng(0).integers(0, 2, size=(3, 12, 2)).astype(np.float32)
    counted = np.ones((3, 12), bool)
    found = quick_jit(jax.vmap(lambda r, c: distinct_rows_of_library(r, c, 4)))(rows, counted)
    for number in range(3):
        assert_distinct(jax.tree.map(lambda leaf, n=number: leaf[n], found), rows[number], counted[number])
