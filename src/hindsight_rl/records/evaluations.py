"""The table of evaluations: how well each run did after how many batches, and what else it recorded."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from jaxtyping import Float, Int

from hindsight_rl.core.cells import harmless, meant
from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.records.files import read_bytes
from hindsight_rl.records.runs import USUAL_METRICS, other_metrics

_RUN, _EVALUATION = ("run", "seed"), ("batch", "episodes")
_TAKEN = {*_RUN, *_EVALUATION, "environment", "batch_size", "method", "stage", "failure"}
"""Columns of this table and of a study's, after which neither a rate nor a metric can be named."""
_OLDER_NAMES = {
    "learning_rates": "rates/learning_rate",
    "baseline_learning_rates": "rates/baseline_learning_rate",
    "mean_returns": "metrics/mean_return",
    "success_rates": "metrics/success_rate",
}


@dataclass(frozen=True, eq=False)
class Evaluations:
    """Evaluations of several runs of one job, all made after the same numbers of batches."""

    seeds: Int[np.ndarray, " run"]
    rates: Mapping[str, Float[np.ndarray, " run"]]
    """Learning rates and what else may differ between the runs, by name."""
    batches: Int[np.ndarray, " evaluation"]
    """Updates made before each evaluation, increasing."""
    episodes: Int[np.ndarray, " evaluation"]
    """Training episodes seen before each evaluation."""
    metrics: Mapping[str, Float[np.ndarray, "run evaluation"]]
    """`mean_return` and `success_rate`, NaN from the first evaluation after a failure; others, NaN anywhere."""

    def __post_init__(self) -> None:
        runs, evaluations = len(self.seeds), len(self.batches)
        if not runs or not evaluations:
            raise HindsightError(f"Evaluations need a run and an evaluation, not {runs} and {evaluations}.")
        self._check_names()
        shaped: list[tuple[str, np.ndarray, tuple[int, ...]]] = [("episodes", self.episodes, (evaluations,))]
        shaped += [(name, rates, (runs,)) for name, rates in self.rates.items()]
        shaped += [(name, values, (runs, evaluations)) for name, values in self.metrics.items()]
        for name, array, expected in shaped:
            if np.shape(array) != expected:
                raise HindsightError(f"{name} must have shape {expected}, not {np.shape(array)}.")
        if np.any(self.batches[1:] <= self.batches[:-1]):
            raise HindsightError("batches must increase from one evaluation to the next.")
        failed = np.isnan(self.mean_returns)
        if np.any(failed != np.isnan(self.success_rates)):
            raise HindsightError("mean_return and success_rate must be NaN in the same places.")
        for run in np.flatnonzero(np.any(failed[:, :-1] & ~failed[:, 1:], axis=1)):
            raise HindsightError(
                f"run {run} lacks an evaluation before its last one, though a failed run stays failed."
            )

    def _check_names(self) -> None:
        for name in USUAL_METRICS:
            if name not in self.metrics:
                raise HindsightError(f"Evaluations need the metric {name}.")
        names = [*self.rates, *self.metrics]
        for name in names:
            if name in _TAKEN or not name or name != name.strip() or not name.isprintable() or set(name) & set(',"'):
                raise HindsightError(f"{name!r} cannot name a rate or a metric.")
            if names.count(name) > 1:
                raise HindsightError(f"{name!r} cannot name both a rate and a metric.")

    @property
    def mean_returns(self) -> Float[np.ndarray, "run evaluation"]:
        """Average return over each evaluation's episodes; NaN where the run had failed."""
        return self.metrics["mean_return"]

    @property
    def success_rates(self) -> Float[np.ndarray, "run evaluation"]:
        """Share of each evaluation's episodes that reached their goal; NaN where the run had failed."""
        return self.metrics["success_rate"]

    @property
    def average_performance(self) -> Float[np.ndarray, " run"]:
        """Mean return over a run's evaluations; NaN for a run that failed."""
        return self.mean_returns.mean(axis=1, dtype=np.float64)

    @property
    def final_return(self) -> Float[np.ndarray, " run"]:
        """Mean return at the last evaluation; NaN for a run that failed."""
        return self.mean_returns[:, -1]

    @property
    def final_success_rate(self) -> Float[np.ndarray, " run"]:
        """Success rate at the last evaluation; NaN for a run that failed."""
        return self.success_rates[:, -1]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Everything as named arrays, for a checkpoint."""
        rates = {f"rates/{name}": array for name, array in self.rates.items()}
        metrics = {f"metrics/{name}": array for name, array in self.metrics.items()}
        return {"seeds": self.seeds, "batches": self.batches, "episodes": self.episodes, **rates, **metrics}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The inverse of `to_arrays`; it knows the names of older checkpoints too."""
        named: dict[str, Any] = {"rates": {}, "metrics": {}}
        for name, array in arrays.items():
            group, _, member = _OLDER_NAMES.get(name, name).partition("/")
            if array.dtype.kind not in "iuf":
                raise HindsightError(f"The checkpoint's evaluations are damaged: '{name}' holds no numbers.")
            if member:
                named.setdefault(group, {})[member] = array
            else:
                named[group] = array
        try:
            return cls(**named)
        except TypeError as error:  # an array too many, too few, or of another shape
            raise HindsightError(f"The checkpoint's evaluations are damaged: {gist(error)}.") from error

    def to_csv(self) -> str:
        """One row for each run and evaluation, without those that say nothing; every number comes back exactly.

        Where all the rows of a run, or of an evaluation, would be left out, one stays with empty values: otherwise
        a reader could not tell that the run, or the evaluation, was ever meant to be.
        """
        names = [*USUAL_METRICS, *other_metrics(self.metrics)]
        values = np.stack([self.metrics[name] for name in names], axis=-1)
        kept = ~np.isnan(values).all(axis=-1)
        kept[0, ~kept.any(axis=0)] = True
        kept[~kept.any(axis=1), 0] = True
        lines = [",".join((*_RUN, *map(harmless, self.rates), *_EVALUATION, *map(harmless, names)))]
        for run, evaluation in np.argwhere(kept):
            of_run = (int(run), int(self.seeds[run]), *(float(rates[run]) for rates in self.rates.values()))
            of_evaluation = (int(self.batches[evaluation]), int(self.episodes[evaluation]))
            results = ("" if np.isnan(value) else repr(float(value)) for value in values[run, evaluation])
            lines.append(",".join((*map(repr, of_run), *map(repr, of_evaluation), *results)))
        return "\n".join(lines) + "\n"

    @classmethod
    def from_csv(cls, text: str, source: str = "The table of evaluations") -> Self:
        """The inverse of `to_csv`; `source` names the table in error messages."""
        rates, metrics, rows = _parse(text, source)
        runs = _facts(rows, "run", ("seed", *rates), source)
        evaluations = _facts(rows, "batch", ("episodes",), source)
        if list(runs) != list(range(len(runs))):
            raise _damaged(source, f"its runs are {', '.join(map(str, runs))} rather than 0 to {len(runs) - 1}")
        seeds, *columns = zip(*runs.values(), strict=True)
        try:
            return cls(
                seeds=np.array(seeds, dtype=np.int64),
                rates={name: np.array(column, dtype=np.float64) for name, column in zip(rates, columns, strict=True)},
                batches=np.array(list(evaluations), dtype=np.int64),
                episodes=np.array([episodes for (episodes,) in evaluations.values()], dtype=np.int64),
                metrics=_grids(rows, metrics, len(runs), list(evaluations), source),
            )
        except HindsightError as error:
            raise _damaged(source, str(error).removesuffix(".")) from error


def read_evaluations(path: Path) -> Evaluations:
    """Read a table that was written with `Evaluations.to_csv`."""
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise _damaged(str(path), "it is not text") from error
    return Evaluations.from_csv(text, source=str(path))


def summary(values: Float[np.ndarray, " run"]) -> dict[str, float | None]:
    """Mean and standard deviation (ddof 0) over the runs with a finite value; None where there is no such run."""
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    if not finite.size:
        return {"mean": None, "std": None}
    return {"mean": float(finite.mean()), "std": float(finite.std())}


_Row = dict[str, Any]
"""One line of the table, by column."""


def _parse(text: str, source: str) -> tuple[list[str], list[str], list[_Row]]:
    """The names of the rates, those of the metrics, and every line."""
    first, *lines = text.split("\n")
    header = [meant(name) for name in first.strip().split(",")]
    place = header.index("batch") if "batch" in header else 0
    rates, metrics = header[2:place], header[place + 2 :]
    expected = [*_RUN, *rates, *_EVALUATION, *USUAL_METRICS, *metrics[2:]]
    if header != expected or len(set(header)) < len(header):
        shape = (*_RUN, "rates", *_EVALUATION, *USUAL_METRICS, "other metrics")
        raise _damaged(source, f"its first line is not {','.join(shape)}")
    if not lines or lines.pop():
        raise _damaged(source, "it is cut short, for its last line has no end")
    if not lines:
        raise _damaged(source, "it has no rows")
    columns = [(name, float if name in rates else _result if name in metrics else _whole) for name in header]
    return rates, metrics, [_parse_line(line, columns, number, source) for number, line in enumerate(lines, start=2)]


def _parse_line(line: str, columns: Sequence[tuple[str, Callable[[str], Any]]], number: int, source: str) -> _Row:
    cells = line.split(",")
    if len(cells) != len(columns):
        raise _damaged(source, f"line {number} has {len(cells)} cells rather than {len(columns)}")
    row: _Row = {}
    for (name, parse), cell in zip(columns, cells, strict=True):
        try:
            row[name] = parse(cell)
        except ValueError as error:
            raise _damaged(source, f"line {number} has {cell!r} for {name}") from error
    return row


def _whole(cell: str) -> int:
    value = int(cell)
    if abs(value) >= 2**63:
        raise ValueError("too large for an array of whole numbers")
    return value


def _result(cell: str) -> float:
    """A result, where only an empty cell stands for none."""
    if not cell.strip():
        return float("nan")
    value = float(cell)
    if np.isnan(value):
        raise ValueError("not a number")
    return value


def _facts(rows: Sequence[_Row], key: str, columns: Sequence[str], source: str) -> dict[int, tuple[Any, ...]]:
    """What every row with the same key must agree on, by increasing key."""
    facts: dict[int, tuple[Any, ...]] = {}
    for row in rows:
        found = tuple(row[column] for column in columns)
        known = facts.setdefault(row[key], found)
        if repr(known) != repr(found):  # repr, because NaN does not equal itself
            raise _damaged(source, f"the rows of {key} {row[key]} disagree on {' or '.join(columns)}")
    return dict(sorted(facts.items()))


def _grids(
    rows: Sequence[_Row], metrics: Sequence[str], runs: int, batches: list[int], source: str
) -> dict[str, np.ndarray]:
    """Each metric by run and evaluation, NaN where there is no row."""
    position = {batch: index for index, batch in enumerate(batches)}
    grids = {name: np.full((runs, len(batches)), np.nan) for name in metrics}
    filled = set()
    for row in rows:
        place = row["run"], position[row["batch"]]
        if place in filled:
            raise _damaged(source, f"run {row['run']} has two rows for batch {row['batch']}")
        filled.add(place)
        for name, grid in grids.items():
            grid[place] = row[name]
    return grids


def _damaged(source: str, what: str) -> HindsightError:
    return HindsightError(f"{source} is damaged: {what}.")
