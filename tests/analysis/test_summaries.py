"""Rows of a study against plain loops over its runs, at every stage of being finished."""

import statistics
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.stats
from reference.studies import best_return, definitive_run, failed, synthetic_study

from hindsight_rl.analysis.study.summaries import (
    comparisons,
    performance,
    ratio_histogram,
    thresholds,
)
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.runs import DEFINITIVE, Cell, FinishedRun, StudyResults

STUDY = synthetic_study()
CELLS = list(STUDY.plans)
BEST = {"bit-flipping-8": 5.0, "four-rooms": 10.0}
HPG, GCPG = Cell("bit-flipping-8", 2, "hpg"), Cell("bit-flipping-8", 2, "gcpg")
WITH_A_FAILURE = CELLS[-1]


def no_paper(environment: str, method: str, batch_size: int) -> None:
    return None


def with_runs(runs: list[FinishedRun]) -> StudyResults:
    return replace(STUDY, plans={cell: STUDY.plans[cell] for cell in (GCPG, HPG)}, runs=runs)


def plain_values(cell: Cell) -> list[float]:
    return [
        statistics.fmean(run.mean_returns) for run in STUDY.runs if run.cell == cell and run.key.stage == DEFINITIVE
    ]


# Performance


@pytest.mark.parametrize("cell", CELLS[:-1], ids=lambda cell: cell.name)
def test_performance_of_a_cell(cell: Cell) -> None:
    row = performance(STUDY, no_paper)[CELLS.index(cell)]
    values = plain_values(cell)
    assert row.cell == cell
    assert (row.planned, row.finished, row.failed) == (6, 6, 0)
    assert row.mean == pytest.approx(statistics.fmean(values))
    assert row.std == pytest.approx(statistics.pstdev(values))
    assert row.interquartile_mean == pytest.approx(scipy.stats.trim_mean(values, 0.25))
    assert row.final_return == pytest.approx(
        statistics.fmean(run.mean_returns[-1] for run in STUDY.of(cell, DEFINITIVE))
    )
    assert row.final_return is not None
    assert row.final_success_rate == pytest.approx(row.final_return / best_return(cell.environment))
    assert row.choices == {"learning_rate": 1e-3}


def test_interval_of_the_interquartile_mean_agrees_with_scipy() -> None:
    # Both have 2000 resamples or more of six runs; the tolerance is a tenth of the interval's width.
    row = performance(STUDY, no_paper)[CELLS.index(HPG)]
    expected = scipy.stats.bootstrap(
        (plain_values(HPG),),
        lambda values, axis: scipy.stats.trim_mean(values, 0.25, axis=axis),
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    tolerance = 0.1 * (expected.high - expected.low)
    assert (row.low, row.high) == pytest.approx((expected.low, expected.high), abs=tolerance)


def test_failed_runs_count_only_as_failed() -> None:
    row = performance(STUDY, no_paper)[-1]
    assert (row.planned, row.finished, row.failed) == (6, 5, 1)
    values = [run.average_performance for run in STUDY.of(WITH_A_FAILURE, DEFINITIVE)[:-1]]
    assert row.mean == pytest.approx(statistics.fmean(values))
    assert row.final_return is not None
    assert np.isfinite(row.final_return)


def test_one_run_has_no_deviation_and_no_interval() -> None:
    (alone,) = STUDY.of(HPG, DEFINITIVE)[:1]
    row = next(row for row in performance(with_runs([alone]), no_paper) if row.cell == HPG)
    assert row.mean == row.interquartile_mean == pytest.approx(alone.average_performance)
    assert (row.finished, row.std, row.low, row.high) == (1, None, None, None)


def test_rates_of_a_method_with_a_baseline() -> None:
    study = synthetic_study(methods=("hpg+b",), batch_sizes=(2,))
    for row in performance(study, no_paper):
        assert row.choices == {"learning_rate": 1e-3, "baseline_learning_rate": 1e-3}


def test_difference_from_the_paper() -> None:
    asked = []

    def paper(environment: str, method: str, batch_size: int) -> tuple[float, float] | None:
        asked.append(Cell(environment, batch_size, method))
        return {HPG: (4.0, 0.5), GCPG: (0.0, 0.0)}.get(asked[-1])

    rows = {row.cell: row for row in performance(STUDY, paper)}
    assert asked == CELLS
    difference = statistics.fmean(plain_values(HPG)) - 4.0
    assert rows[HPG].difference == pytest.approx(difference)
    assert rows[HPG].difference_in_stds == pytest.approx(difference / 0.5)
    assert rows[GCPG].difference == rows[GCPG].mean
    assert rows[GCPG].difference_in_stds is None  # the paper's runs did not vary at all
    other = rows[WITH_A_FAILURE]
    assert (other.paper_mean, other.paper_std, other.difference, other.difference_in_stds) == (None,) * 4


def test_row_does_not_depend_on_other_cells() -> None:
    alone = replace(STUDY, plans={HPG: STUDY.plans[HPG]}, runs=STUDY.of(HPG))
    assert performance(alone, no_paper) == [performance(STUDY, no_paper)[CELLS.index(HPG)]]
    other = performance(alone, no_paper, np.random.default_rng(5))[0]
    assert other.low != performance(alone, no_paper)[0].low


# Thresholds


@pytest.mark.parametrize(
    ("returns", "reached", "episodes", "seconds"),
    [
        ([[0.0, 9.0], [0.0, 9.0], [9.0, 9.0]], 3, 20, 8.0),
        ([[0.0, 9.0], [0.0, 0.0], [9.0, 9.0]], 2, 20, 8.0),
        ([[0.0, 0.0], [0.0, 0.0], [9.0, 9.0]], 1, None, None),
        ([[0.0, 9.0], [0.0, 0.0]], 1, None, None),  # half of them never get there
        ([[0.0, 4.5], [0.0, 4.4]], 1, None, None),
        ([[5.0, 5.0]], 1, 0, 0.0),
        ([], 0, None, None),
    ],
)
def test_median_time_counts_runs_that_never_get_there(
    returns: list[list[float]], reached: int, episodes: float | None, seconds: float | None
) -> None:
    row = thresholds(with_runs([definitive_run(HPG, seed, values) for seed, values in enumerate(returns)]), BEST)[1]
    assert row.cell == HPG
    assert row.threshold == 4.5
    assert (row.finished, row.reached) == (len(returns), reached)
    assert (row.median_episodes, row.median_seconds) == (episodes, seconds)


def test_seconds_are_shared_out_by_batches() -> None:
    runs = [
        definitive_run(HPG, 0, [0.0, 5.0, 5.0, 5.0, 5.0], seconds=8.0),
        definitive_run(HPG, 1, [0.0, 0.0, 0.0, 5.0, 5.0], seconds=4.0),
    ]
    row = thresholds(with_runs(runs), BEST)[1]
    assert row.median_seconds == pytest.approx((8.0 / 4 + 4.0 * 3 / 4) / 2)
    assert row.median_episodes == (20 + 60) / 2


def test_failed_runs_are_not_asked_when_they_got_there() -> None:
    runs = [definitive_run(HPG, 0, [0.0, 0.0, 5.0]), failed(definitive_run(HPG, 1, [5.0, 5.0, 5.0]), batch=20)]
    row = thresholds(with_runs(runs), BEST)[1]
    assert (row.finished, row.reached, row.median_episodes) == (1, 1, 40)


@pytest.mark.parametrize("best", [{}, {"bit-flipping-8": None}, {"bit-flipping-8": 0.0}, {"bit-flipping-8": -3.0}])
def test_unknown_best_return_gives_no_threshold(best: dict[str, Any]) -> None:
    row = thresholds(with_runs([definitive_run(HPG, 0, [1.0])]), best)[1]
    assert (row.threshold, row.finished, row.reached, row.median_episodes, row.median_seconds) == (None, 1, *[None] * 3)


def test_share_of_the_best_return() -> None:
    assert thresholds(STUDY, BEST, share=0.5)[0].threshold == 2.5
    for share in (0.0, 1.1, float("nan")):
        with pytest.raises(HindsightError, match="share must lie above 0"):
            thresholds(STUDY, BEST, share=share)


# Comparisons


def test_each_pair_of_methods_is_compared_once() -> None:
    rows = comparisons(STUDY)
    names = [(row.environment, row.batch_size, row.first, row.second) for row in rows]
    pairs = [("gcpg", "hpg"), ("gcpg", "hpg-no-ratios"), ("hpg", "hpg-no-ratios")]
    places = [("bit-flipping-8", 2), ("bit-flipping-8", 16), ("four-rooms", 2), ("four-rooms", 16)]
    assert names == [(*place, *pair) for place in places for pair in pairs]


def test_probability_is_mann_whitneys_statistic() -> None:
    study = synthetic_study(methods=("hpg", "one", "other"), runs=9, failures=False)
    differing = 0
    for row in comparisons(study):
        cells = (Cell(row.environment, row.batch_size, method) for method in (row.first, row.second))
        left, right = ([run.average_performance for run in study.of(cell, DEFINITIVE)] for cell in cells)
        assert row.probability == pytest.approx(scipy.stats.mannwhitneyu(left, right).statistic / 81)
        assert row.probability is not None
        assert row.low is not None
        assert row.high is not None
        assert row.low <= row.probability <= row.high
        differing += row.low < row.high
    assert differing >= 4  # two methods that learn at the same speed


def test_comparison_leaves_failed_runs_out() -> None:
    runs = [
        definitive_run(GCPG, 0, [1.0]),
        definitive_run(GCPG, 1, [3.0]),
        definitive_run(HPG, 0, [2.0]),
        failed(definitive_run(HPG, 1, [9.0]), batch=0),
    ]
    (row,) = comparisons(with_runs(runs))
    assert (row.first, row.second, row.probability) == ("gcpg", "hpg", 0.5)
    assert (row.first_runs, row.second_runs) == (2, 1)
    assert (row.low, row.high) == (0.0, 1.0)


# Ratios


def test_ratios_are_those_of_the_best_finished_run() -> None:
    runs = [
        replace(definitive_run(HPG, seed, [value]), records={"ratios": np.full((2, 3), seed)})
        for seed, value in enumerate([1.0, 3.0, 2.0])
    ]
    best = failed(replace(definitive_run(HPG, 3, [9.0]), records={"ratios": np.full((2, 3), 3)}), batch=0)
    study = with_runs([*runs, best])
    np.testing.assert_array_equal(ratio_histogram(study, HPG), np.full((2, 3), 1))
    assert ratio_histogram(study, GCPG) is None  # no runs
    assert ratio_histogram(STUDY, GCPG) is None  # no ratios
