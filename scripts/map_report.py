"""The map of methods in words and colours: medians to a mark, who is ahead of whom, one figure."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from map_figure import draw_map
from map_gather import MAP, Run, best
from map_runs import BATCHES, METHODS, ROBOTS, STABLE_BASELINES

from hindsight_rl.analysis.comparisons import (
    probability_of_improvement,
    probability_of_improvement_interval,
    stratified_bootstrap_interval,
)
from hindsight_rl.analysis.figures import figure_bytes
from hindsight_rl.records.files import make_folder, write_atomically

MARKS = (0.5, 0.9, 0.95)
KINDS = ("episodes", "steps", "seconds")
ROWS = ("hppo", "ppo", "hpg", "hpg+b", "gcpg", "dqn+her", "dqn", STABLE_BASELINES, ROBOTS)
assert set(ROWS) == {*METHODS, STABLE_BASELINES, ROBOTS}
DRAWN = {**{name: (name,) for name in ROWS[:-2]}, "stable-baselines3\nDQN+HER, robots: SAC+HER": ROWS[-2:]}
"""The figure's rows, and the methods of each."""
NEVER = 1e12
"""Stands for a mark that was not reached, so that ranks and medians can be taken."""
FIRST, LAST = "<!-- tables: made by scripts/results_map.py -->", "<!-- end of tables -->"


@dataclass(frozen=True)
class Amount:
    """How much of something it takes to reach a mark: the median over runs and its 95 % interval."""

    median: float
    low: float
    high: float
    runs: int
    reached: int

    def __str__(self) -> str:
        if not self.runs:
            return ""
        shown = short(self.median)
        return shown if self.runs == 1 else f"{shown} ({short(self.low)} to {short(self.high)})"


def short(number: float) -> str:
    """A number in few letters; one that was not reached is `never`."""
    if number >= NEVER / 1e3:
        return "never"
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def amounts(runs: Sequence[Run], kind: str, mark: float) -> np.ndarray:
    """For each run that knows, how much it took to reach a mark."""
    found = []
    for run in runs:
        place, values = run.reached(mark), getattr(run, kind)
        if np.isfinite(values).all():
            found.append(NEVER if place is None else float(values[place]))
    return np.array(found)


def amount(runs: Sequence[Run], kind: str, mark: float) -> Amount:
    """The median with a bootstrap interval; a single run has none."""
    values = amounts(runs, kind, mark)
    if not values.size:
        return Amount(math.nan, math.nan, math.nan, 0, 0)
    median = float(np.median(values))
    low, high = (median, median) if values.size == 1 else _interval(values)
    return Amount(median, low, high, values.size, int(np.sum(values < NEVER)))


def _interval(values: np.ndarray) -> tuple[float, float]:
    return stratified_bootstrap_interval(
        values, lambda tasks: np.median(tasks[0], axis=1), np.random.default_rng(0), resamples=4000
    )


def most_runs(runs: Sequence[Run]) -> list[Run]:
    """Of several sources, the one with the most runs; the map's own where there are as many, as its grain is finer."""
    sources: dict[str, list[Run]] = {}
    for run in runs:
        sources.setdefault(run.source, []).append(run)
    return max(sources.values(), key=lambda of: (len(of), of[0].source == MAP), default=[])


@dataclass(frozen=True)
class Place:
    """An environment and a method: the runs that count for episodes, and those whose steps and seconds are known."""

    counted: Sequence[Run]
    timed: Sequence[Run]

    def runs(self, kind: str) -> Sequence[Run]:
        """Those that can say something about a kind of amount."""
        return self.counted if kind == "episodes" else self.timed

    @property
    def by_processor(self) -> bool:
        """Whether seconds are the processor's, not the clock's."""
        return self.timed[0].source == MAP

    @property
    def best_level(self) -> float:
        """The median over runs of the best evaluation."""
        return float(np.median([run.level.max() for run in self.counted]))

    @property
    def extent(self) -> float:
        """Episodes of the longest run."""
        return max(run.episodes[-1] for run in self.counted)


Places = dict[str, dict[str, Place]]


def places(runs: Sequence[Run]) -> Places:
    """All that is known, by environment and method."""
    found: Places = {}
    for environment in dict.fromkeys(run.environment for run in runs):
        found[environment] = {}
        for method in ROWS:
            own = [run for run in runs if (run.environment, run.method) == (environment, method)]
            mine = [run for run in own if run.source == MAP]
            # Those of results/hppo have the same settings and seeds, but most were stopped before they had learned.
            own = [run for run in own if run.source != "hppo"] if mine else own
            if own:
                found[environment][method] = Place(most_runs(own), mine or own)
    compiled = [name for name in found if best(name) is not None]
    bits = sorted((name for name in compiled if name.startswith("bit")), key=lambda name: int(name.split("-")[-1]))
    rooms = sorted(set(compiled) - set(bits), key=lambda name: (*BATCHES, name).index(name))
    order = [*bits, *rooms, *sorted(found.keys() - set(compiled))]
    return {name: found[name] for name in order}


def write_report(folder: Path, runs: Sequence[Run]) -> None:
    """Tables into README.md and tables.md, the figure, and the amounts as Parquet."""
    make_folder(folder)
    known = places(runs)
    write_atomically(folder / "map.png", figure_bytes(draw_map(known, DRAWN, lambda *of: amount(*of), short)))
    write_atomically(folder / "tables.md", ("\n".join(_all_marks(known)) + "\n").encode())
    _write_amounts(folder / "amounts.parquet", known)
    page = folder / "README.md"
    text = page.read_text() if page.exists() else f"# The map of methods\n\n{FIRST}\n{LAST}\n"
    head, rest = text.split(FIRST)
    tables = "\n".join([*_main_table(known), "", *_order(known)])
    write_atomically(page, f"{head}{FIRST}\n\n{tables}\n\n{LAST}{rest.split(LAST)[1]}".encode())


def _main_table(known: Places) -> list[str]:
    lines = ["| environment | method | runs | episodes to 90 % | steps | seconds | best evaluation | timed runs |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|---:|")
    for environment, methods in known.items():
        for method in ROWS:
            if method not in methods:
                lines.append(f"| {environment} | {method} | not run | | | | | |")
                continue
            place = methods[method]
            cells = [str(amount(place.runs(kind), kind, 0.9)) for kind in KINDS]
            far = f"{place.best_level:.0%} in {place.extent:,.0f}"
            count = len(amounts(place.timed, "seconds", 0.9))
            timed = f"{count}{'' if place.by_processor else ' (clock)'}" if count else ""
            known_of = [str(len(place.counted)), *cells, far, timed]
            lines.append(f"| {environment} | {method} | {' | '.join(known_of)} |")
    return lines


def _all_marks(known: Places) -> list[str]:
    lines = ["# All marks", "", "As [README.md](README.md) says, for 50, 90 and 95 %. Made by `make results-map`.", ""]
    lines.append("| environment | method | mark | reached | episodes | steps | seconds |")
    lines.append("|---|---|---:|---:|---:|---:|---:|")
    for environment, methods in known.items():
        for method, place in methods.items():
            for mark in MARKS:
                found = [amount(place.runs(kind), kind, mark) for kind in KINDS]
                reached = f"{found[0].reached} of {found[0].runs}"
                lines.append(f"| {environment} | {method} | {mark:.0%} | {reached} | {' | '.join(map(str, found))} |")
    return lines


def _order(known: Places) -> list[str]:
    """Each method beside the next slower one, by episodes to 90 %, and some over all compiled environments."""
    lines = [
        "| environment | a run of | needs fewer episodes to 90 % than one of | probability | 95 % interval | runs |"
    ]
    lines.append("|---|---|---|---:|---|---:|")
    made = 0
    compiled = {name: methods for name, methods in known.items() if best(name) is not None}
    for environment, methods in compiled.items():
        values = {method: -amounts(place.counted, "episodes", 0.9) for method, place in methods.items()}
        learned = [method for method in values if np.median(values[method]) > -NEVER]
        ranked = sorted(learned, key=lambda method: -float(np.median(values[method])))
        for left, right in itertools.pairwise(ranked):
            lines.append(_comparison(environment, left, right, [values[left]], [values[right]]))
            made += 1
    pairs = (("hppo", "dqn+her"), ("hppo", "hpg"), ("hppo", "ppo"), ("dqn+her", "hpg"), ("dqn+her", "dqn"))
    for left, right in (*pairs, ("hpg", "gcpg"), ("hpg", "hpg+b")):
        both = [methods for methods in compiled.values() if {left, right} <= methods.keys()]
        if both:
            sides = [[-amounts(methods[side].counted, "episodes", 0.9) for methods in both] for side in (left, right)]
            lines.append(_comparison(f"{len(both)} compiled", left, right, *sides))
            made += 1
    return [*lines, "", f"{made} comparisons; nothing was corrected for their number."]


def _comparison(where: str, left: str, right: str, first: list[np.ndarray], second: list[np.ndarray]) -> str:
    chance = probability_of_improvement(first, second)
    low, high = probability_of_improvement_interval(first, second, np.random.default_rng(0))
    runs = f"{sum(map(len, first))}, {sum(map(len, second))}"
    return f"| {where} | {left} | {right} | {chance:.2f} | {low:.2f} to {high:.2f} | {runs} |"


def _write_amounts(path: Path, known: Places) -> None:
    import io

    import polars

    rows = []
    for environment, methods in known.items():
        for method, place in methods.items():
            for kind in KINDS:
                for mark in MARKS:
                    one = amount(place.runs(kind), kind, mark)
                    if one.runs:
                        numbers = [None if value >= NEVER / 1e3 else value for value in (one.median, one.low, one.high)]
                        source = place.runs(kind)[0].source
                        rows.append((environment, method, kind, mark, *numbers, one.reached, one.runs, source))
    columns = ["environment", "method", "kind", "mark", "median", "low", "high", "reached", "runs", "source"]
    buffer = io.BytesIO()
    polars.DataFrame(rows, schema=columns, orient="row", infer_schema_length=None).write_parquet(buffer)
    write_atomically(path, buffer.getvalue())
