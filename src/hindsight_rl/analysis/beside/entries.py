"""What is set beside each other: runs of one environment and one method, wherever they were recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from hindsight_rl.analysis.inventory import environment_id
from hindsight_rl.analysis.study.runs import definitive
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.numbers import is_number
from hindsight_rl.environments.registry import Specification, map_label, parted
from hindsight_rl.records.evaluations import Evaluations
from hindsight_rl.records.results import RESULTS, ResultsFile
from hindsight_rl.records.run_folders import RunFolder, is_run_folder, read_run_folder
from hindsight_rl.records.runs import Cell, FinishedRun, distinct
from hindsight_rl.records.tidy_files import ENDINGS, read_tidy


@dataclass(frozen=True, eq=False)
class Entry:
    """Runs that differ in nothing but their seeds."""

    name: str
    kind: str
    """run, study or table: where it was recorded."""
    environment: str
    method: str
    settings: Mapping[str, Any]
    """What all of its runs were told, as far as that is known."""
    evaluations: Evaluations
    lost: int
    """Runs that failed before their first evaluation."""
    seconds: float | None
    """How long a run took; see `docs/compare.md` for what that means. None where nobody knows."""

    @property
    def finished(self) -> Float[np.ndarray, " run"]:
        """Whether each run is one that did not fail."""
        return np.isfinite(self.evaluations.mean_returns).all(axis=1)


def read_entries(source: Path) -> list[Entry]:
    """The entries of a run folder, of a study's folder, or of a tidy file."""
    if source.is_dir():
        if is_run_folder(source):
            return [_of_folder(read_run_folder(source))]
        if (source / RESULTS).exists():
            with ResultsFile.open(source / RESULTS) as file:
                return _of_runs(file.read().runs, "study", source)
        raise HindsightError(f"'{source}' holds neither a run nor a study; `hindsight runs {source}` looks below it.")
    if not source.exists():
        raise HindsightError(f"There is no folder or file '{source}'.")
    if source.suffix not in ENDINGS:
        raise HindsightError(f"'{source}' is neither a folder nor a file that ends in .csv or .parquet.")
    return _of_runs(read_tidy(source), "table", source)


def gather(sources: Sequence[Path]) -> list[Entry]:
    """The entries of all sources, under names that tell them apart: `run`, `study: method, batch 16`."""
    taken: dict[str, int] = {}
    gathered = []
    for source in sources:
        label = source.resolve().name if source.is_dir() else source.stem
        taken[label] = taken.get(label, 0) + 1
        label += f" ({taken[label]})" if taken[label] > 1 else ""
        for entry in read_entries(source):
            longer = f"{label}: {entry.name}" if len(sources) > 1 else entry.name
            gathered.append(replace(entry, name=label if entry.kind == "run" else longer))
    return gathered


def _of_folder(run: RunFolder) -> Entry:
    if run.evaluations is None:
        raise HindsightError(f"'{run.path}' has no evaluations yet: its first one is not saved.")
    speed = run.summary.get("updates_per_second")
    known = is_number(speed) and speed > 0 and run.summary.get("episodes") == int(run.evaluations.episodes[-1])
    options = {name: value for name, value in run.environment_options.items() if name != "id"}
    return Entry(
        name=run.path.resolve().name,
        kind="run",
        environment=environment_id(run),
        method=run.method,
        settings={"method": run.method, **run.settings, **options},
        evaluations=run.evaluations,
        lost=0,
        seconds=float(run.evaluations.batches[-1]) / speed if known and is_number(speed) else None,
    )


def _of_runs(runs: Sequence[FinishedRun], kind: str, source: Path) -> list[Entry]:
    by_cell: dict[Cell, list[FinishedRun]] = {}
    for run in runs:
        by_cell.setdefault(run.cell, []).append(run)
    counted = {cell: definitive(of_cell) for cell, of_cell in by_cell.items()}
    entries = [_of_cell(cell, of_cell, kind) for cell, of_cell in counted.items() if of_cell]
    if not entries:
        raise HindsightError(f"'{source}' has no definitive run yet: there is nothing to compare.")
    return [entry for entry in entries if entry is not None]


def _of_cell(cell: Cell, runs: Sequence[FinishedRun], kind: str) -> Entry | None:
    evaluated = [run for run in runs if len(run.batches)]
    if not evaluated:
        return None
    first = evaluated[0]
    if any(not np.array_equal(run.batches, first.batches) for run in evaluated):
        raise HindsightError(f"The definitive runs of {cell.name} were not evaluated after the same batches.")
    names = distinct(name for run in evaluated for name in run.metrics)
    unknown = np.full(len(first.batches), np.nan)
    values = {name: np.stack([run.metrics.get(name, unknown) for run in evaluated]) for name in names}
    seeds = np.array([run.key.seed for run in evaluated], np.int64)
    seconds = [run.seconds for run in evaluated if run.failure is None]
    return Entry(
        name=f"{cell.method}, batch {cell.batch_size}",
        kind=kind,
        environment=as_run_folders_say(cell.environment),
        method=cell.method,
        settings={"method": cell.method, **_common([run.settings for run in evaluated])},
        evaluations=Evaluations(seeds, {}, first.batches, first.episodes, values),
        lost=len(runs) - len(evaluated),
        seconds=float(np.mean(seconds)) if seconds and np.isfinite(seconds).all() else None,
    )


def as_run_folders_say(environment: str) -> str:
    """A study calls a map by the path of its file, and a run folder by the file's name alone."""
    name, said = parted(environment)
    return Specification(name, {}, map_label(said["map"])).id if "map" in said else environment


def _common(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all runs were told alike."""
    first, *others = settings
    return {name: value for name, value in first.items() if all(one.get(name) == value for one in others)}
