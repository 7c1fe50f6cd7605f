"""What a study says of a method over all environments together: average performance as a share of the best possible."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float

from hindsight_rl.analysis.comparisons import (
    interquartile_mean,
    pooled_interquartile_mean,
    probability_of_improvement,
    probability_of_improvement_interval,
    stratified_bootstrap_interval,
)
from hindsight_rl.analysis.study.runs import average_performances, definitive_runs, new_generator
from hindsight_rl.records.runs import StudyResults, distinct


@dataclass(frozen=True)
class AggregateRow:
    """Normalised average performance of a method, pooled over the environments that all methods share."""

    batch_size: int
    method: str
    environments: tuple[str, ...]
    """Those behind the numbers; empty (and the numbers None) where there is none or the method has no finished run."""
    runs: int
    """Finished definitive runs in these environments."""
    interquartile_mean: float | None
    low: float | None
    """Ends of the 95 % bootstrap interval, runs resampled within each environment."""
    high: float | None


@dataclass(frozen=True)
class AggregateComparisonRow:
    """How probable it is that a run of the first method beats one of the second, as a mean over environments."""

    batch_size: int
    first: str
    second: str
    environments: tuple[str, ...]
    """Those behind the numbers, as for `AggregateRow`."""
    probability: float | None
    low: float | None
    """Ends of the 95 % bootstrap interval, runs resampled within each environment."""
    high: float | None


@dataclass(frozen=True)
class _Pool:
    """The normalised values of a batch size's methods in the environments that they share."""

    batch_size: int
    methods: tuple[str, ...]
    environments: tuple[str, ...]
    values: Mapping[tuple[str, str], Float[np.ndarray, " run"]]
    """By environment and method; a method without any finished run has no entry."""

    def tasks(self, method: str) -> list[Float[np.ndarray, " run"]]:
        """The method's values in each environment; none for a method that has no finished run."""
        found = [self.values.get((environment, method)) for environment in self.environments]
        return [values for values in found if values is not None]


def aggregate(
    results: StudyResults, best_returns: Mapping[str, float | None], generator: np.random.Generator | None = None
) -> list[AggregateRow]:
    """One row for each batch size and method.

    An environment counts if its best possible return is known and above zero, and if each method that has a finished
    run in any such environment has one there: a method must not look better for lacking a hard environment. Runs are
    pooled as they are, so an environment with more of them weighs more.
    """
    rows = []
    for pool in _pools(results, best_returns):
        for method in pool.methods:
            tasks = pool.tasks(method)
            low, high = None, None
            if tasks:
                low, high = stratified_bootstrap_interval(tasks, pooled_interquartile_mean, new_generator(generator))
            center = interquartile_mean(tasks) if tasks else None
            environments = pool.environments if tasks else ()
            runs = sum(map(len, tasks))
            rows.append(AggregateRow(pool.batch_size, method, environments, runs, center, low, high))
    return rows


def aggregate_comparisons(
    results: StudyResults, best_returns: Mapping[str, float | None], generator: np.random.Generator | None = None
) -> list[AggregateComparisonRow]:
    """One row for each batch size and pair of methods, in the environments that `aggregate` takes."""
    rows = []
    for pool in _pools(results, best_returns):
        for first, second in combinations(pool.methods, 2):
            left, right = pool.tasks(first), pool.tasks(second)
            probability, low, high = None, None, None
            if left and right:
                probability = probability_of_improvement(left, right)
                low, high = probability_of_improvement_interval(left, right, new_generator(generator))
            environments = pool.environments if left and right else ()
            rows.append(AggregateComparisonRow(pool.batch_size, first, second, environments, probability, low, high))
    return rows


def _pools(results: StudyResults, best_returns: Mapping[str, float | None]) -> list[_Pool]:
    """One for each batch size, in increasing order."""
    values: dict[int, dict[tuple[str, str], Float[np.ndarray, " run"]]] = {}
    for cell, runs in definitive_runs(results).items():
        found = values.setdefault(cell.batch_size, {})
        best = best_returns.get(cell.environment)
        done = average_performances(runs)
        if done.size and best is not None and best > 0:
            found[cell.environment, cell.method] = done / best
    return [_pool(results, batch_size, found) for batch_size, found in sorted(values.items())]


def _pool(results: StudyResults, batch_size: int, values: Mapping[tuple[str, str], np.ndarray]) -> _Pool:
    cells = [cell for cell in results.plans if cell.batch_size == batch_size]
    present = {method for _, method in values}
    shared = [
        environment
        for environment in distinct(cell.environment for cell in cells)
        if present and all((environment, method) in values for method in present)
    ]
    return _Pool(batch_size, tuple(distinct(cell.method for cell in cells)), tuple(shared), values)
