"""When a run first does well enough."""

from typing import Any

import numpy as np
import pytest

from hindsight_rl.analysis.comparisons import episodes_to_threshold, seconds_to_threshold
from hindsight_rl.core.errors import HindsightError

BATCHES = np.array([0, 10, 20, 40])


@pytest.mark.parametrize(
    ("returns", "episodes", "seconds"),
    [
        ([0.0, 1.0, 5.0, 9.0], 320, 2.0),
        ([0.0, 7.0, 1.0, 9.0], 160, 1.0),  # the first, though it falls again
        ([0.0, 0.0, 0.0, 5.0], 640, 4.0),
        ([5.0, 0.0, 0.0, 0.0], 0, 0.0),
        ([0.0, 1.0, 2.0, 4.999], None, None),
    ],
)
def test_first_evaluation_at_or_above_the_threshold(
    returns: list[float], episodes: int | None, seconds: float | None
) -> None:
    values = np.array(returns)
    assert episodes_to_threshold(16 * BATCHES, values, 5.0) == episodes
    assert seconds_to_threshold(BATCHES, values, 5.0, seconds=4.0) == seconds


def test_run_without_batches_takes_no_time() -> None:
    assert seconds_to_threshold(np.array([0]), np.array([1.0]), 1.0, seconds=3.0) == 0.0


@pytest.mark.parametrize(
    ("steps", "returns", "threshold", "message"),
    [
        ([], [], 1.0, "at least one"),
        ([0, 1], [1.0], 1.0, "one return for each evaluation"),
        ([[0, 1]], [[1.0, 2.0]], 1.0, "one return for each evaluation"),
        ([0, 1], [1.0, np.nan], 1.0, "finite"),
        ([0, 1], [1.0, 2.0], np.nan, "finite"),
        ([1, 1], [1.0, 2.0], 1.0, "order"),
        ([-1, 1], [1.0, 2.0], 1.0, "from zero on"),
    ],
)
def test_evaluations_without_a_threshold_are_refused(
    steps: list[Any], returns: list[Any], threshold: float, message: str
) -> None:
    with pytest.raises(HindsightError, match=message):
        episodes_to_threshold(np.array(steps), np.array(returns), threshold)
    with pytest.raises(HindsightError, match=message):
        seconds_to_threshold(np.array(steps), np.array(returns), threshold, seconds=1.0)


@pytest.mark.parametrize("seconds", [-1.0, np.nan, np.inf])
def test_impossible_seconds_are_refused(seconds: float) -> None:
    with pytest.raises(HindsightError, match="seconds must be a finite number"):
        seconds_to_threshold(BATCHES, np.ones(4), 1.0, seconds=seconds)
