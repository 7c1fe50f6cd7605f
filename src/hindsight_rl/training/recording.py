"""Evaluations as they are added to the table of a job."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from hindsight_rl.records.evaluations import Evaluations
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import Runs, RunState


class Evaluation(NamedTuple):
    """The greedy performance of one run, or of many along a leading axis."""

    mean_return: Float[Array, ""]
    success_rate: Float[Array, ""]


def record(
    past: Evaluations | None,
    runs: Runs,
    settings: Settings,
    batch: int,
    parts: Sequence[RunState],
    evaluation: Evaluation,
) -> Evaluations:
    """The evaluations so far with the newest one behind them."""
    failed = np.concatenate([np.asarray(part.failed_batch) for part in parts]) >= 0
    newest = Evaluations(
        seeds=np.asarray(runs.seeds, dtype=np.int64),
        learning_rates=runs.learning_rates,
        baseline_learning_rates=runs.baseline_learning_rates,
        batches=np.array([batch]),
        episodes=np.array([batch * settings.batch_size]),
        mean_returns=np.where(failed, np.nan, evaluation.mean_return).astype(np.float64)[:, None],
        success_rates=np.where(failed, np.nan, evaluation.success_rate).astype(np.float64)[:, None],
    )
    if past is None:
        return newest
    return replace(
        past,
        batches=np.append(past.batches, newest.batches),
        episodes=np.append(past.episodes, newest.episodes),
        mean_returns=np.hstack([past.mean_returns, newest.mean_returns]),
        success_rates=np.hstack([past.success_rates, newest.success_rates]),
    )
