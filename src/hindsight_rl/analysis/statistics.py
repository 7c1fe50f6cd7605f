"""What several runs say together: means and bootstrap intervals."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.numbers import require_positive_integer
from hindsight_rl.records.evaluations import Evaluations


@dataclass(frozen=True, eq=False)
class Curve:
    """Performance over the course of training, with an interval for its mean over runs."""

    batches: Int[np.ndarray, " evaluation"]
    mean: Float[np.ndarray, " evaluation"]
    low: Float[np.ndarray, " evaluation"]
    high: Float[np.ndarray, " evaluation"]
    runs: int
    """Runs behind the mean; with none, the mean and its interval are NaN."""


def bootstrap_interval(
    values: Float[np.ndarray, "run point"],
    *,
    generator: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
    """Percentile bootstrap interval, at each point, for the mean over runs; a single run gives itself.

    The percentile interval is known to be too narrow for a handful of runs: it resamples only the runs it has.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or not len(values) or not np.all(np.isfinite(values)):
        raise HindsightError(f"An interval needs finite values of shape (run, point), not shape {values.shape}.")
    require_options(confidence, resamples)
    runs = len(values)
    # How often each run is drawn says all there is to say of a resample, so its mean is one matrix product.
    counts = generator.multinomial(runs, np.full(runs, 1 / runs), size=resamples)
    means = counts @ values / runs
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return low, high


def learning_curve(evaluations: Evaluations, generator: np.random.Generator | None = None) -> Curve:
    """Mean return at each evaluation with a 95 % interval, over the runs that did not fail.

    A failed run is left out altogether: its good start would otherwise lift the beginning of the curve only.
    Without a generator the resampling is seeded with zero, so that the same table gives the same curve.
    """
    generator = np.random.default_rng(0) if generator is None else generator
    finished = evaluations.mean_returns[np.all(np.isfinite(evaluations.mean_returns), axis=1)]
    if not len(finished):
        unknown = np.full(len(evaluations.batches), np.nan)
        return Curve(evaluations.batches, unknown, unknown, unknown, runs=0)
    low, high = bootstrap_interval(finished, generator=generator)
    return Curve(evaluations.batches, finished.mean(axis=0), low, high, runs=len(finished))


def require_options(confidence: float, resamples: int) -> None:
    """Refuse what no bootstrap can work with."""
    if not 0 < confidence < 1:
        raise HindsightError(f"confidence must lie between 0 and 1, not {confidence}.")
    require_positive_integer("resamples", resamples)
