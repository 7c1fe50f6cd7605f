"""A run as the rows of a results file hold it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hindsight_rl.records.digests import UNVERIFIED, run_digest
from hindsight_rl.records.runs import Cause, Cell, FinishedRun, RunKey, other_metrics


def verified_run(
    row: Sequence[Any],
    names: Sequence[str],
    evaluations: Sequence[tuple[Any, ...]],
    records: Mapping[str, tuple[str, bytes]],
    digest: Any,
) -> FinishedRun | None:
    """The run, provided that it is what was written."""
    try:
        run = _finished_run(row, names, evaluations, records)
        return run if digest in (UNVERIFIED, run_digest(run)) else None
    # What a flipped bit has made of a row can break anywhere on its way into arrays.
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
        if digest == UNVERIFIED:
            raise
        return None


def _finished_run(
    row: Sequence[Any],
    names: Sequence[str],
    evaluations: Sequence[tuple[Any, ...]],
    records: Mapping[str, tuple[str, bytes]],
) -> FinishedRun:
    environment, batch_size, method, stage, choices, seed, settings, seconds, batch, cause, origin = row
    table = np.array(evaluations, dtype=np.float64).reshape(-1, 2 + len(names))
    metrics = dict(zip(names, table[:, 2:].T, strict=True))
    for name in other_metrics(names):
        if np.isnan(metrics[name]).all():  # other runs recorded it
            del metrics[name]
    return FinishedRun(
        cell=Cell(environment, batch_size, method),
        key=RunKey(stage, tuple(json.loads(choices).items()), seed),
        settings=json.loads(settings),
        batches=table[:, 0].astype(np.int64),
        episodes=table[:, 1].astype(np.int64),
        metrics=metrics,
        seconds=seconds,
        failure=None if cause is None else Cause(batch, cause),
        records={
            name: np.frombuffer(content, dtype="<i8").reshape(json.loads(shape))
            for name, (shape, content) in records.items()
        },
        origin=origin,
    )


def nullable(values: np.ndarray) -> list[float | None]:
    """Numbers as SQLite keeps them, with nothing for what is not a number."""
    return [None if np.isnan(value) else float(value) for value in values]
