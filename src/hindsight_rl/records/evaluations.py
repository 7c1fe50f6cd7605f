"""The table of evaluations: how well each run did after how many batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Float, Int

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.files import read_bytes


class _Row(NamedTuple):
    """One line of the table."""

    run: int
    seed: int
    learning_rate: float
    baseline_learning_rate: float
    batch: int
    episodes: int
    mean_return: float
    success_rate: float


@dataclass(frozen=True, eq=False)
class Evaluations:
    """Evaluations of several runs of one job, all made after the same numbers of batches."""

    seeds: Int[np.ndarray, " run"]
    learning_rates: Float[np.ndarray, " run"]
    baseline_learning_rates: Float[np.ndarray, " run"]
    batches: Int[np.ndarray, " evaluation"]
    """Updates made before each evaluation, increasing."""
    episodes: Int[np.ndarray, " evaluation"]
    """Training episodes seen before each evaluation."""
    mean_returns: Float[np.ndarray, "run evaluation"]
    """Average return over the evaluation's episodes; NaN from the first evaluation after the run failed."""
    success_rates: Float[np.ndarray, "run evaluation"]
    """Share of the evaluation's episodes that reached their goal; NaN where `mean_returns` is."""

    def __post_init__(self) -> None:
        runs, evaluations = len(self.seeds), len(self.batches)
        if not runs or not evaluations:
            raise HindsightError(f"Evaluations need a run and an evaluation, not {runs} and {evaluations}.")
        shapes = {
            "learning_rates": (runs,),
            "baseline_learning_rates": (runs,),
            "episodes": (evaluations,),
            "mean_returns": (runs, evaluations),
            "success_rates": (runs, evaluations),
        }
        for name, expected in shapes.items():
            if np.shape(getattr(self, name)) != expected:
                raise HindsightError(f"{name} must have shape {expected}, not {np.shape(getattr(self, name))}.")
        if np.any(self.batches[1:] <= self.batches[:-1]):
            raise HindsightError("batches must increase from one evaluation to the next.")
        failed = np.isnan(self.mean_returns)
        if np.any(failed != np.isnan(self.success_rates)):
            raise HindsightError("mean_returns and success_rates must be NaN in the same places.")
        for run in np.flatnonzero(np.any(failed[:, :-1] & ~failed[:, 1:], axis=1)):
            raise HindsightError(
                f"run {run} lacks an evaluation before its last one, though a failed run stays failed."
            )

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

    def to_csv(self) -> str:
        """One row for each run and evaluation, without those of failed runs; every number comes back exactly.

        Where all the rows of a run, or of an evaluation, would be left out, one stays with empty values: otherwise
        a reader could not tell that the run, or the evaluation, was ever meant to be.
        """
        kept = ~np.isnan(self.mean_returns)
        kept[0, ~kept.any(axis=0)] = True
        kept[~kept.any(axis=1), 0] = True
        lines = [",".join(_Row._fields)]
        lines += [_line(self._row(run, evaluation)) for run, evaluation in np.argwhere(kept)]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_csv(cls, text: str, source: str = "The table of evaluations") -> Self:
        """The inverse of `to_csv`; `source` names the table in error messages."""
        rows = _parse(text, source)
        runs = _facts(rows, "run", ("seed", "learning_rate", "baseline_learning_rate"), source)
        evaluations = _facts(rows, "batch", ("episodes",), source)
        if list(runs) != list(range(len(runs))):
            raise _damaged(source, f"its runs are {', '.join(map(str, runs))} rather than 0 to {len(runs) - 1}")
        mean_returns, success_rates = _grids(rows, len(runs), list(evaluations), source)
        seeds, learning_rates, baseline_learning_rates = zip(*runs.values(), strict=True)
        try:
            return cls(
                seeds=np.array(seeds, dtype=np.int64),
                learning_rates=np.array(learning_rates, dtype=np.float64),
                baseline_learning_rates=np.array(baseline_learning_rates, dtype=np.float64),
                batches=np.array(list(evaluations), dtype=np.int64),
                episodes=np.array([episodes for (episodes,) in evaluations.values()], dtype=np.int64),
                mean_returns=mean_returns,
                success_rates=success_rates,
            )
        except HindsightError as error:
            raise _damaged(source, str(error).removesuffix(".")) from error

    def _row(self, run: int, evaluation: int) -> _Row:
        return _Row(
            run=int(run),
            seed=int(self.seeds[run]),
            learning_rate=float(self.learning_rates[run]),
            baseline_learning_rate=float(self.baseline_learning_rates[run]),
            batch=int(self.batches[evaluation]),
            episodes=int(self.episodes[evaluation]),
            mean_return=float(self.mean_returns[run, evaluation]),
            success_rate=float(self.success_rates[run, evaluation]),
        )


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


def _line(row: _Row) -> str:
    values = (repr(value) for value in row[:-2])
    results = ("" if np.isnan(value) else repr(value) for value in row[-2:])
    return ",".join((*values, *results))


def _parse(text: str, source: str) -> list[_Row]:
    header, *lines = text.split("\n")
    if header.strip() != ",".join(_Row._fields):
        raise _damaged(source, f"its first line is not {','.join(_Row._fields)}")
    if not lines or lines.pop():
        raise _damaged(source, "it is cut short, for its last line has no end")
    if not lines:
        raise _damaged(source, "it has no rows")
    return [_parse_line(line, number, source) for number, line in enumerate(lines, start=2)]


def _parse_line(line: str, number: int, source: str) -> _Row:
    cells = line.split(",")
    if len(cells) != len(_Row._fields):
        raise _damaged(source, f"line {number} has {len(cells)} cells rather than {len(_Row._fields)}")
    values: list[int | float] = []
    for name, parse, cell in zip(_Row._fields, _PARSERS, cells, strict=True):
        try:
            values.append(parse(cell))
        except ValueError as error:
            raise _damaged(source, f"line {number} has {cell!r} for {name}") from error
    return _Row._make(values)


def _whole(cell: str) -> int:
    value = int(cell)
    if abs(value) >= 2**63:
        raise ValueError("too large for an array of whole numbers")
    return value


def _result(cell: str) -> float:
    """A result, where only an empty cell stands for a failed run."""
    if not cell.strip():
        return float("nan")
    value = float(cell)
    if np.isnan(value):
        raise ValueError("not a number")
    return value


_PARSERS: tuple[Callable[[str], int | float], ...] = (_whole, _whole, float, float, _whole, _whole, _result, _result)
"""How to read each column of a row."""


def _facts(rows: Sequence[_Row], key: str, columns: Sequence[str], source: str) -> dict[int, tuple[int | float, ...]]:
    """What every row with the same key must agree on, by increasing key."""
    facts: dict[int, tuple[int | float, ...]] = {}
    for row in rows:
        identifier = getattr(row, key)
        found = tuple(getattr(row, column) for column in columns)
        known = facts.setdefault(identifier, found)
        if repr(known) != repr(found):  # repr, because NaN does not equal itself
            raise _damaged(source, f"the rows of {key} {identifier} disagree on {' or '.join(columns)}")
    return dict(sorted(facts.items()))


def _grids(rows: Sequence[_Row], runs: int, batches: list[int], source: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean returns and success rates by run and evaluation, NaN where there is no row."""
    position = {batch: index for index, batch in enumerate(batches)}
    mean_returns, success_rates = np.full((2, runs, len(batches)), np.nan)
    filled = np.zeros((runs, len(batches)), dtype=bool)
    for row in rows:
        place = row.run, position[row.batch]
        if filled[place]:
            raise _damaged(source, f"run {row.run} has two rows for batch {row.batch}")
        filled[place] = True
        mean_returns[place] = row.mean_return
        success_rates[place] = row.success_rate
    return mean_returns, success_rates


def _damaged(source: str, what: str) -> HindsightError:
    return HindsightError(f"{source} is damaged: {what}.")
