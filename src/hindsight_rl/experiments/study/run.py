"""Running a study into a folder: piece by piece, each safe once it is finished, and going on after any stop."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.hosted import check_workers
from hindsight_rl.experiments.study.ledger import Ledger, evidence, performances, run_here
from hindsight_rl.experiments.study.plan import Plan, Study
from hindsight_rl.experiments.study.policies import POLICIES, held_performance, policy_path
from hindsight_rl.experiments.study.protocol import (
    Piece,
    Round,
    decides_last,
    undecided,
)
from hindsight_rl.experiments.study.worker import UNFINISHED, Observer, Unfinished, Worker
from hindsight_rl.records.files import claimed, remove_leftovers, require_ours
from hindsight_rl.records.results import PLAN_NAME, RESULTS, ResultsFile
from hindsight_rl.records.runs import DEFINITIVE, Cell, StudyResults

DAMAGES_NAMED = 5
"""Damaged runs that are named one by one."""


def search_at_chance(results: StudyResults, plan: Plan) -> bool:
    """Whether the last round of a cell's search chose nothing, since no run of it is above chance."""
    known, learned = performances(results, plan.cell), evidence(results, plan.cell)
    return any(decides_last(plan, this) for this in undecided(plan, known, learned))


def continued(study: Study, results: StudyResults) -> Study:
    """The study, guarded as it was when it began; so are cells that join a folder which began without a guard."""
    cells = {run.cell for run in results.runs} & results.plans.keys()  # a damaged plan is not among them
    begun = {cell: Plan.from_json(cell, results.plans[cell]).guarded for cell in cells}
    plans = (replace(plan, guarded=begun.get(plan.cell, plan.guarded and all(begun.values()))) for plan in study.plans)
    return replace(study, plans=tuple(plans))


def require_workers(study: Study, count: int | None) -> None:
    """Refuse a number of workers that cannot be, or that no environment of a study needs."""
    if count is not None:
        check_workers([plan.specification.task for plan in study.plans], count)


def run_study(
    study: Study,
    folder: Path,
    observer: Observer | None = None,
    retry: bool = False,
    repair: bool = False,
    seconds_between_checkpoints: float = 30.0,
    workers: int | None = None,
    engine: Callable[[Ledger], None] | None = None,
) -> StudyResults:
    """Run what is missing of a study; its folder may hold other cells too.

    Finished runs go into the results file a piece at a time. What is unfinished is kept in a checkpoint beside it, so
    a stop of any kind costs at most `seconds_between_checkpoints`. `workers` play hosted environments. An `engine` runs
    pieces elsewhere and records them in the ledger; without one they run here, one after another. A cell that an
    exception ends is left unfinished, and said to be when the others are done. With `retry`, the runs that earlier
    versions recorded as ended by an exception run again. With `repair`, damaged runs and policies are made again; they
    have their seeds, and so get their numbers.
    """
    observer = observer or Observer()
    require_workers(study, workers)
    require_ours(folder, RESULTS)
    with claimed(folder), ResultsFile.open(folder / RESULTS, create=True) as file:
        remove_leftovers(folder, folder / POLICIES)
        held = file.read()
        admit(study, held, folder)
        if repair:
            file.remove_damage()
        else:
            require_undamaged(held, folder)
        study = continued(study, held)
        file.write_facts({"name": study.name})
        file.write_plans({plan.cell: plan.to_json() for plan in study.plans})
        if retry:
            file.remove_runs_that_raised(plan.cell for plan in study.plans)
        worker = Worker(folder, observer, seconds_between_checkpoints, workers)
        ledger = Ledger(study, folder, file, observer)
        if engine is None:
            run_here(ledger, worker)
        else:
            engine(ledger)
        results = file.read()
        for plan in study.plans:
            try:
                _attend_to_policy(folder, plan, results, worker if repair else None, observer)
            except Unfinished as error:
                ledger.unfinished[plan.cell] = error
        _require_finished(ledger.unfinished, study, folder)
        return results


def require_undamaged(held: StudyResults, folder: Path) -> None:
    """Refuse to go on from runs of which some are not what was written."""
    if held.damaged:
        raise HindsightError(f"{describe_damage(held, folder)} To run them again: hindsight study run, with --repair.")


def describe_damage(held: StudyResults, folder: Path) -> str:
    """Which runs of a folder are left out, and why; nothing when all are well."""
    named = "; ".join(held.damaged[:DAMAGES_NAMED])
    more = f"; and {len(held.damaged) - DAMAGES_NAMED} more" if len(held.damaged) > DAMAGES_NAMED else ""
    return f"'{folder / RESULTS}' is damaged: not what was written are {named}{more}." if held.damaged else ""


def _attend_to_policy(
    folder: Path, plan: Plan, results: StudyResults, worker: Worker | None, observer: Observer
) -> None:
    """Say that a cell's policy is damaged or, with a worker, make it again by training its best run once more."""
    path = policy_path(folder, plan.cell)
    finished = [run for run in results.of(plan.cell, DEFINITIVE) if np.isfinite(run.average_performance)]
    if not finished or np.isfinite(held_performance(folder, plan.cell)) or not (worker or path.exists()):
        return
    if worker is None:
        observer.notice(f"'{path}' is damaged; --repair makes it again.")
        return
    best = max(finished, key=lambda run: run.average_performance)
    piece = Piece(plan, Round(DEFINITIVE, (best.key.choices,), plan.definitive, plan.seed), (best.key,))
    observer.begin(piece)
    worker.train(piece)
    (folder / UNFINISHED).unlink(missing_ok=True)
    observer.notice(f"'{path}' was missing or damaged, and is made again.")


def _require_finished(unfinished: Mapping[Cell, Unfinished], study: Study, folder: Path) -> None:
    """Say which cells an exception ended; of those, nothing is recorded but what was finished before."""
    if not unfinished:
        return
    (cell, error), *_ = unfinished.items()
    count = f"{len(unfinished)} of {len(study.plans)} cells" if len(study.plans) > 1 else "The study"
    raise HindsightError(
        f"{count} could not be finished, {cell.name} for one ({str(error).rstrip('.')}); what is finished is in "
        f"'{folder}', and the same command tries the rest again."
    )


def held_study(folder: Path) -> Study:
    """The study that a folder holds, with all of its cells."""
    with ResultsFile.open(folder / RESULTS) as file:
        results = file.read()
    if any(name.startswith(PLAN_NAME) for name in results.damaged):
        raise HindsightError(
            f"{describe_damage(results, folder)} To write plans again: "
            f"hindsight study run with the study's TOML file, --output {folder} and --repair."
        )
    plans = tuple(Plan.from_json(cell, content) for cell, content in results.plans.items())
    return Study(str(results.facts.get("name", folder.name)), plans)


def admit(study: Study, results: StudyResults, folder: Path) -> None:
    """Refuse to mix runs that cannot be compared: a cell that is there must have the same settings, but for runs."""
    for plan in study.plans:
        if plan.cell not in results.plans or not results.of(plan.cell):
            continue
        held = Plan.from_json(plan.cell, results.plans[plan.cell])
        if difference := _difference(held, plan):
            raise HindsightError(
                f"'{folder}' already holds {plan.cell.name} with {difference}: choose another output folder."
            )


def _difference(held: Plan, wanted: Plan) -> str:
    old, new = _flat(held.to_json()), _flat(wanted.to_json())
    # More definitive runs only add to what is there, and a study that began without a guard goes on without one.
    for name in sorted(old.keys() - {"definitive.runs", "guarded"}):
        if old[name] != new.get(name):
            if name == "specification.options.text":
                return "another map"
            return f"{name} {old[name]}, not {new.get(name)}"
    return ""


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in content.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat
