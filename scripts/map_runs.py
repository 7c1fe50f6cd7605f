"""Runs for the map of methods: one seed at a time, with a processor's clock that stands still during evaluations."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np

from hindsight_rl.environments.registry import make_compiled
from hindsight_rl.exact.best import best_return
from hindsight_rl.experiments.configuration import resolve
from hindsight_rl.records.files import make_folder, write_atomically
from hindsight_rl.training.program import STEPS, make_program

BATCH_SIZE = 16
SEEDS = range(100, 105)
"""None of them was looked at while defaults were chosen."""
SECONDS, PATIENT_SECONDS = 60.0, 240.0
"""Of the processor, after which a run is given up; the second for stable-baselines3."""
ENOUGH = 0.95
"""Of the best return: there a run ends."""
BATCHES = {
    "bit-flipping-8": 1400,
    "bit-flipping-16": 1000,
    "bit-flipping-32": 200,
    "empty-room": 200,
    "four-rooms": 1700,
}
"""After so many batches of 16 a run ends in any case: the paper's number, and on 32 bits ten times what hppo needs."""
METHODS = ("gcpg", "hpg", "hpg+b", "ppo", "hppo", "dqn", "dqn+her")
STABLE_BASELINES = "SB3 DQN+HER"
ROBOTS = "SB3 SAC+HER"
"""Where actions are continuous: `benchmarks/robots.py` makes its runs."""
LEFT_OUT = {
    *(("bit-flipping-16", method) for method in ("gcpg", "dqn", "hpg+b")),
    *(("bit-flipping-32", method) for method in ("gcpg", "dqn", "hpg+b", "hppo", STABLE_BASELINES)),
}
"""The committed studies have 10 to 20 runs of those on 16 bits, and results/hppo those of hppo on 32; what learns
nothing on 16 bits is not tried on 32, and stable-baselines3 is shown no such environment yet."""
COLUMNS = ("environment", "method", "seed", "episodes", STEPS, "seconds", "mean_return", "success_rate")


@dataclass(frozen=True)
class Cell:
    """An environment, a method and a seed."""

    environment: str
    method: str
    seed: int


class Learner(Protocol):
    """What can be trained for a while and evaluated."""

    @property
    def episodes(self) -> int:
        """Played so far."""
        ...

    @property
    def steps(self) -> int:
        """Actions taken so far."""
        ...

    def train(self, more: int) -> None:
        """Play so many more episodes at least, and learn."""
        ...

    def evaluate(self) -> tuple[float, float]:
        """Mean return and success rate of 256 greedy episodes."""
        ...


class Ours:
    """A run with the default settings of its method."""

    _programs: dict[tuple[str, str], Any] = {}  # noqa: RUF012  (shared on purpose: seeds are inputs of a program)

    def __init__(self, cell: Cell):
        chosen = {"method": cell.method, "batch_size": BATCH_SIZE, "batches": BATCHES[cell.environment]}
        settings = resolve(cell.environment, chosen).settings
        name = cell.environment, cell.method
        if name not in self._programs:
            self._programs[name] = make_program(make_compiled(cell.environment), settings)
        self._program = self._programs[name]
        self._seeds = jnp.array([cell.seed], jnp.uint32)
        self._rates = {name: jnp.full(1, rate) for name, rate in settings.rates.items()}
        self._states, self._batches, self.steps = self._program.init(self._seeds), 0, 0
        self._advance(0, False)  # compiles

    @property
    def episodes(self) -> int:
        """Played so far."""
        return self._batches * BATCH_SIZE

    def train(self, more: int) -> None:
        """Play so many more episodes, and learn."""
        _, totals = self._advance(more // BATCH_SIZE, False)
        self.steps += int(totals[STEPS][0])

    def evaluate(self) -> tuple[float, float]:
        """Mean return and success rate of greedy episodes."""
        evaluation, _ = self._advance(0, True)
        return float(evaluation["mean_return"][0]), float(evaluation["success_rate"][0])

    def _advance(self, batches: int, evaluates: bool) -> tuple[Any, Any]:
        done = self._batches
        self._states, evaluation, totals = self._program.advance(
            self._states, self._seeds, self._rates, done, batches, evaluates
        )
        self._batches += batches
        return evaluation, {name: np.asarray(value) for name, value in totals.items()}  # which waits for it


def open_learner(cell: Cell) -> Learner:
    """The learner of a cell; stable-baselines3 as `benchmarks/replay.py` sets it up where it is mostly used."""
    if cell.method != STABLE_BASELINES:
        return Ours(cell)
    from map_stable_baselines import open_stable_baselines

    return open_stable_baselines(cell)


def train(cell: Cell) -> list[tuple[Any, ...]]:
    """Rows of `COLUMNS`: a run to 95 % of the best return, or to its limits."""
    best = best_return(make_compiled(cell.environment))
    assert best is not None
    learner = open_learner(cell)
    limit = PATIENT_SECONDS if cell.method == STABLE_BASELINES else SECONDS
    most = BATCHES[cell.environment] * BATCH_SIZE
    rows: list[tuple[Any, ...]] = []
    seconds = 0.0
    while True:
        mean_return, success_rate = learner.evaluate()
        where = (learner.episodes, learner.steps, round(seconds, 3))
        rows.append((cell.environment, cell.method, cell.seed, *where, mean_return, success_rate))
        if mean_return >= ENOUGH * best or learner.episodes >= most or seconds >= limit:
            return rows
        began = time.process_time()
        # Further apart as time goes by, so that a number of episodes is known to about 5 %.
        learner.train(max(1, learner.episodes // 20 // BATCH_SIZE) * BATCH_SIZE)
        seconds += time.process_time() - began


def read_rows(path: Path) -> list[tuple[Any, ...]]:
    """The rows that are there already."""
    import polars

    return polars.read_parquet(path).rows() if path.exists() else []


def write_rows(path: Path, rows: Sequence[tuple[Any, ...]]) -> None:
    """All rows, in a form that does not depend on the order in which runs were made."""
    import io

    import polars

    make_folder(path.parent)
    buffer = io.BytesIO()
    frame = polars.DataFrame(list(rows), schema=list(COLUMNS), orient="row", infer_schema_length=None)
    frame.sort("environment", "method", "seed", "episodes").write_parquet(buffer)
    write_atomically(path, buffer.getvalue())


def wanted(environments: Sequence[str], methods: Sequence[str], seeds: int | None = None) -> list[Cell]:
    """All cells of some environments and methods, seed by seed, so that a stop leaves every method with as many."""
    return [
        Cell(environment, method, seed)
        for seed in SEEDS[:seeds]
        for environment in environments
        for method in methods
        if (environment, method) not in LEFT_OUT
    ]
