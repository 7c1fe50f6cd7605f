"""What the definitive runs of a study say: a row for each cell or pair of cells. Failed runs count only as failed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
from jaxtyping import Float, Int

from hindsight_rl.analysis.comparisons import (
    episodes_to_threshold,
    interquartile_mean,
    pooled_interquartile_mean,
    probability_of_improvement,
    probability_of_improvement_interval,
    seconds_to_threshold,
    stratified_bootstrap_interval,
)
from hindsight_rl.analysis.study.runs import average_performances, definitive, definitive_runs, finished, new_generator
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.evaluations import summary
from hindsight_rl.records.runs import DEFINITIVE, Cause, Cell, FinishedRun, StudyResults

PaperValues = Callable[[str, str, int], tuple[float, float] | None]
"""The paper's mean and standard deviation for an environment, method and batch size, or None where it has none."""
Generator = np.random.Generator


@dataclass(frozen=True)
class PerformanceRow:
    """How well a cell's finished definitive runs did; None for what there is no run (or no paper value) to say."""

    cell: Cell
    planned: int
    finished: int
    """Runs that came to their end; all statistics are over these."""
    failed: int
    choices: Mapping[str, float | None]
    """The values of the options that the study varies, which the search chose; None before it has."""
    mean: float | None
    """Mean and standard deviation (ddof 0) of average performance, as in the paper; one run has no deviation."""
    std: float | None
    interquartile_mean: float | None
    low: float | None
    """Ends of the 95 % bootstrap interval of the interquartile mean."""
    high: float | None
    final_return: float | None
    """Mean return, and mean success rate, at the last evaluation."""
    final_success_rate: float | None
    paper_mean: float | None
    paper_std: float | None
    difference: float | None
    """Mean here minus the paper's mean."""
    difference_in_stds: float | None
    """The difference as a multiple of the paper's standard deviation; None where that is zero."""


@dataclass(frozen=True)
class ThresholdRow:
    """How long a cell's finished definitive runs took to come near the best possible return."""

    cell: Cell
    threshold: float | None
    """A share of the best possible return; None, like what follows from it, where that is unknown or not above 0."""
    finished: int
    reached: int | None
    """Finished runs with an evaluation at or above the threshold."""
    median_episodes: float | None
    """Median over all finished runs, in which a run that never got there counts as infinite; None if that is so."""
    median_seconds: float | None


@dataclass(frozen=True)
class ComparisonRow:
    """How probable it is that a run of the first method beats one of the second in average performance."""

    environment: str
    batch_size: int
    first: str
    second: str
    probability: float | None
    """Equal runs count one half; None where a method has no finished run."""
    low: float | None
    """Ends of the 95 % bootstrap interval."""
    high: float | None
    first_runs: int
    """Finished runs behind the probability."""
    second_runs: int


@dataclass(frozen=True)
class MissingRow:
    """What a cell still lacks."""

    cell: Cell
    planned: int
    missing: int
    """Definitive runs that were never made."""
    failures: tuple[tuple[int, Cause], ...]
    """Seed and cause of each definitive run that failed."""
    search_runs: int
    """Runs that the search has made so far, failed ones included."""
    search_unfinished: bool
    """There is more than one setting to choose from, and no definitive run yet."""

    @property
    def complete(self) -> bool:
        """Nothing is missing and nothing failed."""
        return not self.missing and not self.failures


def performance(results: StudyResults, paper: PaperValues, generator: Generator | None = None) -> list[PerformanceRow]:
    """One row for each cell, in the study's order.

    Without a generator each interval is resampled with seed zero, so that a cell's row does not depend on the others.
    """
    runs = definitive_runs(results)
    return [_performance_row(results, cell, runs[cell], paper, generator) for cell in results.plans]


def thresholds(
    results: StudyResults, best_returns: Mapping[str, float | None], share: float = 0.9
) -> list[ThresholdRow]:
    """One row for each cell: episodes and seconds until a share of its environment's best possible return."""
    if not 0 < share <= 1:
        raise HindsightError(f"share must lie above 0 and not above 1, not {share}.")
    rows = []
    for cell, runs in definitive_runs(results).items():
        best = best_returns.get(cell.environment)
        threshold = share * best if best is not None and best > 0 else None
        rows.append(_threshold_row(cell, finished(runs), threshold))
    return rows


def comparisons(results: StudyResults, generator: Generator | None = None) -> list[ComparisonRow]:
    """One row for each environment, batch size and pair of methods, the first being the earlier one in the study."""
    values = {cell: average_performances(runs) for cell, runs in definitive_runs(results).items()}
    methods: dict[tuple[str, int], list[str]] = {}
    for cell in results.plans:
        methods.setdefault((cell.environment, cell.batch_size), []).append(cell.method)
    return [
        _comparison_row(Cell(*place, first), Cell(*place, second), values, generator)
        for place, names in methods.items()
        for first, second in combinations(names, 2)
    ]


def missing(results: StudyResults) -> list[MissingRow]:
    """One row for each cell, complete ones included."""
    rows = []
    for cell, runs in definitive_runs(results).items():
        plan = results.plans[cell]
        settings = prod(len(values) for values in plan["choices"].values())
        search_runs = sum(run.key.stage != DEFINITIVE for run in results.of(cell))
        whole_grid = plan["strategy"] == "grid" and search_runs == settings * plan["search"]["runs"]
        rows.append(
            MissingRow(
                cell=cell,
                planned=plan["definitive"]["runs"],
                missing=max(plan["definitive"]["runs"] - len(runs), 0),
                failures=tuple((run.key.seed, run.failure) for run in runs if run.failure),
                search_runs=search_runs,
                search_unfinished=settings > 1 and not runs and not whole_grid,
            )
        )
    return rows


def ratio_histogram(results: StudyResults, cell: Cell) -> Int[np.ndarray, "time bin"] | None:
    """How the likelihood ratios of the cell's best definitive run were distributed over training, by time step.

    The best is the finished run with the highest average performance, as in the paper's figures. None where there is no
    such run, or where it recorded no ratios.
    """
    runs = finished(definitive(results.of(cell)))
    if not runs:
        return None
    return max(runs, key=lambda run: run.average_performance).records.get("ratios")


def _performance_row(
    results: StudyResults, cell: Cell, runs: Sequence[FinishedRun], paper: PaperValues, generator: Generator | None
) -> PerformanceRow:
    done = finished(runs)
    values = average_performances(done)
    measured = summary(values)
    low, high = None, None
    if len(done) > 1:
        low, high = stratified_bootstrap_interval(values, pooled_interquartile_mean, new_generator(generator))
    paper_mean, paper_std = paper(cell.environment, cell.method, cell.batch_size) or (None, None)
    difference = None
    if measured["mean"] is not None and paper_mean is not None:
        difference = measured["mean"] - paper_mean
    return PerformanceRow(
        cell=cell,
        planned=results.plans[cell]["definitive"]["runs"],
        finished=len(done),
        failed=len(runs) - len(done),
        choices=dict(runs[0].key.choices) if runs else dict.fromkeys(results.plans[cell]["choices"]),
        mean=measured["mean"],
        std=measured["std"] if len(done) > 1 else None,
        interquartile_mean=interquartile_mean(values) if done else None,
        low=low,
        high=high,
        final_return=_mean([run.mean_returns[-1] for run in done]),
        final_success_rate=_mean([run.success_rates[-1] for run in done]),
        paper_mean=paper_mean,
        paper_std=paper_std,
        difference=difference,
        difference_in_stds=difference / paper_std if difference is not None and paper_std else None,
    )


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _threshold_row(cell: Cell, runs: Sequence[FinishedRun], threshold: float | None) -> ThresholdRow:
    if threshold is None:
        return ThresholdRow(cell, None, len(runs), None, None, None)
    episodes = [episodes_to_threshold(run.episodes, run.mean_returns, threshold) for run in runs]
    seconds = [seconds_to_threshold(run.batches, run.mean_returns, threshold, run.seconds) for run in runs]
    reached = sum(value is not None for value in episodes)
    return ThresholdRow(cell, threshold, len(runs), reached, _median(episodes), _median(seconds))


def _median(values: Sequence[float | None]) -> float | None:
    """The median, where None counts as infinite."""
    if not values:
        return None
    median = float(np.median([np.inf if value is None else value for value in values]))
    return median if np.isfinite(median) else None


def _comparison_row(
    first: Cell, second: Cell, values: Mapping[Cell, Float[np.ndarray, " run"]], generator: Generator | None
) -> ComparisonRow:
    left, right = values[first], values[second]
    probability, low, high = None, None, None
    if left.size and right.size:
        probability = probability_of_improvement(left, right)
        low, high = probability_of_improvement_interval(left, right, new_generator(generator))
    return ComparisonRow(
        first.environment, first.batch_size, first.method, second.method, probability, low, high, left.size, right.size
    )
