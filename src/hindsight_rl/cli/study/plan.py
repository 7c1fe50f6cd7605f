"""`hindsight study plan`."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hindsight_rl.cli.console import PlainConsole
from hindsight_rl.cli.study.commands import StudyPlan
from hindsight_rl.cli.study.run import read_results, resolve, table, tell_damage
from hindsight_rl.experiments.cluster.connection import connected
from hindsight_rl.experiments.cluster.guard import guarded
from hindsight_rl.experiments.study.estimates import Speed, Work, measured_speed, work_ahead
from hindsight_rl.experiments.study.ledger import evidence, performances
from hindsight_rl.experiments.study.plan import Plan, Study
from hindsight_rl.experiments.study.run import admit, continued
from hindsight_rl.records.runs import Cell, StudyResults
from hindsight_rl.running.progress import duration
from hindsight_rl.training.compilation import keep_compiled_programs


def run_plan(command: StudyPlan) -> None:
    """Say what would run."""
    if command.on is not None:
        guarded()
    keep_compiled_programs()
    study, folder = resolve(command)
    results = read_results(folder)
    if results is not None:
        admit(study, results, folder)
        tell_damage(results, folder)
        study = continued(study, results)
    machines = _machines(command.on)
    work = {plan.cell: _work(plan, results) for plan in study.plans}
    speeds = {} if command.skip_measurement else _measure(study.plans, work)
    if command.json:
        on_cores = sum(machines) or None
        print(json.dumps([_planned(plan, work[plan.cell], speeds, on_cores) for plan in study.plans]))
        return
    _print_plan(study, folder, work, speeds, results)
    if machines and speeds:
        _print_cluster(machines, work, speeds)


def _machines(address: str | None) -> list[int]:
    """The cores of each machine of a cluster; none where no cluster is meant."""
    if address is None:
        return []
    with connected(address) as cluster:
        return list(cluster.nodes.values())


def _print_cluster(machines: list[int], work: dict[Cell, Work], speeds: dict[Cell, Speed]) -> None:
    """From the speeds of this machine: what the cluster's machines take if they are as fast."""
    on_one = sum(speed.seconds(work[cell], 1) for cell, speed in speeds.items())
    PlainConsole().print(
        f"On the cluster (machines: {len(machines)}, cores: {sum(machines)}): {on_one / 3600:.2f} core hours, so at "
        f"least {duration(on_one / max(1, sum(machines)))} if its cores are as fast as this machine's and all are "
        "busy; a cell's rounds follow one another, which leaves cores idle where cells are few.",
        soft_wrap=True,
    )


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


def _planned(plan: Plan, work: Work, speeds: dict[Cell, Speed], on_cores: int | None) -> dict[str, Any]:
    cell = dict(zip(Cell._fields, plan.cell, strict=True))
    seconds = round(speeds[plan.cell].seconds(work, on_cores), 1) if plan.cell in speeds else None
    counts = {"search_runs": work.search_runs, "definitive_runs": work.definitive_runs, "updates": work.updates}
    settings = {"settings": len(plan.grid), "search": plan.strategy if len(plan.grid) > 1 else None}
    return {**cell, **settings, **counts, "episodes": work.episodes, "seconds": seconds}


def _print_plan(
    study: Study, folder: Path, work: dict[Cell, Work], speeds: dict[Cell, Speed], results: StudyResults | None
) -> None:
    listed = table("environment", "batch", "method", "settings")
    for name in ("runs", "updates", "time"):
        listed.add_column(name, justify="right", no_wrap=True)
    for plan in study.plans:
        mine = work[plan.cell]
        settings = f"{len(plan.grid)} {plan.strategy}" if len(plan.grid) > 1 else "1"
        time_left = duration(speeds[plan.cell].seconds(mine)) if plan.cell in speeds else "-"
        runs = f"{mine.search_runs} + {mine.definitive_runs}"
        listed.add_row(
            plan.environment, str(plan.batch_size), plan.method, settings, runs, f"{mine.updates:,}", time_left
        )
    console = PlainConsole()
    console.print(f"Study {study.name}, into {folder}", soft_wrap=True)
    console.print(listed)
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
