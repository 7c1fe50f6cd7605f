"""`hindsight study run` and `hindsight study merge`."""

import json
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from hindsight_rl.analysis.study.runs import definitive
from hindsight_rl.cli.console import PlainConsole
from hindsight_rl.cli.study.commands import Slice, StudyMerge, StudyRun
from hindsight_rl.cli.study.progress import StudyProgress
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.numbers import require_positive_integer
from hindsight_rl.experiments.cluster.connection import Cluster, connected
from hindsight_rl.experiments.cluster.engine import RayEngine, gpus_for_a_piece
from hindsight_rl.experiments.cluster.guard import guarded
from hindsight_rl.experiments.cluster.placement import Placement
from hindsight_rl.experiments.paper import paper_result
from hindsight_rl.experiments.study.files import load_study, presets
from hindsight_rl.experiments.study.merge import merge_study
from hindsight_rl.experiments.study.plan import Plan, Study
from hindsight_rl.experiments.study.protocol import Piece
from hindsight_rl.experiments.study.run import (
    admit,
    continued,
    describe_damage,
    held_study,
    require_undamaged,
    require_workers,
    run_study,
    search_at_chance,
)
from hindsight_rl.experiments.study.slices import parse_slice, sliced
from hindsight_rl.experiments.study.worker import RAISED, Observer
from hindsight_rl.records.evaluations import summary
from hindsight_rl.records.results import RESULTS, ResultsFile
from hindsight_rl.records.runs import Cell, FinishedRun, StudyResults
from hindsight_rl.records.tensorboard import EventFiles, event_names
from hindsight_rl.running.progress import duration, explaining_interruptions
from hindsight_rl.training.compilation import keep_compiled_programs


def run_study_command(command: StudyRun) -> None:
    """Run a study as the command says."""
    if command.on is not None:
        guarded()
    keep_compiled_programs()
    study, folder = resolve(command)
    require_workers(study, command.workers)
    if command.on is not None and command.workers is not None:
        raise HindsightError("--workers is for this machine; on a cluster each piece has as many as --piece-cores.")
    _require_share(command)
    held = read_results(folder)
    if held is not None:
        admit(study, held, folder)
        if not command.repair:
            require_undamaged(held, folder)
        study = continued(study, held)
        if command.retry_failed:
            held = replace(held, runs=[run for run in held.runs if run.failure is None or run.failure.batch != RAISED])
    console = PlainConsole(stderr=True)
    console.print(f"Study {study.name} into {folder}", soft_wrap=True)
    began = time.monotonic()
    with ExitStack() as stack:
        events = stack.enter_context(EventFiles(folder / "tensorboard")) if command.tensorboard else None
        how_to_go_on = f"Interrupted; what is finished is in {folder}, and the same command goes on from there."
        stack.enter_context(explaining_interruptions(lambda: how_to_go_on))
        cluster = stack.enter_context(connected(command.on)) if command.on else None
        on_cores = sum(cluster.nodes.values()) if cluster else None
        engine = RayEngine(cluster, _placement(command, cluster)) if cluster else None
        progress = stack.enter_context(StudyProgress(study, held, console, on_cores=on_cores))

        def finish(piece: Piece, runs: list[FinishedRun]) -> None:
            if events:
                write_events(events, runs)
            progress.finish(piece, runs)

        observer = Observer(progress.begin, progress.tick, finish, progress.announce, status=progress.status)
        again = {"retry": command.retry_failed, "repair": command.repair}
        results = run_study(study, folder, observer, **again, workers=command.workers, engine=engine)
    outcome = [summarise(results, plan) for plan in study.plans]
    if command.json:
        print(json.dumps({"study": study.name, "folder": str(folder), "cells": outcome}))
        return
    print_outcome(outcome, folder, time.monotonic() - began)


def _require_share(command: StudyRun) -> None:
    require_positive_integer("--piece-cores", command.piece_cores)
    if command.piece_gpus is not None and command.piece_gpus < 0:
        raise HindsightError(f"--piece-gpus must be a whole number of at least 0, not {command.piece_gpus}.")


def _placement(command: StudyRun, cluster: Cluster) -> Placement:
    gpus = gpus_for_a_piece(cluster) if command.piece_gpus is None else command.piece_gpus
    return Placement(cores=command.piece_cores, gpus=gpus)


def run_merge(command: StudyMerge) -> None:
    """Take runs over from other folders."""
    if not command.source:
        raise HindsightError("study merge needs a folder to take runs from.")
    for source in command.source:
        with ResultsFile.open(source / RESULTS) as file:
            tell_damage(file.read(), source)
        study = held_study(source).narrowed(command.environments, command.methods, command.batch_sizes)
        taken = merge_study(command.folder, source, study)
        already = f"; {taken.there_already:,} were there already" if taken.there_already else ""
        PlainConsole().print(
            f"{command.folder} took {taken.runs:,} runs (cells: {taken.cells}) from {source}{already}.",
            soft_wrap=True,
        )


def resolve(command: Slice) -> tuple[Study, Path]:
    """The slice of a study that a command means, and its folder."""
    source = Path(command.study)
    # A folder of papers, say, does not hide the preset of its name.
    part = parse_slice(command.slice) if command.slice is not None else None
    if source.is_dir() and ((source / RESULTS).exists() or command.study not in presets()):
        if command.output not in (None, source):
            raise HindsightError(f"'{source}' is a study's folder, which is its own output.")
        if part:
            raise HindsightError(f"'{source}' is a study's folder: --slice is for a preset or a TOML file.")
        study, folder = held_study(source), source
    else:
        study = load_study(command.study, lambda line: print(f"hindsight: {line}", file=sys.stderr))
        own = f"{study.name}-slice-{part[0]}-of-{part[1]}" if part else study.name
        folder = command.output or Path("studies") / own
    narrowed = study.narrowed(
        command.environments, command.methods, command.batch_sizes, command.search, command.runs, command.search_runs
    )
    return sliced(narrowed, *part) if part else narrowed, folder


def read_results(folder: Path) -> StudyResults | None:
    """What a folder holds already, if anything."""
    if not (folder / RESULTS).exists():
        return None
    with ResultsFile.open(folder / RESULTS) as file:
        return file.read()


def tell_damage(results: StudyResults, folder: Path) -> None:
    """Say on standard error which runs are left out for not being what was written."""
    if said := describe_damage(results, folder):
        PlainConsole(stderr=True).print(f"{said} They are left out.", soft_wrap=True)


def write_events(events: EventFiles, runs: Iterable[FinishedRun]) -> None:
    """The learning curves of finished runs, a folder for each."""
    for run in runs:
        choices = "-".join(f"{_short(name)}{value:g}" for name, value in run.key.choices)
        name = f"{run.cell.file_name}/{run.key.stage.replace(' ', '-')}-{choices}-seed{run.key.seed}"
        for number, batch in enumerate(run.batches):
            if np.isfinite(run.mean_returns[number]):
                values = {metric: float(values[number]) for metric, values in run.metrics.items()}
                events.write(name, int(batch), event_names(values))
        events.close(name)


def _short(name: str) -> str:
    """A name for a folder: rate, and baseline for the rate of a baseline."""
    return {"learning_rate": "rate"}.get(name, name.removesuffix("_learning_rate"))


def summarise(results: StudyResults, plan: Plan) -> dict[str, Any]:
    """What came out for a cell."""
    runs = definitive(results.of(plan.cell))
    failures = [{"seed": run.key.seed, "cause": run.failure.sentence} for run in runs if run.failure]
    paper = paper_result(*_paper_cell(plan.cell))
    choices = dict(runs[0].key.choices) if runs else {}
    return {
        "environment": plan.environment,
        "batch_size": plan.batch_size,
        "method": plan.method,
        "choices": choices,
        **choices,
        "search_at_chance": search_at_chance(results, plan),
        "runs": len(runs) - len(failures),
        "average_performance": summary(np.array([run.average_performance for run in runs])),
        "paper": {"mean": paper.mean, "std": paper.std} if paper else None,
        "failed_runs": failures,
    }


def _paper_cell(cell: Cell) -> tuple[str, str, int]:
    return cell.environment, cell.method, cell.batch_size


def print_outcome(outcome: list[dict[str, Any]], folder: Path, seconds: float) -> None:
    """A table for people."""
    listed = table("environment", "batch", "method", "runs", "performance", "paper")
    listed.add_column("chosen")
    for row in outcome:
        runs = f"{row['runs']}" + (f" ({len(row['failed_runs'])} failed)" if row["failed_runs"] else "")
        listed.add_row(
            row["environment"],
            str(row["batch_size"]),
            row["method"],
            runs,
            _spread(row["average_performance"], row["runs"]),
            _spread(row["paper"]),
            ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in row["choices"].items())
            + ("*" if row["search_at_chance"] else ""),
        )
    console = PlainConsole()
    console.print(listed)
    console.print("Performance is the average over all evaluations, mean ± std over runs.")
    if any(row["search_at_chance"] for row in outcome):
        console.print("* Not chosen: no run of the search is above chance.")
    console.print(f"Took {duration(seconds)}. All results are in {folder / RESULTS}.", soft_wrap=True)
    console.print(f"Next: hindsight study report {folder}", soft_wrap=True)


def table(*columns: str) -> Table:
    """A table without lines, so that a terminal of 80 characters shows every name and number whole."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        made.add_column(name, no_wrap=True)
    return made


def _spread(value: dict[str, float | None] | None, runs: int = 2) -> str:
    """One run has no spread to speak of."""
    if value is None or value["mean"] is None or value["std"] is None:
        return "-"
    return f"{value['mean']:.2f} ± {value['std']:.2f}" if runs > 1 else f"{value['mean']:.2f}"
