"""What is known of each environment and method, from the runs of the map and from the results that were made before."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from map_runs import STABLE_BASELINES

from hindsight_rl.analysis.beside.entries import Entry, read_entries
from hindsight_rl.environments.registry import ENVIRONMENTS, make_compiled, parted
from hindsight_rl.exact.best import best_return
from hindsight_rl.training.program import STEPS

BATCH_SIZE = 16
MAP, STUDIES, REPLAY = "map", "study", "replay"
HOSTED = {
    "fetch-reach-hpg": "",
    "fetch-push-hpg-full": "to the horizon",
    "fetch-push-gcpg-normalised": "",
    "ms-pacman-hpg-batch16": "",
    "ms-pacman-gcpg-batch16": "",
}
"""The runs of results/hosted that stand for a method; of several variants the best, which is said."""


@dataclass(frozen=True, eq=False)
class Run:
    """One seed: how far it was at each evaluation, and how good."""

    environment: str
    method: str
    seed: int
    source: str
    episodes: Float[np.ndarray, " evaluation"]
    steps: Float[np.ndarray, " evaluation"]
    """Actions in training; NaN where nobody counted them."""
    seconds: Float[np.ndarray, " evaluation"]
    """Of the processor in runs of the map, of the clock in all others; NaN where nobody knows."""
    level: Float[np.ndarray, " evaluation"]
    """The mean return as a share of the best possible, or else the success rate."""

    def reached(self, mark: float) -> int | None:
        """The first evaluation at or above a mark."""
        found = np.flatnonzero(self.level >= mark)
        return int(found[0]) if found.size else None


@cache
def best(environment: str) -> float | None:
    """The best possible return of a compiled environment; None for one whose success rate counts instead."""
    name = parted(environment)[0]
    if name not in ENVIRONMENTS or ENVIRONMENTS[name].hosted:  # the others are robots of one's own
        return None
    return best_return(make_compiled(environment))


def fresh(rows: Iterable[Sequence[Any]]) -> list[Run]:
    """The runs of the map itself."""
    by_run: dict[tuple[Any, ...], list[Sequence[Any]]] = {}
    for row in rows:
        by_run.setdefault(tuple(row[:3]), []).append(row[3:])
    runs = []
    for (environment, method, seed), found in by_run.items():
        episodes, steps, seconds, returns, rates = np.array(found, np.float64).T
        runs.append(Run(environment, method, seed, MAP, episodes, steps, seconds, _level(environment, returns, rates)))
    return runs


def committed(results: Path) -> list[Run]:
    """The runs of all results that were made before."""
    folders = [path.parent for path in sorted(results.glob("hppo/*/evaluations.csv"))]
    folders += [results / "hosted" / name for name in HOSTED if (results / "hosted" / name).exists()]
    runs = [run for folder in folders for entry in read_entries(folder) for run in _of_entry(entry, folder.parent.name)]
    for study in ("paper", "her"):
        entries = read_entries(results / study / "evaluations.parquet")
        chosen = [entry for entry in entries if entry.settings["batch_size"] == BATCH_SIZE]
        # The second study has the first one's runs of gcpg and hpg too.
        new = [entry for entry in chosen if study == "paper" or entry.method.startswith("dqn")]
        runs += [run for entry in new for run in _of_entry(entry, STUDIES)]
    return runs + _of_replay(results / "replay" / "bench.csv") + of_robots(results / "map" / "robots.csv")


def _of_entry(entry: Entry, source: str) -> list[Run]:
    evaluations = entry.evaluations
    unknown = np.full(evaluations.mean_returns.shape, np.nan)
    steps = evaluations.metrics.get(STEPS, unknown)
    seconds = np.full(len(evaluations.batches), np.nan)
    if entry.seconds is not None:
        seconds = entry.seconds * evaluations.batches / evaluations.batches[-1]
    return [
        Run(
            entry.environment,
            entry.method,
            int(evaluations.seeds[run]),
            source,
            evaluations.episodes.astype(np.float64),
            steps[run],
            seconds,
            _level(entry.environment, evaluations.mean_returns[run], evaluations.success_rates[run]),
        )
        for run in np.flatnonzero(entry.finished)
    ]


def _of_replay(path: Path) -> list[Run]:
    """stable-baselines3 as it is mostly used, from the benchmark of replay: seconds of the clock, no steps."""
    by_run: dict[tuple[str, int], list[tuple[float, ...]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["method"] == f"{STABLE_BASELINES}, as mostly used":
                numbers = tuple(float(row[name]) for name in ("episodes", "seconds", "mean_return", "success_rate"))
                by_run.setdefault((row["environment"], int(row["seed"])), []).append(numbers)
    runs = []
    for (environment, seed), found in by_run.items():
        episodes, seconds, returns, rates = np.array(found).T
        steps, level = np.full(len(found), np.nan), _level(environment, returns, rates)
        runs.append(Run(environment, STABLE_BASELINES, seed, REPLAY, episodes, steps, seconds, level))
    return runs


def of_robots(path: Path) -> list[Run]:
    """stable-baselines3 on robots, from `benchmarks/robots.py`: seconds of the processor."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows = [list(row.values()) for row in csv.DictReader(file)]
    return fresh([*row[:2], int(row[2]), *map(float, row[3:])] for row in rows)


def _level(environment: str, returns: np.ndarray, success_rates: np.ndarray) -> np.ndarray:
    top = best(environment)
    return success_rates if top is None else returns / top
