"""Numbers of runs beside each other, over the part of training that all of them have; nothing is drawn here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from hindsight_rl.analysis.beside.entries import Entry
from hindsight_rl.analysis.comparisons import (
    interquartile_mean,
    pooled_interquartile_mean,
    probability_of_improvement,
    probability_of_improvement_interval,
    stratified_bootstrap_interval,
)
from hindsight_rl.analysis.statistics import Curve, bootstrap_interval
from hindsight_rl.core.errors import HindsightError

Over = Literal["episodes", "steps", "seconds"]
Measure = Literal["average_return", "final_return", "final_success_rate"]
Interval = tuple[float, float] | None


@dataclass(frozen=True)
class Row:
    """One entry; None for what no finished run can say."""

    name: str
    environment: str
    method: str
    finished: int
    failed: int
    mean: float | None
    std: float | None
    """Standard deviation over runs, ddof 0."""
    interquartile_mean: float | None
    interval: Interval
    """95 % bootstrap interval of the interquartile mean."""
    final_return: float | None
    final_success_rate: float | None
    probabilities: Mapping[str, tuple[float, Interval]]
    """By the name of another entry of the environment, the probability that a run of this one beats one of its runs."""


@dataclass(frozen=True, eq=False)
class Panel:
    """All entries of one environment."""

    environment: str
    extent: float
    """How far the shortest of them goes; what lies beyond it does not count."""
    longest: float
    rows: Sequence[Row]
    curves: Mapping[str, Curve]
    """Mean return of each entry against `over`, to its own end; its `batches` are what it is drawn over."""


def panels(entries: Sequence[Entry], over: Over, measure: Measure) -> list[Panel]:
    """The entries of each environment beside each other, in their order."""
    _require_comparable(entries, over)
    environments = dict.fromkeys(entry.environment for entry in entries)
    return [
        _panel(name, [entry for entry in entries if entry.environment == name], over, measure) for name in environments
    ]


def places(entry: Entry, over: Over) -> Float[np.ndarray, " evaluation"]:
    """How far the entry was at each of its evaluations: episodes, simulator steps, or seconds of a run.

    Steps are the mean over finished runs. Seconds are as if each batch took equally long.
    """
    evaluations = entry.evaluations
    if over == "episodes":
        return evaluations.episodes.astype(np.float64)
    if over == "steps":
        steps = evaluations.metrics.get("steps", np.full(evaluations.mean_returns.shape, np.nan))
        if not entry.finished.any():
            return np.full(len(evaluations.batches), np.nan)
        kept = steps[entry.finished]
        if not np.isfinite(kept).all():
            raise HindsightError(f"'{entry.name}' did not record its simulator steps: compare over episodes.")
        return kept.mean(axis=0)
    if entry.seconds is None:
        raise HindsightError(f"Nobody knows how long '{entry.name}' took: compare over episodes or steps.")
    return entry.seconds * evaluations.batches / max(1, int(evaluations.batches[-1]))


def differing_settings(entries: Sequence[Entry]) -> dict[str, list[Any]]:
    """The settings that not all entries have alike, by name, with a value for each entry; None where it has none."""
    # How many runs there are stands in the table already.
    names = dict.fromkeys(name for entry in entries for name in entry.settings if name != "runs")
    return {
        name: [entry.settings.get(name) for entry in entries]
        for name in names
        if len({repr(entry.settings.get(name)) for entry in entries if _tells(entry, name)}) > 1
    }


def _tells(entry: Entry, name: str) -> bool:
    """Whether the entry knows of a setting: a tidy table has only some, and the others may be anything."""
    return entry.kind != "table" or name in entry.settings


def _require_comparable(entries: Sequence[Entry], over: Over) -> None:
    kinds = {entry.kind for entry in entries}
    if over == "seconds" and {"run", "study"} <= kinds:
        raise HindsightError(
            "The seconds of run folders and those of studies are measured differently: compare over episodes or steps."
        )


def _panel(environment: str, entries: Sequence[Entry], over: Over, measure: Measure) -> Panel:
    where = {entry.name: places(entry, over) for entry in entries}
    # Where no run is left there is nothing to compare, and nothing that could end early.
    ends = [float(where[entry.name][-1]) for entry in entries if entry.finished.any()] or [0.0]
    extent = min(ends)
    values = {entry.name: _values(entry, where[entry.name] <= extent, measure) for entry in entries}
    rows = [_row(entry, where[entry.name] <= extent, values) for entry in entries]
    curves = {entry.name: _curve(entry, where[entry.name]) for entry in entries}
    return Panel(environment, extent, max(ends), rows, curves)


def _values(entry: Entry, counted: Float[np.ndarray, " evaluation"], measure: Measure) -> Float[np.ndarray, " run"]:
    """What each finished run is judged by; every entry has an evaluation at zero, so some always count."""
    evaluations, done = entry.evaluations, entry.finished
    if not done.any():
        return np.zeros(0)
    if measure == "average_return":
        return evaluations.mean_returns[np.ix_(done, counted)].mean(axis=1)
    kept = evaluations.success_rates if measure == "final_success_rate" else evaluations.mean_returns
    return kept[np.ix_(done, counted)][:, -1]


def _row(
    entry: Entry, counted: Float[np.ndarray, " evaluation"], values: Mapping[str, Float[np.ndarray, " run"]]
) -> Row:
    mine, done = values[entry.name], int(entry.finished.sum())
    interval = None
    if done > 1:  # of a single run, the interval would be a point that looks like certainty
        interval = stratified_bootstrap_interval(mine, pooled_interquartile_mean, _generator())
    others = {name: other for name, other in values.items() if name != entry.name and other.size and done}
    return Row(
        name=entry.name,
        environment=entry.environment,
        method=entry.method,
        finished=done,
        failed=len(entry.finished) - done + entry.lost,
        mean=float(mine.mean()) if done else None,
        std=float(mine.std()) if done > 1 else None,
        interquartile_mean=interquartile_mean(mine) if done else None,
        interval=interval,
        final_return=float(_values(entry, counted, "final_return").mean()) if done else None,
        final_success_rate=float(_values(entry, counted, "final_success_rate").mean()) if done else None,
        probabilities={name: _probability(mine, other) for name, other in others.items()},
    )


def _probability(mine: Float[np.ndarray, " run"], other: Float[np.ndarray, " run"]) -> tuple[float, Interval]:
    single = min(mine.size, other.size) < 2
    interval = None if single else probability_of_improvement_interval(mine, other, _generator())
    return probability_of_improvement(mine, other), interval


def _curve(entry: Entry, where: Float[np.ndarray, " evaluation"]) -> Curve:
    finished = entry.evaluations.mean_returns[entry.finished]
    if not len(finished):
        unknown = np.full(len(where), np.nan)
        return Curve(where, unknown, unknown, unknown, runs=0)
    low, high = bootstrap_interval(finished, generator=_generator())
    return Curve(where, finished.mean(axis=0), low, high, runs=len(finished))


def _generator() -> np.random.Generator:
    """Always the same draws, so that the same runs give the same table."""
    return np.random.default_rng(0)
