"""Digests over what a results file holds, so that a number that has changed since it was written is noticed."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from hindsight_rl.records.runs import USUAL_METRICS, Cell, FinishedRun

UNVERIFIED = ""
"""In the place of a digest: an earlier version wrote this, and had none."""


def run_digest(run: FinishedRun) -> str:
    """The SHA-256 sum of all that is kept of a run, in one canonical spelling."""
    failure = (run.failure.batch, run.failure.sentence) if run.failure else None
    choices = [(name, float(value)) for name, value in run.key.choices]
    key = (*run.cell, run.key.stage, choices, run.key.seed)
    content = [*key, run.settings, float(run.seconds), failure, run.origin]
    total = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name, array in _arrays(run):
        total.update(json.dumps([name, array.shape]).encode())
        total.update(array.tobytes())
    return total.hexdigest()


def content_digest(content: Any) -> str:
    """The SHA-256 sum of what JSON holds, however it is spelled."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def plan_digest(cell: Cell, plan: str) -> str:
    """The SHA-256 sum of what is planned for a cell."""
    return hashlib.sha256(json.dumps([*cell, plan]).encode()).hexdigest()


def _arrays(run: FinishedRun) -> Iterator[tuple[str, np.ndarray]]:
    yield "batches", np.ascontiguousarray(run.batches, "<i8")
    yield "episodes", np.ascontiguousarray(run.episodes, "<i8")
    for name, values in sorted(run.metrics.items()):
        if name in USUAL_METRICS or not np.isnan(values).all():  # what a run has no value of is not kept
            # One spelling of what is not a number, and of zero: SQLite has no others.
            yield f"metrics/{name}", np.where(np.isnan(values), np.nan, np.asarray(values, "<f8") + 0.0)
    for name, array in sorted(run.records.items()):
        yield f"records/{name}", np.asarray(array, "<i8", order="C")
