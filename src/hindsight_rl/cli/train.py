"""`hindsight train`: resolve the settings, train with live progress, leave a picture and a summary."""

import itertools
import json
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from hindsight_rl.analysis.figures import figure_bytes, learning_curves
from hindsight_rl.analysis.metric_figures import metric_panels, reported
from hindsight_rl.analysis.statistics import learning_curve
from hindsight_rl.analysis.words import counted
from hindsight_rl.cli.compilation import keep_compiled_programs
from hindsight_rl.cli.console import PlainConsole
from hindsight_rl.cli.progress import TrainingProgress, explaining_interruptions
from hindsight_rl.cli.train_command import given
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.numbers import is_number
from hindsight_rl.environments.hosted import check_workers
from hindsight_rl.exact import best_return
from hindsight_rl.experiments.configuration import resolve, to_toml
from hindsight_rl.experiments.definition import Job, modules_named
from hindsight_rl.experiments.job import check_folder, run_job
from hindsight_rl.experiments.paper import paper_result, paper_settings
from hindsight_rl.records.evaluations import Evaluations, summary
from hindsight_rl.records.files import read_json, write_atomically, write_json
from hindsight_rl.records.tensorboard import EventFiles, event_names
from hindsight_rl.training.memory import require_memory
from hindsight_rl.training.program import Program, make_program
from hindsight_rl.training.settings import make_settings
from hindsight_rl.training.state import Snapshot

SUMMARY, CURVE, METRICS = "summary.json", "learning-curve.png", "metrics.png"


def run_train(command: Any) -> None:
    """Train as the command says."""
    job = resolved(command)
    if command.print_config:
        print(to_toml(job), end="")
        return
    keep_compiled_programs()
    check_workers([job.environment.task], command.workers)
    program = make_program(job.environment.task, job.settings)  # refuses what cannot work before a folder is made
    require_memory(program, job.settings, job.settings.runs)
    folder = command.output or new_folder(_folder_name(job))
    check_folder(job, folder, command.resume)
    console = PlainConsole(stderr=True)
    console.print(f"Training {job.settings.method} on {job.environment.id} into {folder}", soft_wrap=True)
    if program.agent.remark:
        console.print(program.agent.remark, soft_wrap=True)
    with ExitStack() as stack:
        events = stack.enter_context(EventFiles(folder / "tensorboard")) if command.tensorboard else None
        snapshot, speed = train_with_progress(
            job, folder, command.resume, console, command.keep_every, events, command.workers, program
        )
    result = summarise(job, snapshot, speed or _earlier_speed(folder))
    write_json(folder / SUMMARY, result)
    draw(job, snapshot, folder)
    for failure in snapshot.failures:
        message = f"Run {failure.run} (seed {failure.seed}) failed in batch {failure.batch}: {failure.cause}."
        console.print(message, soft_wrap=True)
    if command.json:
        print(json.dumps(result))
    else:
        print_summary(result, job, folder)
    if len(snapshot.failures) == job.settings.runs:
        raise HindsightError("Every run failed; a smaller learning rate may help.")


def _folder_name(job: Job) -> str:
    return f"{job.environment.id}-{job.settings.method}-batch{job.settings.batch_size}".replace(":", "-")


def train_with_progress(
    job: Job,
    folder: Path,
    resume: bool,
    console: Console,
    keep_every: int | None = None,
    events: EventFiles | None = None,
    workers: int | None = None,
    program: Program | None = None,
) -> tuple[Snapshot, float]:
    """Train a job into its folder while the console shows how far it is; also returns the updates per second."""
    stopwatch = Stopwatch(job.settings.runs)
    latest: list[Snapshot] = []
    with TrainingProgress(job.settings.batches, console, job.settings.method) as progress:
        progress.note("compiling")

        def tick(batch: int) -> None:
            stopwatch.note(batch)
            returns = summary(latest[-1].evaluations.final_return)
            mean, spread = _number(returns["mean"]), _number(returns["std"])
            progress.update(batch, mean, spread, stopwatch.updates_per_second, len(latest[-1].failures))

        def report(snapshot: Snapshot) -> None:
            latest[:] = [snapshot]
            if events:
                write_newest_events(events, snapshot)
            tick(snapshot.batch)

        def how_to_go_on() -> str:
            done = f"{latest[-1].batch if latest else 0} of {job.settings.batches} batches"
            return f"Interrupted after {done}; the same command with --resume --output {folder} goes on."

        with explaining_interruptions(how_to_go_on):
            snapshot = run_job(
                job,
                folder,
                program,
                resume,
                report,
                tick,
                keep_every=keep_every,
                notice=progress.announce,
                workers=workers,
            )
    return snapshot, stopwatch.updates_per_second


def write_newest_events(events: EventFiles, snapshot: Snapshot) -> None:
    """The newest evaluation of every run, a folder for each."""
    evaluations = snapshot.evaluations
    for run, seed in enumerate(evaluations.seeds):
        if np.isfinite(evaluations.final_return[run]):
            values = {name: float(values[run, -1]) for name, values in evaluations.metrics.items()}
            events.write(f"seed{seed}", snapshot.batch, event_names(values))


def resolved(command: Any) -> Job:
    """The job that a command asks for: what is not given comes from the folder to resume, or from the paper."""
    if command.resume and command.output is None:
        raise HindsightError("--resume needs --output: the folder of the run to go on with.")
    chosen, held = given(command), command.asked.held
    job = resolve(command.environment, chosen, lambda line: print(f"hindsight: {line}", file=sys.stderr))
    if held is None or held.settings.method != job.settings.method:
        return job
    settings = {name: value for name, value in chosen.items() if name in held.settings.flat}
    return Job(job.environment, make_settings({**held.settings.flat, **settings}))


class Stopwatch:
    """Updates per second over all runs, not counting the compilation before the first evaluation."""

    def __init__(self, runs: int):
        self._runs = runs
        self._first: tuple[int, float] | None = None
        self._last = (0, 0.0)

    def note(self, batch: int) -> None:
        """Note that so many batches are done now."""
        self._last = (batch, time.monotonic())
        self._first = self._first or self._last

    @property
    def updates_per_second(self) -> float:
        """The mean speed so far."""
        if self._first is None or self._last[1] <= self._first[1]:
            return 0.0
        return self._runs * (self._last[0] - self._first[0]) / (self._last[1] - self._first[1])


def summarise(job: Job, snapshot: Snapshot, updates_per_second: float | None) -> dict[str, Any]:
    """The machine-readable summary of a finished job."""
    evaluations = snapshot.evaluations
    return {
        "environment": job.environment.id,
        "method": job.settings.method,
        "settings": job.settings.flat,
        "average_performance": summary(evaluations.average_performance),
        "final_return": summary(evaluations.final_return),
        "success_rate": summary(evaluations.final_success_rate),
        "episodes": int(evaluations.episodes[-1]),
        "updates_per_second": None if updates_per_second is None else round(updates_per_second, 2),
        "failed_runs": [asdict(failure) for failure in snapshot.failures],
    }


def _earlier_speed(folder: Path) -> float | None:
    """The speed that was measured when the run was made, where there was nothing left to do now.

    A summary that is missing or damaged is made again, but nobody knows the speed any more.
    """
    try:
        speed = read_json(folder / SUMMARY)["updates_per_second"]
    except (HindsightError, LookupError, TypeError):
        return None
    return float(speed) if is_number(speed) else None


def draw(job: Job, snapshot: Snapshot, folder: Path) -> None:
    """Leave the learning curve as a picture, and the metrics where the method reports some."""
    curves = {job.settings.method: learning_curve(snapshot.evaluations)}
    title = f"{job.environment.id}, batch size {job.settings.batch_size}"
    figure = learning_curves(curves, title, best_return(job.environment.task))
    write_atomically(folder / CURVE, figure_bytes(figure))
    draw_metrics(job, snapshot.evaluations, folder)


def draw_metrics(job: Job, evaluations: Evaluations, folder: Path) -> bool:
    """Leave what the method reported as a picture; says whether it reported anything."""
    if not reported(evaluations):
        return False
    title = f"{job.settings.method} on {job.environment.id}, {counted(len(evaluations.seeds), 'run')}"
    write_atomically(folder / METRICS, figure_bytes(metric_panels(evaluations, title)))
    return True


def print_summary(result: dict[str, Any], job: Job, folder: Path) -> None:
    """A small table for people, with the paper's value where there is one."""
    table = Table(title=f"{result['method']} on {result['environment']}, batch size {job.settings.batch_size}")
    table.add_column(f"{job.settings.batches} batches, {job.settings.runs} run(s)")
    table.add_column("mean ± std", justify="right")
    rows = {
        "average performance": result["average_performance"],
        "final return": result["final_return"],
        "final success rate": result["success_rate"],
    }
    for name, value in rows.items():
        table.add_row(name, _mean_and_std(value["mean"], value["std"]))
    paper = paper_result(job.environment.id, job.settings.method, job.settings.batch_size)
    settings = paper_settings(job.environment.id, job.settings.batch_size)
    if paper and settings:
        name = f"the paper's average performance, {settings['batches']} batches"
        table.add_row(name, _mean_and_std(paper.mean, paper.std))
    console = PlainConsole()
    console.print(table)
    pictures = [name for name in (CURVE, METRICS) if (folder / name).exists()]
    console.print(f"In {folder}: {', '.join(pictures)}, evaluations.csv, checkpoint.npz", soft_wrap=True)
    trust = " --trust" if modules_named(job.to_json()) else ""
    console.print(f"Next: hindsight render {folder}{trust}", soft_wrap=True)
    console.print(f"Learned too little? hindsight diagnose {folder}{trust}", soft_wrap=True)
    sys.stdout.flush()


def _mean_and_std(mean: float | None, std: float | None) -> str:
    return "no run finished" if mean is None or std is None else f"{mean:.2f} ± {std:.2f}"


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def new_folder(base: str) -> Path:
    """A folder below runs/ that does not exist yet."""
    candidates = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
    return next(path for name in candidates if not (path := Path("runs") / name).exists())
