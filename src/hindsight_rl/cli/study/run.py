"""`hindsight study run`, `hindsight study plan` and `hindsight study merge`."""

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
from hindsight_rl.cli.compilation import keep_compiled_programs
from hindsight_rl.cli.console import PlainConsole
from hindsight_rl.cli.study.commands import Slice, StudyMerge, StudyPlan, StudyRun
from hindsight_rl.cli.study.progress import StudyProgress
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.experiments.paper import paper_result
from hindsight_rl.experiments.study.estimates import Speed, Work, measured_speed, work_ahead
from hindsight_rl.experiments.study.files import load_study, presets
from hindsight_rl.experiments.study.merge import merge_study
from hindsight_rl.experiments.study.plan import Plan, Study
from hindsight_rl.experiments.study.protocol import Piece
from hindsight_rl.experiments.study.run import (
    admit,
    continued,
    describe_damage,
    evidence,
    held_study,
    performances,
    require_undamaged,
    require_workers,
    run_study,
    search_at_chance,
)
from hindsight_rl.experiments.study.worker import RAISED, Observer
from hindsight_rl.records.evaluations import summary
from hindsight_rl.records.results import RESULTS, ResultsFile
from hindsight_rl.records.runs import Cell, FinishedRun, StudyResults
from hindsight_rl.records.tensorboard import EventFiles, event_names
from hindsight_rl.running.progress import duration, explaining_interruptions


def run_study_command(command: StudyRun) -> None:
    """Run a study as the command says."""
    keep_compiled_programs()
    study, folder = resolve(command)
    require_workers(study, command.workers)
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
        progress = stack.enter_context(StudyProgress(study, held, console))

        def finish(piece: Piece, runs: list[FinishedRun]) -> None:
            if events:
                write_events(events, runs)
            progress.finish(piece, runs)

        observer = Observer(progress.begin, progress.tick, finish, progress.announce)
        how_to_go_on = f"Interrupted; what is finished is in {folder}, and the same command goes on from there."
        with explaining_interruptions(lambda: how_to_go_on):
            results = run_study(study, folder, observer, command.retry_failed, command.repair, workers=command.workers)
    outcome = [summarise(results, plan) for plan in study.plans]
    if command.json:
        print(json.dumps({"study": study.name, "folder": str(folder), "cells": outcome}))
        return
    print_outcome(outcome, folder, time.monotonic() - began)


def run_plan(command: StudyPlan) -> None:
    """Say what would run."""
    keep_compiled_programs()
    study, folder = resolve(command)
    results = read_results(folder)
    if results is not None:
        admit(study, results, folder)
        tell_damage(results, folder)
        study = continued(study, results)
    work = {plan.cell: _work(plan, results) for plan in study.plans}
    speeds = {} if command.skip_measurement else _measure(study.plans, work)
    if command.json:
        print(json.dumps([_planned(plan, work[plan.cell], speeds) for plan in study.plans]))
        return
    _print_plan(study, folder, work, speeds, results)


def run_merge(command: StudyMerge) -> None:
    """Take runs over from another folder."""
    with ResultsFile.open(command.source / RESULTS) as file:
        tell_damage(file.read(), command.source)
    study = held_study(command.source).narrowed(command.environments, command.methods, command.batch_sizes)
    taken = merge_study(command.folder, command.source, study)
    already = f"; {taken.there_already:,} were there already" if taken.there_already else ""
    PlainConsole().print(
        f"{command.folder} took {taken.runs:,} runs (cells: {taken.cells}) from {command.source}{already}.",
        soft_wrap=True,
    )


def resolve(command: Slice) -> tuple[Study, Path]:
    """The slice of a study that a command means, and its folder."""
    source = Path(command.study)
    # A folder of papers, say, does not hide the preset of its name.
    if source.is_dir() and ((source / RESULTS).exists() or command.study not in presets()):
        if command.output not in (None, source):
            raise HindsightError(f"'{source}' is a study's folder, which is its own output.")
        study, folder = held_study(source), source
    else:
        study = load_study(command.study, lambda line: print(f"hindsight: {line}", file=sys.stderr))
        folder = command.output or Path("studies") / study.name
    narrowed = study.narrowed(
        command.environments, command.methods, command.batch_sizes, command.search, command.runs, command.search_runs
    )
    return narrowed, folder


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
    table = _table("environment", "batch", "method", "runs", "performance", "paper")
    table.add_column("chosen")
    for row in outcome:
        runs = f"{row['runs']}" + (f" ({len(row['failed_runs'])} failed)" if row["failed_runs"] else "")
        table.add_row(
            row["environment"],
            str(row["batch_size"]),
            row["method"],
            runs,
            _spread(row["average_performance"]),
            _spread(row["paper"]),
            ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in row["choices"].items())
            + ("*" if row["search_at_chance"] else ""),
        )
    console = PlainConsole()
    console.print(table)
    console.print("Performance is the average over all evaluations, mean ± std over runs.")
    if any(row["search_at_chance"] for row in outcome):
        console.print("* Not chosen: no run of the search is above chance.")
    console.print(f"Took {duration(seconds)}. All results are in {folder / RESULTS}.", soft_wrap=True)
    console.print(f"Next: hindsight study report {folder}", soft_wrap=True)


def _table(*columns: str) -> Table:
    """A table without lines, so that a terminal of 80 characters shows every name and number whole."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name, no_wrap=True)
    return table


def _spread(value: dict[str, float | None] | None) -> str:
    if value is None or value["mean"] is None or value["std"] is None:
        return "-"
    return f"{value['mean']:.2f} ± {value['std']:.2f}"


def _work(plan: Plan, results: StudyResults | None) -> Work:
    if results is None:
        return work_ahead(plan, {})
    return work_ahead(plan, performances(results, plan.cell), evidence(results, plan.cell))


def _measure(plans: Iterable[Plan], work: dict[Cell, Work]) -> dict[Cell, Speed]:
    """Time each cell that has something left to do."""
    todo = [plan for plan in plans if work[plan.cell].updates]
    console = PlainConsole(stderr=True)
    speeds = {}
    for number, plan in enumerate(todo, 1):
        if console.is_terminal:
            console.print(f"Measuring {number} of {len(todo)}: {plan.cell.name} ...", end="\r")
        speeds[plan.cell] = measured_speed(plan)
        if console.is_terminal:
            console.print(" " * (console.width - 1), end="\r")
    return speeds


def _planned(plan: Plan, work: Work, speeds: dict[Cell, Speed]) -> dict[str, Any]:
    cell = dict(zip(Cell._fields, plan.cell, strict=True))
    seconds = round(speeds[plan.cell].seconds(work), 1) if plan.cell in speeds else None
    counts = {"search_runs": work.search_runs, "definitive_runs": work.definitive_runs, "updates": work.updates}
    settings = {"settings": len(plan.grid), "search": plan.strategy if len(plan.grid) > 1 else None}
    return {**cell, **settings, **counts, "episodes": work.episodes, "seconds": seconds}


def _print_plan(
    study: Study, folder: Path, work: dict[Cell, Work], speeds: dict[Cell, Speed], results: StudyResults | None
) -> None:
    table = _table("environment", "batch", "method", "settings")
    for name in ("runs", "updates", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    for plan in study.plans:
        mine = work[plan.cell]
        settings = f"{len(plan.grid)} {plan.strategy}" if len(plan.grid) > 1 else "1"
        time_left = duration(speeds[plan.cell].seconds(mine)) if plan.cell in speeds else "-"
        runs = f"{mine.search_runs} + {mine.definitive_runs}"
        table.add_row(
            plan.environment, str(plan.batch_size), plan.method, settings, runs, f"{mine.updates:,}", time_left
        )
    console = PlainConsole()
    console.print(f"Study {study.name}, into {folder}", soft_wrap=True)
    console.print(table)
    console.print(f"In all: {_total(list(work.values()))}.")
    if speeds:
        seconds = sum(speed.seconds(work[cell]) for cell, speed in speeds.items())
        console.print(f"That takes about {duration(seconds)}.")
    done = len(results.runs) if results else 0
    if done:
        console.print(f"{done:,} runs are finished already and not counted.")
    if speeds:
        console.print(
            "Times are for all cores of this machine, from a short measurement with fresh policies; trained ones reach "
            "their goals sooner and may be up to twice as fast.",
        )


def _total(work: list[Work]) -> str:
    runs = f"{sum(mine.search_runs for mine in work):,} runs of searches and "
    runs += f"{sum(mine.definitive_runs for mine in work):,} definitive ones"
    return f"{runs}, {sum(mine.updates for mine in work):,} updates, {sum(mine.episodes for mine in work):,} episodes"
