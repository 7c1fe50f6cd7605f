"""Training a piece of a study: to its end, from where it was stopped, or until it fails."""

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.hosted import HostedEnvironment, with_workers
from hindsight_rl.environments.interface import Task
from hindsight_rl.environments.registry import Specification
from hindsight_rl.experiments.protocol import Piece
from hindsight_rl.experiments.study_policies import keep_best_policy
from hindsight_rl.records.checkpoints import load_checkpoint, save_checkpoint, seconds_until_next
from hindsight_rl.records.runs import DEFINITIVE, Cause, FinishedRun, RunKey
from hindsight_rl.training.hosted_loop import HostedProgram
from hindsight_rl.training.loop import Program, essence, make_agent, make_program, training
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import (
    Runs,
    RunState,
    Snapshot,
    snapshot_from_arrays,
    snapshot_to_arrays,
)

UNFINISHED = "unfinished.npz"
RAISED = -1
"""The batch of a run that an exception ended, whose own batch nobody knows."""


@dataclass(frozen=True)
class Observer:
    """What to tell of a study while it runs."""

    begin: Callable[[Piece], None] = lambda piece: None
    tick: Callable[[Piece, int], None] = lambda piece, batch: None
    """So many batches of a piece are done."""
    finish: Callable[[Piece, list[FinishedRun]], None] = lambda piece, runs: None
    notice: Callable[[str], None] = warnings.warn
    """Something about a hosted environment is odd but does no harm."""


class Worker:
    """Trains pieces one after another, and keeps the compiled program while they share it."""

    def __init__(
        self, folder: Path, observer: Observer, seconds_between_checkpoints: float, workers: int | None = None
    ):
        self._folder, self._workers = folder, workers
        self._observer = observer
        self._seconds_between_checkpoints = seconds_between_checkpoints
        self._noticed: set[str] = set()
        self._held: tuple[tuple[Specification, Settings], Task, Program | HostedProgram] | None = None

    def train(self, piece: Piece) -> list[FinishedRun]:
        """Train a piece to its end; an exception in it becomes the failure of its runs."""
        began = _Clock()
        try:
            environment, program = self._compiled(piece)
            snapshot, before = self._unfinished(piece, program)
            steps = training(
                environment, piece.settings, _runs(piece), snapshot, self._tick(piece), program, self._notice
            )
        except Exception as error:
            return _raised(piece, error, began.seconds)
        clock = _Clock(before)
        due = time.monotonic() + self._seconds_between_checkpoints
        while True:
            try:
                snapshot = next(steps)
            except StopIteration:
                break
            except KeyboardInterrupt:
                if snapshot is not None:
                    self._save(piece, snapshot, clock.seconds)
                raise
            except Exception as error:
                return _raised(piece, error, clock.seconds)
            if snapshot.batch == 0:
                clock = _Clock()  # the time before was spent on compiling
            self._observer.tick(piece, snapshot.batch)
            if time.monotonic() >= due:
                began_saving = time.monotonic()
                self._save(piece, snapshot, clock.seconds)
                took = time.monotonic() - began_saving
                due = time.monotonic() + seconds_until_next(self._seconds_between_checkpoints, took)
        assert snapshot is not None
        keep_best_policy(self._folder, piece, snapshot)
        return _finished(piece, environment, snapshot, clock.seconds)

    def _notice(self, sentence: str) -> None:
        """Every piece opens simulators of its own, but people want to hear of an oddity once."""
        if sentence not in self._noticed:
            self._noticed.add(sentence)
            self._observer.notice(sentence)

    def _tick(self, piece: Piece) -> Callable[[int], None]:
        return lambda batch: self._observer.tick(piece, batch)

    def _compiled(self, piece: Piece) -> tuple[Task, Program | HostedProgram]:
        needed = (piece.plan.specification, essence(piece.settings))
        if self._held is None or self._held[0] != needed:
            environment = piece.plan.specification.build()
            if isinstance(environment, HostedEnvironment):
                environment = with_workers(environment, self._workers)
            self._held = (needed, environment, make_program(environment, needed[1]))
        return self._held[1:]

    def _unfinished(self, piece: Piece, program: Program | HostedProgram) -> tuple[Snapshot | None, float]:
        """Where the piece was stopped, if it was, and the seconds that went into it."""
        path = self._folder / UNFINISHED
        if not path.exists():
            return None, 0.0
        try:
            arrays, metadata = load_checkpoint(path)
            if metadata.get("piece") != _identity(piece):
                return None, 0.0
            template = jax.eval_shape(program.init, np.zeros(len(piece.keys), np.uint32))
            return snapshot_from_arrays(template, arrays), float(metadata["seconds"])
        except (HindsightError, KeyError, TypeError):
            # A damaged checkpoint costs what it held, but is no fault of the runs: the piece begins anew.
            return None, 0.0

    def _save(self, piece: Piece, snapshot: Snapshot, seconds: float) -> None:
        metadata: dict[str, Any] = {"piece": _identity(piece), "seconds": seconds}
        save_checkpoint(self._folder / UNFINISHED, snapshot_to_arrays(snapshot), metadata)


class _Clock:
    """Seconds since it was made, on top of those of an earlier one."""

    def __init__(self, before: float = 0.0):
        self._began = time.monotonic() - before

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began


def _identity(piece: Piece) -> dict[str, Any]:
    settings = {**asdict(piece.settings), "hidden_layers": list(piece.settings.hidden_layers)}
    # The specification too: a map's file may have changed under its name.
    specification = {"name": piece.plan.specification.name, "options": dict(piece.plan.specification.options)}
    keys = [list(key) for key in piece.keys]
    return {"cell": list(piece.plan.cell), "specification": specification, "keys": keys, "settings": settings}


def _runs(piece: Piece) -> Runs:
    return Runs(
        np.array([key.seed for key in piece.keys], dtype=np.uint32),
        np.array([key.learning_rate for key in piece.keys]),
        np.array([key.baseline_learning_rate for key in piece.keys]),
    )


def _finished(piece: Piece, environment: Task, snapshot: Snapshot, seconds: float) -> list[FinishedRun]:
    evaluations = snapshot.evaluations
    failures = {failure.run: Cause(failure.batch, failure.cause) for failure in snapshot.failures}
    records = _records(piece, environment, snapshot.states)
    return [
        FinishedRun(
            cell=piece.plan.cell,
            key=key,
            settings=_own_settings(piece, key),
            batches=evaluations.batches,
            episodes=evaluations.episodes,
            mean_returns=evaluations.mean_returns[run],
            success_rates=evaluations.success_rates[run],
            seconds=_core_seconds(seconds, len(piece.keys)),
            failure=failures.get(run),
            records={name: array[run] for name, array in records.items()},
        )
        for run, key in enumerate(piece.keys)
    ]


def _records(piece: Piece, environment: Task, states: RunState) -> dict[str, np.ndarray]:
    if piece.round.name != DEFINITIVE:
        return {}
    found = make_agent(environment, piece.settings).records(states.agent)
    return {name: np.asarray(array) for name, array in found.items()}


def _raised(piece: Piece, error: Exception, seconds: float) -> list[FinishedRun]:
    """The runs of a piece that ended with an exception."""
    gist = (str(error).strip().splitlines() or [""])[0]
    cause = Cause(RAISED, f"{type(error).__name__}: {gist}"[:500])
    nothing = np.zeros(0)
    return [
        FinishedRun(
            cell=piece.plan.cell,
            key=key,
            settings=_own_settings(piece, key),
            batches=nothing.astype(np.int64),
            episodes=nothing.astype(np.int64),
            mean_returns=nothing,
            success_rates=nothing,
            seconds=_core_seconds(seconds, len(piece.keys)),
            failure=cause,
        )
        for key in piece.keys
    ]


def _own_settings(piece: Piece, key: RunKey) -> dict[str, Any]:
    settings = asdict(piece.settings)
    rates = {"learning_rate": key.learning_rate, "baseline_learning_rate": key.baseline_learning_rate}
    return {**settings, **rates, "runs": 1, "seed": key.seed}


def _core_seconds(seconds: float, runs: int) -> float:
    """The seconds of one core that went into each of the runs of a piece."""
    return round(seconds * min(runs, os.cpu_count() or 1) / runs, 3)
