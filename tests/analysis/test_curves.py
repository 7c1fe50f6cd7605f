"""The curves of a study: mean return, and whatever else the methods recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from reference.studies import BATCHES, definitive_run, failed, synthetic_study

from hindsight_rl.analysis.statistics import bootstrap_interval, learning_curve
from hindsight_rl.analysis.study.curves import learning_curves, metric_curves
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.evaluations import Evaluations
from hindsight_rl.records.runs import DEFINITIVE, Cell, FinishedRun, StudyResults

STUDY = synthetic_study()
WITH_A_FAILURE = list(STUDY.plans)[-1]
GCPG, HPG = Cell("bit-flipping-8", 2, "gcpg"), Cell("bit-flipping-8", 2, "hpg")
NAN = float("nan")


def with_runs(runs: Sequence[FinishedRun]) -> StudyResults:
    """The plans of two cells, with other runs."""
    return replace(STUDY, plans={cell: STUDY.plans[cell] for cell in (GCPG, HPG)}, runs=runs)


def recording(cell: Cell, seed: int, values: Mapping[str, Sequence[float]]) -> FinishedRun:
    """A definitive run that recorded something of its own at each of three evaluations."""
    run = definitive_run(cell, seed, [1.0, 2.0, 3.0])
    return replace(run, metrics={**run.metrics, **{name: np.array(column) for name, column in values.items()}})


def test_curve_is_that_of_the_table_of_evaluations() -> None:
    runs = STUDY.of(WITH_A_FAILURE, DEFINITIVE)
    table = Evaluations(
        seeds=np.array([run.key.seed for run in runs]),
        rates={"learning_rate": np.full(6, 1e-3)},
        batches=runs[0].batches,
        episodes=runs[0].episodes,
        metrics={name: np.stack([run.metrics[name] for run in runs]) for name in ("mean_return", "success_rate")},
    )
    found, expected = learning_curves(STUDY)[-1], learning_curve(table)
    assert found.cell == WITH_A_FAILURE
    assert found.curve.runs == expected.runs == 5
    for name in ("batches", "mean", "low", "high"):
        np.testing.assert_array_equal(getattr(found.curve, name), getattr(expected, name))
    np.testing.assert_array_equal(found.episodes, 16 * found.curve.batches)


def test_curve_without_runs_has_the_planned_evaluations() -> None:
    raised = failed(definitive_run(GCPG, 0, [1.0, 2.0]), batch=-1)
    without, of_failed = learning_curves(with_runs([raised]))[::-1]
    for found in (without, of_failed):
        np.testing.assert_array_equal(found.curve.batches, np.arange(0, BATCHES + 1, 10))
        np.testing.assert_array_equal(found.episodes, 2 * found.curve.batches)
        assert found.curve.runs == 0
        assert np.isnan([found.curve.mean, found.curve.low, found.curve.high]).all()


def test_a_plan_of_more_evaluations_than_memory_could_list_is_refused() -> None:
    plan = STUDY.plans[HPG]
    endless = {**plan, "definitive": {**plan["definitive"], "batches": 10**15, "evaluate_every": 1}}
    results = replace(STUDY, plans={HPG: endless}, runs=[])
    with pytest.raises(HindsightError, match="is planned to have 1,000,000,000,000,001 evaluations"):
        learning_curves(results)


def test_curve_of_runs_with_different_evaluations_is_refused() -> None:
    with pytest.raises(HindsightError, match="bit-flipping-8-batch2-hpg were not evaluated after the same batches"):
        learning_curves(with_runs([definitive_run(HPG, 0, [1.0, 2.0]), definitive_run(HPG, 1, [1.0, 2.0, 3.0])]))


def test_other_metrics_have_curves_in_the_cells_that_recorded_them() -> None:
    runs = [
        recording(HPG, 0, {"entropy": [NAN, 2.0, 1.0], "steps": [0.0, 5.0, 9.0], "never": [NAN, NAN, NAN]}),
        recording(HPG, 1, {"entropy": [NAN, 4.0, 2.0], "steps": [0.0, 5.0, 9.0]}),
        definitive_run(GCPG, 0, [1.0, 2.0, 3.0]),
        failed(recording(GCPG, 1, {"loss": [1.0, 1.0, 1.0]}), batch=10),
    ]
    found = metric_curves(with_runs(runs))
    assert list(found) == ["entropy"]
    (one,) = found["entropy"]
    assert (one.cell, one.curve.runs) == (HPG, 2)
    np.testing.assert_array_equal(one.curve.batches, [10, 20])
    np.testing.assert_array_equal(one.episodes, [20, 40])
    np.testing.assert_array_equal(one.curve.mean, [3.0, 1.5])
    expected = bootstrap_interval(np.array([[2.0, 1.0], [4.0, 2.0]]), generator=np.random.default_rng(0))
    np.testing.assert_array_equal([one.curve.low, one.curve.high], expected)
    assert metric_curves(STUDY) == {}


def test_each_evaluation_counts_the_runs_that_have_a_value_there() -> None:
    values = ([1.0, NAN, 5.0], [3.0, NAN, np.inf], [8.0, 4.0, NAN])
    runs = [recording(HPG, seed, {"kl": column}) for seed, column in enumerate(values)]
    (one,) = metric_curves(with_runs([*runs, definitive_run(HPG, 3, [1.0, 1.0, 1.0])]))["kl"]
    assert one.curve.runs == 3
    np.testing.assert_array_equal(one.curve.batches, [0, 10, 20])
    np.testing.assert_array_equal(one.curve.mean, [4.0, 4.0, 5.0])
    np.testing.assert_array_equal(one.curve.low[1:], [4.0, 5.0])
    assert one.curve.low[0] < 4.0 < one.curve.high[0]
