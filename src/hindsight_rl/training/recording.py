"""Evaluations as they are added to the table of a job."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from hindsight_rl.records.evaluations import Evaluations
from hindsight_rl.training.program import STEPS
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import Runs, RunState


def record(
    past: Evaluations | None,
    runs: Runs,
    settings: Settings,
    batch: int,
    parts: Sequence[RunState],
    evaluation: Mapping[str, Any],
    totals: Mapping[str, Any],
) -> Evaluations:
    """The evaluations so far with the newest one behind them.

    `totals` are sums over the updates since the one before: of what the agent said of each, recorded as a mean (NaN
    before the first update), and of the actions taken, recorded as their number so far.
    """
    failed = np.concatenate([np.asarray(part.failed_batch) for part in parts]) >= 0
    updates = batch - (int(past.batches[-1]) if past else batch)
    metrics = {name: np.asarray(values, np.float64) for name, values in evaluation.items()}
    metrics[STEPS] = np.asarray(totals[STEPS], np.float64)
    if past:
        metrics[STEPS] = metrics[STEPS] + _last(past, STEPS)
    for name in totals.keys() - metrics.keys():
        metrics[name] = np.asarray(totals[name], np.float64) / updates if updates else np.full(len(failed), np.nan)
    newest = Evaluations(
        seeds=np.asarray(runs.seeds, dtype=np.int64),
        rates={name: np.asarray(values, np.float64) for name, values in runs.rates.items()},
        batches=np.array([batch]),
        episodes=np.array([batch * settings.batch_size]),
        metrics={name: np.where(failed, np.nan, values)[:, None] for name, values in sorted_metrics(metrics).items()},
    )
    return newest if past is None else _behind(past, newest)


def sorted_metrics(metrics: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What every run has comes first, then what its method says, by name."""
    first = ("mean_return", "success_rate", STEPS)
    return {name: metrics[name] for name in (*first, *sorted(metrics.keys() - set(first)))}


def _last(past: Evaluations, name: str) -> Float[np.ndarray, " run"]:
    """A metric at the last evaluation; not a number in tables that were written before it was recorded."""
    return past.metrics[name][:, -1] if name in past.metrics else np.full(len(past.seeds), np.nan)


def _behind(past: Evaluations, newest: Evaluations) -> Evaluations:
    names = [*past.metrics, *(name for name in newest.metrics if name not in past.metrics)]
    return replace(
        past,
        rates=newest.rates,  # earlier versions kept a rate of the baseline for methods without one too
        batches=np.append(past.batches, newest.batches),
        episodes=np.append(past.episodes, newest.episodes),
        metrics={name: np.hstack([_grid(past, name), _grid(newest, name)]) for name in names},
    )


def _grid(evaluations: Evaluations, name: str) -> Float[np.ndarray, "run evaluation"]:
    unknown = np.full((len(evaluations.seeds), len(evaluations.batches)), np.nan)
    return evaluations.metrics.get(name, unknown)
