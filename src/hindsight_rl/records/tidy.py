"""All evaluations of a study as one tidy table: a row for each run and evaluation."""

import csv
import io
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.runs import StudyResults


class Row(NamedTuple):
    """One evaluation of one run; values are None where the run had failed."""

    environment: str
    batch_size: int
    method: str
    stage: str
    learning_rate: float
    baseline_learning_rate: float | None
    """None for a method without a baseline."""
    seed: int
    batch: int | None
    """None for a run that an exception ended before its first evaluation was written."""
    episodes: int | None
    mean_return: float | None
    success_rate: float | None
    failure: str | None
    """Why the run failed, where it did."""


def rows(results: StudyResults) -> Iterator[Row]:
    """Every row, by cell, stage, rates, seed and batch."""
    for run in results.runs:
        baseline = run.key.baseline_learning_rate or None
        head = (*run.cell, run.key.stage, run.key.learning_rate, baseline, run.key.seed)
        failure = run.failure.sentence if run.failure else None
        if not len(run.batches):
            yield Row(*head, None, None, None, None, failure)
        for values in zip(run.batches, run.episodes, run.mean_returns, run.success_rates, strict=True):
            batch, episodes, mean_return, success_rate = values
            known = None if np.isnan(mean_return) else float(mean_return)
            rate = None if np.isnan(success_rate) else float(success_rate)
            yield Row(*head, int(batch), int(episodes), known, rate, failure)


def to_csv(results: StudyResults) -> bytes:
    """The table as CSV; every number comes back exactly, and what is missing is empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(Row._fields)
    for row in rows(results):
        writer.writerow(["" if value is None else repr(value) if isinstance(value, float) else value for value in row])
    return buffer.getvalue().encode()


def to_parquet(results: StudyResults) -> bytes:
    """The table as Parquet, which needs the optional package polars."""
    try:
        import polars
    except ImportError:
        raise HindsightError("Parquet needs the package polars: pip install 'hindsight-rl[parquet]'.") from None
    whole, number, text = polars.Int64, polars.Float64, polars.String
    kinds = (text, whole, text, text, number, number, whole, whole, whole, number, number, text)
    schema = dict(zip(Row._fields, kinds, strict=True))
    buffer = io.BytesIO()
    polars.DataFrame(list(rows(results)), schema=schema, orient="row").write_parquet(buffer)
    return buffer.getvalue()
