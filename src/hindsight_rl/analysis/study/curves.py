"""What the definitive runs of a study recorded over the course of training: a curve for each cell."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from hindsight_rl.analysis.statistics import Curve, bootstrap_interval
from hindsight_rl.analysis.study.runs import definitive_runs, finished, new_generator
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.run import evaluation_batches, evaluation_count
from hindsight_rl.records.runs import Cell, FinishedRun, StudyResults, other_metrics

COUNTERS = ("steps",)
"""Metrics that only count, so that a curve of them says nothing."""
MOST_EVALUATIONS = 10**6
"""Of a plan: a damaged one, or a stranger's, may name any number."""


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """A metric over the course of a cell's finished definitive runs."""

    cell: Cell
    curve: Curve
    episodes: Int[np.ndarray, " evaluation"]
    """Training episodes seen before each of the curve's evaluations."""


def learning_curves(results: StudyResults, generator: np.random.Generator | None = None) -> list[LearningCurve]:
    """Mean return of each cell; where no run has finished, it is NaN at the planned evaluations."""
    curves = []
    for cell, runs in definitive_runs(results).items():
        done = finished(runs)
        curves.append(_curve(cell, done, "mean_return", generator) if done else _unknown(results, cell))
    return curves


def metric_curves(
    results: StudyResults, generator: np.random.Generator | None = None
) -> dict[str, list[LearningCurve]]:
    """For each other metric, by name, the curves of the cells that recorded it; where only some runs did, of these."""
    runs = {cell: finished(of_cell) for cell, of_cell in definitive_runs(results).items()}
    curves: dict[str, list[LearningCurve]] = {}
    for name in other_metrics(name for done in runs.values() for run in done for name in run.metrics):
        recorded = {cell: [run for run in done if _recorded(run, name)] for cell, done in runs.items()}
        found = [_curve(cell, done, name, generator) for cell, done in recorded.items() if done]
        if found and name not in COUNTERS:
            curves[name] = found
    return curves


def _recorded(run: FinishedRun, name: str) -> bool:
    return name in run.metrics and bool(np.isfinite(run.metrics[name]).any())


def _unknown(results: StudyResults, cell: Cell) -> LearningCurve:
    plan = results.plans[cell]["definitive"]
    if (count := evaluation_count(plan["batches"], plan["evaluate_every"])) > MOST_EVALUATIONS:
        raise HindsightError(f"{cell.name} is planned to have {count:,} evaluations: no figure can show so many.")
    batches = np.array(evaluation_batches(plan["batches"], plan["evaluate_every"]))
    unknown = np.full(len(batches), np.nan)
    return LearningCurve(cell, Curve(batches, unknown, unknown, unknown, runs=0), batches * cell.batch_size)


def _curve(cell: Cell, runs: Sequence[FinishedRun], name: str, generator: np.random.Generator | None) -> LearningCurve:
    """Mean and interval at each evaluation at which a run has a value, over the runs that have one there."""
    if any(not np.array_equal(run.batches, runs[0].batches) for run in runs):
        raise HindsightError(f"The definitive runs of {cell.name} were not evaluated after the same batches.")
    values = np.stack([run.metrics[name] for run in runs])
    known = np.isfinite(values)
    means, lows, highs = np.full((3, values.shape[1]), np.nan)
    for those in np.unique(known, axis=1).T:
        points = np.all(known == those[:, None], axis=0)
        if those.any():
            here = values[np.ix_(those, points)]
            means[points] = here.mean(axis=0)
            lows[points], highs[points] = bootstrap_interval(here, generator=new_generator(generator))
    drawn = known.any(axis=0)
    curve = Curve(runs[0].batches[drawn], means[drawn], lows[drawn], highs[drawn], runs=len(runs))
    return LearningCurve(cell, curve, runs[0].episodes[drawn])
