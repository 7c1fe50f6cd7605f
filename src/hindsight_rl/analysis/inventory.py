"""What lies below a folder: runs and studies, how far each is, and how well it does."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hindsight_rl.analysis.study.summaries import missing
from hindsight_rl.analysis.words import counted
from hindsight_rl.core.errors import HindsightError, gist, unknown
from hindsight_rl.environments.registry import Specification, map_label
from hindsight_rl.records.evaluations import summary
from hindsight_rl.records.results import RESULTS, ResultsFile
from hindsight_rl.records.run_folders import (
    EVALUATIONS,
    SETTINGS,
    RunFolder,
    changed,
    folders_below,
    is_run_folder,
    is_written_to,
    locked_inodes,
    read_run_folder,
)
from hindsight_rl.records.runs import StudyResults, distinct

STATES = ("running", "finished", "stopped", "failed", "damaged")
"""running: a process works on it. stopped: none does, and something is left to do. failed: no run is left."""


@dataclass(frozen=True)
class Item:
    """A run folder or a study, in a line."""

    name: str
    """Its path below the folder that was looked through."""
    kind: str
    """run or study."""
    environment: str
    method: str
    state: str
    done: int
    planned: int
    """Batches of a run; definitive runs of a study."""
    last_return: float | None
    """Mean over runs at the last evaluation; None for a study, and before the first."""
    success_rate: float | None
    changed: float
    """When it last wrote something, in seconds since 1970."""
    left: str
    """What is left to do, in words; why it cannot be read, where that is so."""


Content = RunFolder | StudyResults


def find(root: Path) -> list[Path]:
    """Every run folder and study at or below a folder."""
    if not root.is_dir():
        raise HindsightError(f"There is no folder '{root}'.")
    return list(folders_below(root, (SETTINGS, RESULTS)))


def inventory(root: Path, read: Callable[[Path], Content] | None = None) -> list[Item]:
    """A line for each run folder and study at or below a folder; `read` may remember what it has read."""
    locked = locked_inodes()
    return [describe(path, root, read or read_content, locked) for path in find(root)]


def read_content(folder: Path) -> Content:
    """A run folder, or the results of a study."""
    if is_run_folder(folder):
        return read_run_folder(folder)
    with ResultsFile.open(folder / RESULTS) as file:
        return file.read()


def describe(folder: Path, root: Path, read: Callable[[Path], Content], locked: set[int] | None) -> Item:
    """One folder in a line."""
    name = folder.relative_to(root).as_posix() if folder != root else folder.resolve().name or "."
    kind = "run" if is_run_folder(folder) else "study"
    newest = newest_change(folder)
    try:
        content = read(folder)
        running = is_written_to(folder, newest, locked)
        if isinstance(content, RunFolder):
            return _run(name, content, running, newest)
        return _study(name, content, running, newest)
    except HindsightError as error:
        why = str(error)
    except (LookupError, TypeError, AttributeError) as error:  # plans with right digests can still say anything
        why = f"'{folder}' is not what hindsight writes ({gist(error)})."
    return Item(name, kind, "", "", "damaged", 0, 0, None, None, newest, why)


def newest_change(folder: Path) -> float:
    """When a run or a study last wrote its results, or began."""
    return max(changed(folder / name) for name in (EVALUATIONS, SETTINGS, RESULTS))


def environment_id(run: RunFolder) -> str:
    """The short name of an environment, without importing one of a user's own."""
    try:
        return Specification(run.environment, run.environment_options, map_label(run.environment_label)).id
    except (HindsightError, LookupError, TypeError):
        return run.environment


def _run(name: str, run: RunFolder, running: bool, newest: float) -> Item:
    evaluations = run.evaluations
    done = int(evaluations.batches[-1]) if evaluations else 0
    last = summary(evaluations.final_return)["mean"] if evaluations else None
    success = summary(evaluations.final_success_rate)["mean"] if evaluations else None
    state, left = _progress(run, done, running)
    environment = environment_id(run)
    return Item(name, "run", environment, run.method, state, done, run.batches, last, success, newest, left)


def _progress(run: RunFolder, done: int, running: bool) -> tuple[str, str]:
    evaluations = run.evaluations
    left = f"{max(run.batches - done, 0):,} of {run.batches:,} batches"
    if evaluations is not None and np.isnan(evaluations.final_return).all():
        return "failed", "every run failed"
    if running:
        return "running", left
    # Training writes its summary when it ends, which early stopping may make before the last batch.
    ended = evaluations is not None and run.summary.get("episodes") == int(evaluations.episodes[-1])
    if ended or done >= run.batches:
        return "finished", "nothing" if done >= run.batches else f"nothing; it ended early, after {done:,} batches"
    return "stopped", left


def _study(name: str, results: StudyResults, running: bool, newest: float) -> Item:
    rows = missing(results)
    planned, absent = sum(row.planned for row in rows), sum(row.missing for row in rows)
    environments = distinct(cell.environment for cell in results.plans)
    methods = distinct(cell.method for cell in results.plans)
    searching = sum(row.search_unfinished for row in rows)
    left = counted(absent, "definitive run") if absent else "nothing"
    left += f", and the search of {counted(searching, 'cell')}" if searching else ""
    failed = sum(len(row.failures) for row in rows)
    state = "running" if running else "stopped" if absent else "finished"
    if failed:
        left += f"; {counted(failed, 'run')} failed"
    done = planned - absent
    where, how = ", ".join(environments), ", ".join(methods)
    return Item(name, "study", where, how, state, done, planned, None, None, newest, left)


SORTS: dict[str, Callable[[Item], Any]] = {
    "age": lambda item: -item.changed,
    "name": lambda item: item.name,
    "environment": lambda item: (item.environment, item.name),
    "method": lambda item: (item.method, item.name),
    "state": lambda item: (STATES.index(item.state), -item.changed),
    "return": lambda item: math.inf if item.last_return is None else -item.last_return,
    "progress": lambda item: -item.done / max(item.planned, 1),
}
"""What a list can be sorted by: the newest, the highest and the furthest come first."""
FIELDS = ("name", "kind", "environment", "method", "state")


def ordered(items: Iterable[Item], by: str) -> list[Item]:
    """The items by one of `SORTS`."""
    if by not in SORTS:
        raise unknown("order", by, SORTS)
    return sorted(items, key=SORTS[by])


def filtered(items: Iterable[Item], wanted: Sequence[str]) -> list[Item]:
    """Those that fit every filter: `method=hpg` for an exact field, `rooms` for a part of any."""
    pairs = [one.partition("=") for one in wanted]
    for field, equals, value in pairs:
        if equals and field not in FIELDS:
            raise unknown("field to filter by", field, FIELDS)
        if field == "state" and value not in STATES:
            raise unknown("state", value, STATES)
    return [item for item in items if all(_fits(item, *pair) for pair in pairs)]


def _fits(item: Item, field: str, equals: str, value: str) -> bool:
    if equals:
        held = str(getattr(item, field))
        return value == held or value in held.split(", ")
    return any(field.lower() in str(getattr(item, name)).lower() for name in FIELDS)
