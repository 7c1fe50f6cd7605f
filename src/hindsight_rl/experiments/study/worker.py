"""Training a piece of a study: to its end, or from where it was stopped."""

import json
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hindsight_rl.core.cores import cores
from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.environments.registry import Specification
from hindsight_rl.experiments.saving import Saver
from hindsight_rl.experiments.study.policies import keep_best_policy
from hindsight_rl.experiments.study.protocol import Piece
from hindsight_rl.records.checkpoints import load_checkpoint, save_checkpoint
from hindsight_rl.records.runs import DEFINITIVE, Cause, FinishedRun, RunKey
from hindsight_rl.training.loop import training
from hindsight_rl.training.numerics import NUMERICS, numerics
from hindsight_rl.training.program import Program, make_program
from hindsight_rl.training.state import Runs, RunState, Snapshot, snapshot_from_arrays, snapshot_to_arrays

UNFINISHED = "unfinished.npz"
RAISED = -1
"""The batch of a run that an exception ended, whose own batch nobody knew; only earlier versions recorded such runs."""


@dataclass(frozen=True)
class Observer:
    """What to tell of a study while it runs."""

    begin: Callable[[Piece], None] = lambda piece: None
    tick: Callable[[Piece, int], None] = lambda piece, batch: None
    """So many batches of a piece are done."""
    finish: Callable[[Piece, list[FinishedRun]], None] = lambda piece, runs: None
    notice: Callable[[str], None] = warnings.warn
    """Something about a hosted environment is odd but does no harm."""
    kept: Callable[[Piece], None] = lambda piece: None
    """A checkpoint of a piece was written."""
    status: Callable[[str], None] = lambda sentence: None
    """What goes on where, while many pieces are at hand."""


class Unfinished(Exception):
    """A piece that an exception ended; the message is that of the exception."""


@contextmanager
def _unfinished_by_exceptions() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise Unfinished(str(error) if isinstance(error, HindsightError) else f"{gist(error)}.") from error


def _steps(steps: Iterator[Snapshot]) -> Iterator[Snapshot]:
    """The same snapshots; only what training raises is meant, not what is done with them."""
    with _unfinished_by_exceptions():
        yield from steps


class Programs:
    """Keeps the compiled program of the newest piece, for those after it that share it."""

    def __init__(self) -> None:
        self._held: tuple[tuple[Specification, Any], Program] | None = None

    def of(self, piece: Piece) -> Program:
        """The program that trains a piece."""
        needed = (piece.plan.specification, piece.settings.compiled)
        if self._held is None or self._held[0] != needed:
            self._held = (needed, make_program(piece.plan.specification.task, piece.settings))
        return self._held[1]


class Worker:
    """Trains pieces one after another."""

    def __init__(
        self,
        folder: Path,
        observer: Observer,
        seconds_between_checkpoints: float,
        workers: int | None = None,
        programs: Programs | None = None,
    ):
        self._folder, self._workers, self._programs = folder, workers, programs or Programs()
        self._observer = observer
        self._seconds_between_checkpoints = seconds_between_checkpoints
        self._noticed: set[str] = set()

    def train(self, piece: Piece) -> list[FinishedRun]:
        """Train a piece to its end, or raise `Unfinished`."""
        steps = self.advance(piece)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value

    def advance(self, piece: Piece) -> Generator[int, None, list[FinishedRun]]:
        """Train a piece and yield the batch of each evaluation; the finished runs are what it returns.

        That a run stops being finite is a result, which is recorded. An exception is none: it says as much of the
        machine (memory, files, processes, packages) as of the method.
        """
        with _unfinished_by_exceptions():
            program = self._programs.of(piece)
            snapshot, before = self._unfinished(piece, program)
            runs, tick = _runs(piece), self._tick(piece)
            steps = _steps(training(program, piece.settings, runs, snapshot, tick, self._notice, self._workers))
        clock = _Clock(before)
        save = lambda newest: self._save(piece, newest, clock.seconds)  # noqa: E731
        with Saver(save, self._seconds_between_checkpoints, snapshot) as saver:
            for snapshot in steps:
                if snapshot.batch == 0:
                    clock = _Clock()  # the time before was spent on compiling
                saver.newest = snapshot
                self._observer.tick(piece, snapshot.batch)
                saver.show(snapshot)
                yield snapshot.batch
        assert snapshot is not None
        keep_best_policy(self._folder, piece, snapshot)
        return _finished(piece, program, snapshot, clock.seconds)

    def _notice(self, sentence: str) -> None:
        """Every piece opens simulators of its own, but people want to hear of an oddity once."""
        if sentence not in self._noticed:
            self._noticed.add(sentence)
            self._observer.notice(sentence)

    def _tick(self, piece: Piece) -> Callable[[int], None]:
        return lambda batch: self._observer.tick(piece, batch)

    def _unfinished(self, piece: Piece, program: Program) -> tuple[Snapshot | None, float]:
        """Where the piece was stopped, if it was, and the seconds that went into it."""
        path = self._folder / UNFINISHED
        if not path.exists():
            return None, 0.0
        try:
            arrays, metadata = load_checkpoint(path)
            if metadata.get("piece") != identity(piece):
                return None, 0.0
            return snapshot_from_arrays(program.states(len(piece.keys)), arrays), float(metadata["seconds"])
        except (HindsightError, KeyError, TypeError):
            # A damaged checkpoint costs what it held, but is no fault of the runs: the piece begins anew.
            return None, 0.0

    def _save(self, piece: Piece, snapshot: Snapshot, seconds: float) -> None:
        metadata: dict[str, Any] = {"piece": identity(piece), "seconds": seconds}
        save_checkpoint(self._folder / UNFINISHED, snapshot_to_arrays(snapshot), metadata)
        self._observer.kept(piece)


class _Clock:
    """Seconds since it was made, on top of those of an earlier one."""

    def __init__(self, before: float = 0.0):
        self._began = time.monotonic() - before

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began


def identity(piece: Piece) -> Any:
    """All that decides what a piece comes to, as JSON gives it back."""
    # The specification too: a map's file may have changed under its name.
    specification = {"name": piece.plan.specification.name, "options": dict(piece.plan.specification.options)}
    identity = {
        "cell": piece.plan.cell,
        "specification": specification,
        "keys": piece.keys,
        "settings": piece.settings.flat,
        NUMERICS: numerics(),
    }
    return json.loads(json.dumps(identity))  # as it comes back from a file, with lists for tuples


def _runs(piece: Piece) -> Runs:
    chosen = [dict(key.choices) for key in piece.keys]
    rates = {
        name: np.array([choices.get(name, rate) for choices in chosen]) for name, rate in piece.settings.rates.items()
    }
    return Runs(np.array([key.seed for key in piece.keys], dtype=np.uint32), rates)


def _finished(piece: Piece, program: Program, snapshot: Snapshot, seconds: float) -> list[FinishedRun]:
    evaluations = snapshot.evaluations
    failures = {failure.run: Cause(failure.batch, failure.cause) for failure in snapshot.failures}
    records = _records(piece, program, snapshot.states)
    return [
        FinishedRun(
            cell=piece.plan.cell,
            key=key,
            settings=_own_settings(piece, key),
            batches=evaluations.batches,
            episodes=evaluations.episodes,
            metrics={name: values[run] for name, values in evaluations.metrics.items()},
            seconds=_core_seconds(seconds, len(piece.keys)),
            failure=failures.get(run),
            records={name: array[run] for name, array in records.items()},
        )
        for run, key in enumerate(piece.keys)
    ]


def _records(piece: Piece, program: Program, states: RunState) -> dict[str, np.ndarray]:
    if piece.round.name != DEFINITIVE:
        return {}
    return {name: np.asarray(array) for name, array in program.agent.records(states.agent).items()}


def _own_settings(piece: Piece, key: RunKey) -> dict[str, Any]:
    return {**piece.plan.settings(piece.round.stage, 1, key.choices).flat, "seed": key.seed}


def _core_seconds(seconds: float, runs: int) -> float:
    """The seconds of one core that went into each of the runs of a piece."""
    return round(seconds * min(runs, cores()) / runs, 3)
