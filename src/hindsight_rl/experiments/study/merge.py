"""Taking finished runs over from other folders, so that slices of a study can run on several machines."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.memory import memory
from hindsight_rl.experiments.study.plan import Plan, Study
from hindsight_rl.experiments.study.policies import POLICIES, held_performance, policy_path
from hindsight_rl.experiments.study.run import admit, require_undamaged
from hindsight_rl.records.files import (
    claimed,
    make_folder,
    read_bytes,
    remove_leftovers,
    require_ours,
    write_atomically,
)
from hindsight_rl.records.results import RESULTS, ResultsFile
from hindsight_rl.records.runs import DEFINITIVE, Cell, FinishedRun, StudyResults


class Taken(NamedTuple):
    """What came over from another folder."""

    runs: int
    there_already: int
    """Runs that both folders hold; the folder's own stay."""
    cells: int


def merge_study(folder: Path, source: Path, study: Study) -> Taken:
    """Take the runs of a study, or of a slice of it, from the folder `source`, which stays as it is.

    Cells that both folders hold must have the same settings, but for the number of definitive runs.
    """
    if folder.resolve() == source.resolve():
        raise HindsightError(f"'{folder}' cannot be merged with itself.")
    with ResultsFile.open(source / RESULTS) as file:
        offered = file.read()
    require_ours(folder, RESULTS)
    with claimed(folder), ResultsFile.open(folder / RESULTS, create=True) as file:
        remove_leftovers(folder, folder / POLICIES)
        held = file.read()
        admit(study, held, folder)
        require_undamaged(held, folder)
        runs = [run for plan in study.plans for run in offered.of(plan.cell)]
        known = {(run.cell, run.key) for run in held.runs}
        new = [run for run in runs if (run.cell, run.key) not in known]
        _require_same_choice(held, new, folder, source)
        origins = {number: file.write_origin(offered.origins[number]) for number in {run.origin for run in new}}
        if "name" not in held.facts:
            file.write_facts({"name": study.name})
        file.write_plans({plan.cell: _larger(plan, held.plans).to_json() for plan in study.plans})
        file.write_runs([replace(run, origin=origins[run.origin]) for run in new])
        for plan in study.plans:
            _take_policy(folder, source, plan.cell)
    return Taken(len(new), len(runs) - len(new), len({run.cell for run in new}))


def _require_same_choice(held: StudyResults, new: list[FinishedRun], folder: Path, source: Path) -> None:
    """Definitive runs of a cell all have the learning rates that its search chose."""
    chosen = {run.cell: run.key.choices for run in held.runs if run.key.stage == DEFINITIVE}
    for run in new:
        if run.key.stage == DEFINITIVE and chosen.get(run.cell, run.key.choices) != run.key.choices:
            raise HindsightError(
                f"The searches of '{folder}' and '{source}' chose different learning rates for {run.cell.name}: "
                "their definitive runs cannot be merged."
            )


def _larger(plan: Plan, held: Mapping[Cell, Mapping[Any, Any]]) -> Plan:
    """The plan with the larger number of definitive runs of the two, and the guard of the folder's own."""
    if plan.cell not in held:
        return plan
    runs = max(plan.definitive.runs, held[plan.cell]["definitive"]["runs"])
    guarded = Plan.from_json(plan.cell, held[plan.cell]).guarded
    return replace(plan, definitive=replace(plan.definitive, runs=runs), guarded=guarded)


def _take_policy(folder: Path, source: Path, cell: Cell) -> None:
    ours, theirs = policy_path(folder, cell), policy_path(source, cell)
    if held_performance(source, cell) > held_performance(folder, cell):
        make_folder(ours.parent)
        write_atomically(ours, read_bytes(theirs, memory()))
