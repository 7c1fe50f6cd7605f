"""How methods compare over runs and tasks: interquartile means, probabilities of improvement, times to a threshold."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int

from hindsight_rl.analysis.statistics import require_options
from hindsight_rl.core.errors import HindsightError

Runs = Float[np.ndarray, " run"]
Tasks = Runs | Sequence[float] | Sequence[Runs] | Sequence[Sequence[float]]
"""The runs of one task, or of several."""
Statistic = Callable[[Sequence[Float[np.ndarray, "resample run"]]], Float[np.ndarray, " resample"]]
"""A number for each resample, from the resampled runs of each task."""


def interquartile_mean(values: Tasks) -> float:
    """Mean of the middle half of the runs of one task, or of several tasks pooled before trimming.

    Of n runs, the floor(n / 4) lowest and as many of the highest are left out: no run counts by a fraction.
    """
    return float(pooled_interquartile_mean([task[None] for task in _tasks(values)])[0])


def pooled_interquartile_mean(tasks: Sequence[Float[np.ndarray, "resample run"]]) -> Float[np.ndarray, " resample"]:
    """The interquartile mean of all tasks' runs together, for each resample: a statistic to bootstrap."""
    pooled = np.sort(np.concatenate(tasks, axis=1), axis=1)
    trimmed = pooled.shape[1] // 4
    return pooled[:, trimmed : pooled.shape[1] - trimmed].mean(axis=1)


def stratified_bootstrap_interval(
    tasks: Tasks,
    statistic: Statistic,
    generator: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> tuple[float, float]:
    """Percentile bootstrap interval of a statistic of several tasks, whose runs are resampled within their task.

    It says how much the statistic owes to the runs that happened to be made, not to the choice of tasks. For a handful
    of runs it is known to be too narrow: it resamples only the runs it has.
    """
    tasks = _tasks(tasks)
    require_options(confidence, resamples)
    drawn = [task[generator.integers(len(task), size=(resamples, len(task)))] for task in tasks]
    values = np.asarray(statistic(drawn), dtype=np.float64)
    if values.shape != (resamples,) or not np.all(np.isfinite(values)):
        raise HindsightError(
            f"A statistic must give a finite number for each of the {resamples} resamples, not shape {values.shape}."
        )
    return _percentiles(values, confidence)


def probability_of_improvement(left: Tasks, right: Tasks) -> float:
    """P(X > Y) + P(X = Y) / 2 for a run X of `left` and a run Y of `right`; of several tasks, the mean over tasks."""
    return float(np.mean([wins.mean() for wins in _wins(left, right)]))


def probability_of_improvement_interval(
    left: Tasks,
    right: Tasks,
    generator: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> tuple[float, float]:
    """Percentile bootstrap interval of the probability of improvement, both sides resampled within each task.

    Where every run of one side beats every run of the other, the interval is a single point, however few they are.
    """
    require_options(confidence, resamples)
    totals = np.zeros(resamples)
    tables = _wins(left, right)
    for wins in tables:
        # How often each run is drawn says all there is to say of a resample: no table is made for each of them.
        rows, columns = (_counts(runs, resamples, generator) for runs in wins.shape)
        totals += np.sum(rows @ wins * columns, axis=1) / wins.size
    return _percentiles(totals / len(tables), confidence)


def episodes_to_threshold(
    episodes: Int[np.ndarray, " evaluation"], mean_returns: Float[np.ndarray, " evaluation"], threshold: float
) -> int | None:
    """Episodes (or batches) seen by the first evaluation at or above the threshold; None for a run without one."""
    first = _first_reached(episodes, mean_returns, threshold)
    return None if first is None else int(episodes[first])


def seconds_to_threshold(
    batches: Int[np.ndarray, " evaluation"],
    mean_returns: Float[np.ndarray, " evaluation"],
    threshold: float,
    seconds: float,
) -> float | None:
    """The run's seconds until that evaluation, as if each batch took equally long; None for a run without one."""
    if not (np.isfinite(seconds) and seconds >= 0):
        raise HindsightError(f"A run's seconds must be a finite number of at least zero, not {seconds}.")
    first = _first_reached(batches, mean_returns, threshold)
    if first is None:
        return None
    # A run that is at the threshold before it learns took no time for it, even if it never learned at all.
    return float(seconds * batches[first] / batches[-1]) if batches[first] else 0.0


def _first_reached(steps: np.ndarray, mean_returns: np.ndarray, threshold: float) -> int | None:
    steps, mean_returns = np.asarray(steps), np.asarray(mean_returns, dtype=np.float64)
    if steps.ndim != 1 or steps.shape != mean_returns.shape or not steps.size:
        raise HindsightError(
            "A threshold needs one return for each evaluation and at least one,"
            f" not shapes {mean_returns.shape} and {steps.shape}."
        )
    if not (np.all(np.isfinite(steps)) and np.all(np.isfinite(mean_returns)) and np.isfinite(threshold)):
        raise HindsightError("A threshold needs finite numbers: leave failed runs out.")
    if np.any(steps < 0) or np.any(steps[1:] <= steps[:-1]):
        raise HindsightError("A threshold needs evaluations in the order in which they were made, from zero on.")
    reached = np.flatnonzero(mean_returns >= threshold)
    return int(reached[0]) if reached.size else None


def _tasks(values: Tasks) -> list[Runs]:
    """The runs of each task; plain numbers are the runs of a single one."""
    single = isinstance(values, np.ndarray) or (len(values) > 0 and np.ndim(values[0]) == 0)
    tasks = [np.asarray(task, dtype=np.float64) for task in ([values] if single else values)]
    if not tasks:
        raise HindsightError("A statistic over tasks needs at least one task.")
    for task in tasks:
        if task.ndim != 1 or not task.size:
            raise HindsightError(f"A task needs a value for each run and at least one run, not shape {task.shape}.")
        if not np.all(np.isfinite(task)):
            raise HindsightError("A statistic over runs needs finite values: leave failed runs out.")
    return tasks


def _wins(left: Tasks, right: Tasks) -> list[Float[np.ndarray, "left right"]]:
    """For each task, who wins between each pair of runs: 1 for the left, 0 for the right, 1/2 where they are equal."""
    left, right = _tasks(left), _tasks(right)
    if len(left) != len(right):
        raise HindsightError(f"Both sides need the same tasks, but there are {len(left)} and {len(right)}.")
    return [np.heaviside(first[:, None] - second, 0.5) for first, second in zip(left, right, strict=True)]


def _counts(runs: int, resamples: int, generator: np.random.Generator) -> Int[np.ndarray, "resample run"]:
    """How often each run is drawn; counting draws is several times faster than drawing counts."""
    drawn = generator.integers(runs, size=(resamples, runs)) + runs * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * runs).reshape(resamples, runs)


def _percentiles(values: Float[np.ndarray, " resample"], confidence: float) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
