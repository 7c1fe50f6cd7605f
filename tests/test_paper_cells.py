"""The page that sets our cells beside the paper's: its statistics, and that it is up to date."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

SCRIPTS = Path(__file__).parent.parent / "scripts"
sys.path.append(str(SCRIPTS))

from paper_cells import FOLDER, Row, holm, page  # noqa: E402


def test_the_page_is_what_the_kept_runs_say() -> None:
    assert (FOLDER / "cells.md").read_text() == page()


def test_intervals_are_those_of_welch() -> None:
    ours, theirs = np.array([7.1, 7.9, 8.3, 6.8]), np.array([6.2, 6.4, 6.0, 7.0, 6.3])
    row = Row(("four-rooms", 2, "hpg"), ours, float(np.mean(theirs)), float(np.std(theirs)), len(theirs))
    found = row.welch()
    expected = stats.ttest_ind(ours, theirs, equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert found == pytest.approx((interval.low, interval.high, expected.pvalue))


def test_a_cell_in_which_nothing_is_learned_is_not_tested() -> None:
    assert Row(("bit-flipping-16", 2, "gcpg"), np.zeros(20), 0.0, 0.0, 20).welch() is None


def test_holm_stops_at_the_first_that_does_not_hold() -> None:
    assert holm([0.04, 0.001, None, 0.02, 0.5]) == [False, True, False, False, False]
    assert holm([0.02, 0.001, None, 0.015, 0.5]) == [True, True, False, True, False]
