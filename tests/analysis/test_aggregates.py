"""Methods over all environments together, against plain computations."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from reference.studies import best_return, keep_runs, synthetic_study

from hindsight_rl.analysis.study.aggregates import aggregate, aggregate_comparisons
from hindsight_rl.records.runs import DEFINITIVE, Cell, FinishedRun, StudyResults

ENVIRONMENTS = ("bit-flipping-8", "four-rooms", "empty-room")
METHODS = ("gcpg", "hpg", "hpg-no-ratios")
STUDY = synthetic_study(ENVIRONMENTS, METHODS)
BEST: dict[str, float | None] = {environment: best_return(environment) for environment in ENVIRONMENTS}


def tasks(study: StudyResults, batch_size: int, method: str, environments: tuple[str, ...]) -> list[list[float]]:
    return [
        [
            run.average_performance / best_return(environment)
            for run in study.of(Cell(environment, batch_size, method), DEFINITIVE)
            if run.failure is None
        ]
        for environment in environments
    ]


def test_normalised_performances_are_pooled() -> None:
    rows = aggregate(STUDY, BEST)
    assert [(row.batch_size, row.method) for row in rows] == [(size, method) for size in (2, 16) for method in METHODS]
    for row in rows:
        pooled = np.concatenate(tasks(STUDY, row.batch_size, row.method, ENVIRONMENTS))
        assert row.environments == ENVIRONMENTS
        assert row.runs == len(pooled)
        assert row.interquartile_mean == pytest.approx(scipy.stats.trim_mean(pooled, 0.25))
    assert [row.runs for row in rows] == [18] * 5 + [17]  # one run failed


def test_interval_agrees_with_scipy() -> None:
    row = aggregate(STUDY, BEST, np.random.default_rng(3))[1]

    def statistic(*samples: np.ndarray, axis: int) -> np.ndarray:
        return scipy.stats.trim_mean(np.concatenate(samples, axis=axis), 0.25, axis=axis)

    samples = tasks(STUDY, 2, "hpg", ENVIRONMENTS)
    expected = scipy.stats.bootstrap(
        samples, statistic, method="percentile", n_resamples=5000, rng=np.random.default_rng(4)
    ).confidence_interval
    # 2000 resamples place an end of the interval to within a few hundredths of its width.
    tolerance = 0.08 * (expected.high - expected.low)
    assert (row.low, row.high) == pytest.approx((expected.low, expected.high), abs=tolerance)


def test_comparison_is_a_mean_over_environments() -> None:
    study = synthetic_study(ENVIRONMENTS, ("one", "other"), runs=5, failures=False)
    for row in aggregate_comparisons(study, BEST):
        left, right = (tasks(study, row.batch_size, method, ENVIRONMENTS) for method in (row.first, row.second))
        expected = [scipy.stats.mannwhitneyu(x, y).statistic / 25 for x, y in zip(left, right, strict=True)]
        assert (row.first, row.second, row.environments) == ("one", "other", ENVIRONMENTS)
        assert row.probability == pytest.approx(np.mean(expected))
        assert row.probability is not None
        assert row.low is not None
        assert row.high is not None
        assert row.low < row.probability < row.high


def test_each_pair_is_compared_once() -> None:
    rows = aggregate_comparisons(STUDY, BEST)
    pairs = [("gcpg", "hpg"), ("gcpg", "hpg-no-ratios"), ("hpg", "hpg-no-ratios")]
    assert [(row.batch_size, row.first, row.second) for row in rows] == [(s, *pair) for s in (2, 16) for pair in pairs]


@pytest.mark.parametrize("best", [None, 0.0, -1.0])
def test_environment_without_a_best_return_is_left_out(best: float | None) -> None:
    rows = aggregate(STUDY, {**BEST, "four-rooms": best})
    assert {row.environments for row in rows} == {("bit-flipping-8", "empty-room")}
    rows_without = aggregate(STUDY, {name: value for name, value in BEST.items() if name != "four-rooms"})
    assert rows == rows_without


def lacking(run: FinishedRun) -> bool:
    return run.cell != Cell("empty-room", 2, "hpg")


def test_environment_that_a_method_lacks_is_left_out_for_all() -> None:
    study = keep_runs(STUDY, lacking)
    for rows in (aggregate(study, BEST), aggregate_comparisons(study, BEST)):
        for row in rows:
            expected = ENVIRONMENTS if row.batch_size == 16 else ("bit-flipping-8", "four-rooms")
            assert row.environments == expected
    # The same when the cell was never planned.
    plans = {cell: plan for cell, plan in STUDY.plans.items() if cell != Cell("empty-room", 2, "hpg")}
    assert aggregate(replace(study, plans=plans), BEST) == aggregate(study, BEST)


def test_method_without_any_run_does_not_spoil_the_others() -> None:
    study = keep_runs(STUDY, lambda run: run.cell.method != "hpg" or run.key.stage != DEFINITIVE)
    for row in aggregate(study, BEST):
        if row.method == "hpg":
            assert (row.environments, row.runs, row.interquartile_mean, row.low, row.high) == ((), 0, None, None, None)
        else:
            assert row.environments == ENVIRONMENTS
            assert row.interquartile_mean is not None
    for comparison in aggregate_comparisons(study, BEST):
        known = "hpg" not in (comparison.first, comparison.second)
        assert (comparison.probability is not None) == known
        assert comparison.environments == (ENVIRONMENTS if known else ())


def test_methods_that_share_no_environment() -> None:
    def apart(run: FinishedRun) -> bool:
        return (run.cell.method == "gcpg") == (run.cell.environment == "four-rooms")

    rows = aggregate(keep_runs(STUDY, apart), BEST)
    assert {(row.environments, row.runs, row.interquartile_mean) for row in rows} == {((), 0, None)}
    assert {row.probability for row in aggregate_comparisons(keep_runs(STUDY, apart), BEST)} == {None}


def test_study_without_runs() -> None:
    study = keep_runs(STUDY, lambda run: False)
    assert {row.interquartile_mean for row in aggregate(study, BEST)} == {None}
    assert aggregate(replace(study, plans={}), BEST) == []
