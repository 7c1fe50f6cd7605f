"""`hindsight train`: resolve the settings, train with live progress, leave a picture and a summary."""

import itertools
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.table import Table

from hindsight_rl.analysis.words import counted
from hindsight_rl.cli.console import PlainConsole
from hindsight_rl.cli.train_command import given
from hindsight_rl.cli.workers import hands, parse_workers
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.hosted import HostedTask, check_workers
from hindsight_rl.experiments.cluster.guard import guarded
from hindsight_rl.experiments.configuration import resolve, to_toml
from hindsight_rl.experiments.definition import Job, modules_named
from hindsight_rl.experiments.job import check_folder, check_keep_every
from hindsight_rl.experiments.paper import paper_result, paper_settings
from hindsight_rl.records.tensorboard import EventFiles
from hindsight_rl.running.folder import CURVE, METRICS, finish_folder
from hindsight_rl.running.shown import endings, evaluation_share, train_with_progress
from hindsight_rl.training.compilation import keep_compiled_programs
from hindsight_rl.training.compiled_loop import require_memory_to_compile
from hindsight_rl.training.loop import runs_of
from hindsight_rl.training.memory import require_memory
from hindsight_rl.training.program import make_program
from hindsight_rl.training.settings import make_settings


def run_train(command: Any) -> None:
    """Train as the command says."""
    workers = parse_workers(command.workers, command.on)
    if workers.cluster is not None:
        guarded()
    job = resolved(command)
    if command.print_config:
        print(to_toml(job), end="")
        return
    if "last" not in command.keep:
        raise HindsightError("--keep must name last: it is what --resume goes on from.")
    limits = endings(command.until_success, command.minutes)
    keep_compiled_programs()
    check_workers([job.environment.task], workers.count)
    program = make_program(job.environment.task, job.settings)  # refuses what cannot work before a folder is made
    require_memory(program, job.settings, job.settings.runs)
    folder = command.output or new_folder(_folder_name(job))
    check_folder(job, folder, command.resume)
    check_keep_every(job, command.keep_every)
    if not command.resume:
        require_memory_to_compile(program, runs_of(job.settings), job.settings.batch_size)
    console = PlainConsole(stderr=True)
    console.print(f"Training {job.settings.method} on {job.environment.id} into {folder}", soft_wrap=True)
    if program.agent.remark:
        console.print(program.agent.remark, soft_wrap=True)
    if isinstance(job.environment.task, HostedTask):
        console.print(evaluation_share(job.settings), soft_wrap=True)
    with ExitStack() as stack:
        events = stack.enter_context(EventFiles(folder / "tensorboard")) if command.tensorboard else None
        snapshot, speed = train_with_progress(
            job,
            folder,
            command.resume,
            console,
            command.keep_every,
            events,
            stack.enter_context(hands(workers)),
            program,
            limits,
            "best" in command.keep,
        )
    result = finish_folder(job, snapshot, folder, speed)
    if snapshot.batch < job.settings.batches:
        console.print(f"Ended after {snapshot.batch} of {job.settings.batches} batches, as asked for.", soft_wrap=True)
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


def print_summary(result: dict[str, Any], job: Job, folder: Path) -> None:
    """A small table for people, with the paper's value where there is one."""
    title = f"{result['method']} on {result['environment']}, batch size {job.settings.batch_size}"
    table = Table(title=title, min_width=len(title))
    table.add_column(f"{result['batches']} batches, {counted(job.settings.runs, 'run')}")
    table.add_column("mean ± std" if job.settings.runs > 1 else "value", justify="right")
    rows = {
        "average performance": result["average_performance"],
        "final return": result["final_return"],
        "final success rate": result["success_rate"],
    }
    for name, value in rows.items():
        table.add_row(name, _mean_and_std(value["mean"], value["std"], job.settings.runs))
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


def _mean_and_std(mean: float | None, std: float | None, runs: int = 2) -> str:
    """One run has no spread to speak of."""
    if mean is None or std is None:
        return "no run finished"
    return f"{mean:.2f} ± {std:.2f}" if runs > 1 else f"{mean:.2f}"


def new_folder(base: str) -> Path:
    """A folder below runs/ that does not exist yet."""
    candidates = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
    return next(path for name in candidates if not (path := Path("runs") / name).exists())
