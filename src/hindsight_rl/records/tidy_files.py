"""Tidy tables read back: what `hindsight study export` wrote, as the runs that it came from."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hindsight_rl.core.cells import meant
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.files import read_bytes
from hindsight_rl.records.runs import USUAL_METRICS, Cause, Cell, FinishedRun, RunKey

_HEAD = ("environment", "batch_size", "method", "stage")
ENDINGS = (".csv", ".parquet")
UNKNOWN_SECONDS = math.nan
"""Tidy tables do not say how long a run took."""


def read_tidy(path: Path) -> list[FinishedRun]:
    """The runs of a table, in its order; what it does not hold, such as settings that nobody chose, is empty."""
    columns, rows = _parquet(path) if path.suffix == ".parquet" else _csv(path)
    choices, metrics = _names(columns, path)
    by_run: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    try:
        for row in rows:
            by_run.setdefault(tuple(row[name] for name in (*_HEAD, *choices, "seed")), []).append(row)
        return [_run(of_run, choices, metrics) for of_run in by_run.values()]
    except (ValueError, TypeError, KeyError) as error:
        raise _damaged(path, str(error).splitlines()[0] if str(error) else "a value is missing") from None


def _names(columns: list[str], path: Path) -> tuple[list[str], list[str]]:
    """The names of the choices and of the metrics, which stand in known places."""
    if columns[:2] == ["run", "seed"]:
        raise HindsightError(f"'{path}' is the table of a run folder: give that folder instead.")
    if tuple(columns[:4]) != _HEAD or columns[-1:] != ["failure"] or "seed" not in columns:
        raise _damaged(path, f"its first columns are not {', '.join(_HEAD)}")
    place = columns.index("seed")
    metrics = columns[place + 3 : -1]
    if columns[place + 1 : place + 3] != ["batch", "episodes"] or metrics[:2] != list(USUAL_METRICS):
        raise _damaged(path, "it has no batch, episodes, mean_return and success_rate behind the seed")
    return columns[4:place], metrics


def _run(rows: Sequence[Mapping[str, Any]], choices: Sequence[str], metrics: Sequence[str]) -> FinishedRun:
    first = rows[0]
    chosen = {name: float(first[name]) for name in choices if first[name] is not None}
    evaluated = [row for row in rows if row["batch"] is not None]
    values = {name: np.array([_number(row[name]) for row in evaluated], np.float64) for name in metrics}
    known = {name: one for name, one in values.items() if name in USUAL_METRICS or np.isfinite(one).any()}
    cell = Cell(first["environment"], int(first["batch_size"]), first["method"])
    return FinishedRun(
        cell=cell,
        key=RunKey(first["stage"], tuple(chosen.items()), int(first["seed"])),
        settings={"batch_size": cell.batch_size, **chosen},
        batches=np.array([int(row["batch"]) for row in evaluated], np.int64),
        episodes=np.array([int(row["episodes"]) for row in evaluated], np.int64),
        metrics=known,
        seconds=UNKNOWN_SECONDS,
        failure=None if first["failure"] is None else Cause(-1, first["failure"]),
    )


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _csv(path: Path) -> tuple[list[str], Iterable[Mapping[str, Any]]]:
    try:
        lines = list(csv.reader(io.StringIO(read_bytes(path).decode(), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error):
        raise _damaged(path, "it is not a table of text") from None
    if len(lines) < 2 or any(len(line) != len(lines[0]) for line in lines):
        raise _damaged(path, "it has no rows, or rows of different lengths")
    columns, *rows = [[meant(cell) for cell in line] for line in lines]
    return columns, [_typed(dict(zip(columns, row, strict=True))) for row in rows]


def _typed(row: Mapping[str, str]) -> dict[str, Any]:
    """Empty cells are None; numbers stay text, which `float` and `int` read."""
    return {name: None if value == "" else value for name, value in row.items()}


def _parquet(path: Path) -> tuple[list[str], Iterable[Mapping[str, Any]]]:
    try:
        import polars
    except ImportError:
        raise HindsightError("Parquet needs the package polars: pip install 'hindsight-rl[parquet]'.") from None
    try:
        frame = polars.read_parquet(io.BytesIO(read_bytes(path)))
        return frame.columns, frame.to_dicts()
    except polars.exceptions.PolarsError as error:
        raise _damaged(path, (str(error).splitlines() or ["it is not Parquet"])[0].rstrip(".")) from None


def _damaged(path: Path, what: str) -> HindsightError:
    return HindsightError(f"'{path}' is not a table that `hindsight study export` wrote: {what}.")
