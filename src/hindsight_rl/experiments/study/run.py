"""Running a study into a folder: piece by piece, each safe once it is finished, and going on after any stop."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.hosted import check_workers
from hindsight_rl.experiments.study.plan import Plan, Study
from hindsight_rl.experiments.study.policies import POLICIES
from hindsight_rl.experiments.study.protocol import Performances, next_piece
from hindsight_rl.experiments.study.worker import UNFINISHED, Observer, Unfinished, Worker
from hindsight_rl.records.files import claimed, remove_leftovers
from hindsight_rl.records.results import RESULTS, ResultsFile
from hindsight_rl.records.runs import Cell, StudyResults
from hindsight_rl.records.versions import versions


def performances(results: StudyResults, cell: Cell) -> Performances:
    """The average performance of each finished run of a cell."""
    return {run.key: run.average_performance for run in results.of(cell)}


def require_workers(study: Study, count: int | None) -> None:
    """Refuse a number of workers that cannot be, or that no environment of a study needs."""
    if count is not None:
        check_workers([plan.specification.task for plan in study.plans], count)


def run_study(
    study: Study,
    folder: Path,
    observer: Observer | None = None,
    retry: bool = False,
    seconds_between_checkpoints: float = 30.0,
    workers: int | None = None,
) -> StudyResults:
    """Run what is missing of a study; its folder may hold other cells too.

    Finished runs go into the results file a piece at a time. What is unfinished is kept in a checkpoint beside it, so
    a stop of any kind costs at most `seconds_between_checkpoints`. `workers` play hosted environments. A cell that an
    exception ends is left unfinished, and said to be when the others are done. With `retry`, the runs that earlier
    versions recorded as ended by an exception run again.
    """
    observer = observer or Observer()
    require_workers(study, workers)
    with claimed(folder), ResultsFile.open(folder / RESULTS, create=True) as file:
        remove_leftovers(folder)
        remove_leftovers(folder / POLICIES)
        admit(study, file.read(), folder)
        file.write_facts({"name": study.name})
        file.write_plans({plan.cell: plan.to_json() for plan in study.plans})
        if retry:
            file.remove_runs_that_raised(plan.cell for plan in study.plans)
        origin = file.write_origin(versions())
        worker = Worker(folder, observer, seconds_between_checkpoints, workers)
        held = file.read()
        unfinished: dict[Cell, Unfinished] = {}
        for plan in study.plans:
            known = dict(performances(held, plan.cell))
            while piece := next_piece(plan, known):
                observer.begin(piece)
                try:
                    runs = [replace(run, origin=origin) for run in worker.train(piece)]
                except Unfinished as error:
                    unfinished[plan.cell] = error
                    observer.notice(f"{piece.name} could not be finished: {error}")
                    break
                file.write_runs(runs)
                (folder / UNFINISHED).unlink(missing_ok=True)
                known |= {run.key: run.average_performance for run in runs}
                observer.finish(piece, runs)
        _require_finished(unfinished, study, folder)
        return file.read()


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
    # More definitive runs only add to what is there.
    for name in sorted(old.keys() - {"definitive.runs"}):
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
