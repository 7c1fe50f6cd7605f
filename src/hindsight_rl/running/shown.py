"""Training while people look on: progress, callbacks, lines for `logging`, and how to go on after a stop."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from hindsight_rl.core.run import evaluation_count
from hindsight_rl.experiments.definition import Job
from hindsight_rl.experiments.job import run_job
from hindsight_rl.records.evaluations import summary
from hindsight_rl.records.tensorboard import EventFiles, event_names
from hindsight_rl.rollout.crew import Hands
from hindsight_rl.running.progress import TrainingProgress, explaining_interruptions
from hindsight_rl.training.callbacks import Callback, for_minutes, until_success, wants_end
from hindsight_rl.training.program import Program
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import Snapshot

LOGGER = logging.getLogger("hindsight_rl")

Run = Callable[..., Snapshot]
"""Trains, and calls `report` after each evaluation (True ends it), `tick` in between and `notice` with sentences."""


def train_with_progress(
    job: Job,
    folder: Path,
    resume: bool,
    console: Console,
    keep_every: int | None = None,
    events: EventFiles | None = None,
    workers: int | Hands | None = None,
    program: Program | None = None,
    callbacks: Sequence[Callback] = (),
    keep_best: bool = True,
) -> tuple[Snapshot, float]:
    """Train a job into its folder while the console shows how far it is; also returns the updates per second."""
    if events:
        callbacks = [*callbacks, Callback(partial(write_newest_events, events))]
    run = partial(run_job, job, folder, program, resume, keep_every=keep_every, workers=workers, keep_best=keep_best)
    where = f"the same command with --resume --output {folder} goes on"
    return show(job.settings, job.environment.id, console, run, callbacks, where)


def show(
    settings: Settings,
    environment: str,
    console: Console,
    run: Run,
    callbacks: Sequence[Callback] = (),
    how_to_go_on: str = "nothing was saved",
    notice: Callable[[str], None] | None = None,
) -> tuple[Snapshot, float]:
    """Run a job while the console shows how far it is; also returns the updates per second."""
    stopwatch = Stopwatch(settings.runs)
    latest: list[Snapshot] = []
    with ExitStack() as stack:
        for each in callbacks:
            each.begin({"environment": environment, **settings.flat})
            stack.callback(each.end)
        progress = stack.enter_context(TrainingProgress(settings.batches, console, settings.method))
        progress.note("compiling")

        def tick(batch: int) -> None:
            stopwatch.note(batch)
            returns = summary(latest[-1].evaluations.final_return)
            mean, spread = _number(returns["mean"]), _number(returns["std"]) if settings.runs > 1 else math.nan
            progress.update(batch, mean, spread, stopwatch.updates_per_second, len(latest[-1].failures))

        def report(snapshot: Snapshot) -> bool:
            latest[:] = [snapshot]
            tick(snapshot.batch)
            _log(settings, snapshot)
            return wants_end(callbacks, snapshot)

        def explanation() -> str:
            done = f"{latest[-1].batch if latest else 0} of {settings.batches} batches"
            return f"Interrupted after {done}; {how_to_go_on}."

        LOGGER.info("Training %s on %s for %d batches.", settings.method, environment, settings.batches)
        with explaining_interruptions(explanation):
            snapshot = run(report=report, tick=tick, notice=notice or progress.announce)
    return snapshot, stopwatch.updates_per_second


def _log(settings: Settings, snapshot: Snapshot) -> None:
    if LOGGER.isEnabledFor(logging.INFO):
        evaluations = snapshot.evaluations
        returns, successes = (summary(values) for values in (evaluations.final_return, evaluations.final_success_rate))
        reached = f"{snapshot.batch} of {settings.batches} batches"
        LOGGER.info("%s: return %s, success rate %s.", reached, returns["mean"], successes["mean"])


def endings(until: float | None, minutes: float | None) -> list[Callback]:
    """The callbacks that end a job early, as asked for."""
    chosen: list[Callback] = []
    if until is not None:
        chosen.append(until_success(until))
    if minutes is not None:
        chosen.append(for_minutes(minutes))
    return chosen


def evaluation_share(settings: Settings) -> str:
    """How much of what simulators play goes into evaluations, in a sentence."""
    trained = settings.batches * settings.batch_size
    evaluated = evaluation_count(settings.batches, settings.evaluate_every) * settings.evaluation_episodes
    share = evaluated / (evaluated + trained)
    return (
        f"Evaluations take {share:.0%} of all episodes ({settings.evaluation_episodes} every "
        f"{settings.evaluate_every} batches); --evaluate-every and --evaluation-episodes change that."
    )


def write_newest_events(events: EventFiles, snapshot: Snapshot) -> None:
    """The newest evaluation of every run, a folder for each."""
    evaluations = snapshot.evaluations
    for run, seed in enumerate(evaluations.seeds):
        if np.isfinite(evaluations.final_return[run]):
            values = {name: float(values[run, -1]) for name, values in evaluations.metrics.items()}
            events.write(f"seed{seed}", snapshot.batch, event_names(values))


class Stopwatch:
    """Updates per second over all runs, not counting compilation: what comes before the first evaluation, and the first
    update, in which what learns from simulators compiles, where later ones were seen."""

    def __init__(self, runs: int, clock: Callable[[], float] = time.monotonic):
        self._runs = runs
        self._clock = clock
        self._first: tuple[int, float] | None = None
        self._trained: tuple[int, float] | None = None
        self._last = (0, 0.0)

    def note(self, batch: int) -> None:
        """Note that so many batches are done now."""
        self._last = (batch, self._clock())
        self._first = self._first or self._last
        if batch > self._first[0]:
            self._trained = self._trained or self._last

    @property
    def updates_per_second(self) -> float:
        """The mean speed so far."""
        start = self._trained if self._trained and self._last[0] > self._trained[0] else self._first
        if start is None or self._last[1] <= start[1]:
            return 0.0
        return self._runs * (self._last[0] - start[0]) / (self._last[1] - start[1])


def _number(value: float | None) -> float:
    return np.nan if value is None else value
