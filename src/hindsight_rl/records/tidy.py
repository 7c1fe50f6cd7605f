"""All evaluations of a study as one tidy table: a row for each run and evaluation."""

import csv
import io
from collections.abc import Iterator

import numpy as np

from hindsight_rl.core.cells import harmless
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.runs import USUAL_METRICS, StudyResults, distinct, other_metrics

Row = tuple[str | int | float | None, ...]
"""One evaluation of one run; None for a choice or metric that it lacks, and for values after a failure."""


def columns(results: StudyResults) -> tuple[str, ...]:
    """The names of a row's entries; batch and episodes are None for a run that ended before its first evaluation."""
    choices, metrics = _names(results)
    head = ("environment", "batch_size", "method", "stage", *choices, "seed")
    return (*head, "batch", "episodes", *metrics, "failure")


def rows(results: StudyResults) -> Iterator[Row]:
    """Every row, by cell, stage, choices, seed and batch."""
    choices, metrics = _names(results)
    for run in results.runs:
        chosen = dict(run.key.choices)
        head = (*run.cell, run.key.stage, *(chosen.get(name) for name in choices), run.key.seed)
        failure = run.failure.sentence if run.failure else None
        if not len(run.batches):
            yield (*head, None, None, *(None for _ in metrics), failure)
        missing = np.full(len(run.batches), np.nan)
        values = [run.metrics.get(name, missing) for name in metrics]
        for batch, episodes, *found in zip(run.batches, run.episodes, *values, strict=True):
            known = (None if np.isnan(value) else float(value) for value in found)
            yield (*head, int(batch), int(episodes), *known, failure)


def to_csv(results: StudyResults) -> bytes:
    """The table as CSV; every number comes back exactly, and what is missing is empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(harmless, columns(results)))
    for row in rows(results):
        writer.writerow(map(_cell, row))
    return buffer.getvalue().encode()


def _cell(value: str | int | float | None) -> str:
    if value is None:
        return ""
    return harmless(value) if isinstance(value, str) else repr(value)


def to_parquet(results: StudyResults) -> bytes:
    """The table as Parquet, which needs the optional package polars."""
    try:
        import polars
    except ImportError:
        raise HindsightError("Parquet needs the package polars: pip install 'hindsight-rl[parquet]'.") from None
    whole, text = ("batch_size", "seed", "batch", "episodes"), ("environment", "method", "stage", "failure")
    kinds = {**dict.fromkeys(whole, polars.Int64), **dict.fromkeys(text, polars.String)}
    schema = {name: kinds.get(name, polars.Float64) for name in columns(results)}
    buffer = io.BytesIO()
    polars.DataFrame(list(rows(results)), schema=schema, orient="row").write_parquet(buffer)
    return buffer.getvalue()


def _names(results: StudyResults) -> tuple[list[str], list[str]]:
    """The choices and the metrics that any run has."""
    choices = distinct(name for run in results.runs for name, _ in run.key.choices)
    return choices, [*USUAL_METRICS, *other_metrics(name for run in results.runs for name in run.metrics)]
