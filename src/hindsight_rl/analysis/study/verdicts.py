"""Which method is best where, and how sure that is."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from hindsight_rl.analysis.study.aggregates import AggregateComparisonRow
from hindsight_rl.analysis.study.summaries import ComparisonRow, PerformanceRow
from hindsight_rl.analysis.words import counted, listed

FEWEST_RUNS = 4
"""Runs of each method below which nothing is called clear: three beat three others by chance once in ten times."""
_UNBROKEN = "\N{NO-BREAK SPACE}"
Certainty = Literal["clear", "open", "too few runs", "unfinished", "alone", "no runs"]
Pair = TypeVar("Pair", ComparisonRow, AggregateComparisonRow)


@dataclass(frozen=True)
class Verdict:
    """Which method is best on an environment with a batch size, and how sure that is."""

    environment: str
    batch_size: int
    best: str | None
    """The method with the highest mean; None where no run has finished."""
    mean: float | None
    std: float | None
    finished: int
    certainty: Certainty
    rivals: tuple[ComparisonRow, ...]
    """The best against those that keep this from being clear; where it is clear, against the one that comes closest."""
    waiting: tuple[str, ...]
    """Methods without a finished run."""

    @property
    def sentence(self) -> str:
        """The reason behind the certainty."""
        against = "; ".join(f"{row.second}{_UNBROKEN}{_probability(row)}" for row in self.rivals)
        match self.certainty:
            case "clear":
                return f"Closest: {against}"
            case "open":
                return f"Perhaps no better than {against}"
            case "too few runs":
                return f"Fewer than {FEWEST_RUNS} finished runs against {listed([row.second for row in self.rivals])}"
            case "unfinished":
                return f"No finished run yet: {', '.join(self.waiting)}"
            case "alone":
                return "No other method to compare it with"
            case _:
                return "No run has finished yet"


def verdicts(performance: Sequence[PerformanceRow], comparisons: Sequence[ComparisonRow]) -> list[Verdict]:
    """One for each environment and batch size.

    Clear means that, against each other method, the 95 % interval of the probability that a run of the best beats one
    of the other lies above one half, with at least `FEWEST_RUNS` finished runs on both sides.
    """
    return [_verdict(place, rows, comparisons) for place, rows in by_place(performance).items()]


def by_place(rows: Iterable[PerformanceRow]) -> dict[tuple[str, int], list[PerformanceRow]]:
    """The rows of each environment and batch size, in their order."""
    places: dict[tuple[str, int], list[PerformanceRow]] = {}
    for row in rows:
        places.setdefault((row.cell.environment, row.cell.batch_size), []).append(row)
    return places


def _verdict(place: tuple[str, int], rows: Sequence[PerformanceRow], comparisons: Sequence[ComparisonRow]) -> Verdict:
    waiting = tuple(row.cell.method for row in rows if row.mean is None)
    measured = [row for row in rows if row.mean is not None]
    if not measured:
        return Verdict(*place, None, None, None, 0, "no runs", (), waiting)
    best = max(measured, key=lambda row: row.mean or 0.0)
    method = best.cell.method
    here = [row for row in comparisons if (row.environment, row.batch_size) == place]
    against = [row if row.first == method else _turned(row) for row in here if method in (row.first, row.second)]
    against = sorted((row for row in against if row.probability is not None), key=lambda row: row.probability or 0.0)
    certainty, rivals = _certainty(against, waiting)
    return Verdict(*place, method, best.mean, best.std, best.finished, certainty, tuple(rivals), waiting)


def _certainty(against: Sequence[ComparisonRow], waiting: Sequence[str]) -> tuple[Certainty, Sequence[ComparisonRow]]:
    unclear = [row for row in against if row.low is None or row.low <= 0.5]
    few = [row for row in against if min(row.first_runs, row.second_runs) < FEWEST_RUNS]
    if unclear:
        return "open", unclear
    if few:
        return "too few runs", few
    if waiting:
        return "unfinished", ()
    return ("clear", against[:1]) if against else ("alone", ())


def is_settled(row: ComparisonRow) -> bool:
    """Whether the interval lies on one side of one half, with enough runs of both methods to trust it."""
    if row.low is None or row.high is None or min(row.first_runs, row.second_runs) < FEWEST_RUNS:
        return False
    return row.low > 0.5 or row.high < 0.5


def from_the_better_side(rows: Iterable[Pair]) -> list[Pair]:
    """The same comparisons, each turned so that its first method is the one more likely to win."""
    return [_turned(row) if row.probability is not None and row.probability < 0.5 else row for row in rows]


def _turned(row: Pair) -> Pair:
    """The comparison as the second method sees it."""
    probability, low, high = (None if end is None else 1 - end for end in (row.probability, row.high, row.low))
    changes: dict[str, Any] = {"probability": probability, "low": low, "high": high}
    if isinstance(row, ComparisonRow):
        changes |= {"first_runs": row.second_runs, "second_runs": row.first_runs}
    return replace(row, first=row.second, second=row.first, **changes)


def _probability(row: ComparisonRow) -> str:
    return f"{row.probability:.2f} [{row.low:.2f}, {row.high:.2f}]".replace(" ", _UNBROKEN)


def answer(found: Sequence[Verdict]) -> str:
    """The verdicts in a sentence or two; where a method has no finished run yet, it is too early for a winner."""
    comparable = [verdict for verdict in found if not verdict.waiting]
    if not comparable:
        return "Nowhere has every method a finished definitive run yet, so there is nothing to compare."
    wins = Counter(verdict.best for verdict in comparable)
    clear = Counter(verdict.best for verdict in comparable if verdict.certainty == "clear")
    parts: list[str] = []
    for method, count in wins.most_common():
        share = f"{clear[method]} clear" if clear[method] and count > 1 else "clear" if clear[method] else "not clear"
        total = "" if parts else f" of {counted(len(found), 'combination')} of environment and batch size"
        parts.append(f"{method} in {count}{total} ({share})")
    sentence = f"Highest average performance: {listed(parts)}."
    early = len(found) - len(comparable)
    return f"{sentence} In {early} not every method has a finished run yet." if early else sentence
