"""A training job that lives in a folder: settings, versions, evaluations and a checkpoint, safe against any kill."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.hosted import with_workers
from hindsight_rl.environments.registry import Specification, specify
from hindsight_rl.experiments.train import policies
from hindsight_rl.records.checkpoints import load_checkpoint, save_checkpoint, seconds_until_next
from hindsight_rl.records.files import claimed, make_folder, read_json, remove_leftovers, write_atomically, write_json
from hindsight_rl.records.versions import versions
from hindsight_rl.training.loop import initial_states, training
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import Snapshot, snapshot_from_arrays, snapshot_to_arrays

SETTINGS, VERSIONS, EVALUATIONS, CHECKPOINT = "settings.json", "versions.json", "evaluations.csv", "checkpoint.npz"


@dataclass(frozen=True)
class Job:
    """An environment and the settings to train on it with."""

    environment: Specification
    settings: Settings

    def to_json(self) -> dict[str, Any]:
        """The content of a settings file."""
        environment = {"name": self.environment.name, "options": dict(self.environment.options)}
        return {"environment": environment, "settings": asdict(self.settings)}

    @classmethod
    def from_json(cls, content: Any, source: Path) -> "Job":
        """The inverse of `to_json`."""
        try:
            settings = dict(content["settings"])
            settings["hidden_layers"] = tuple(settings["hidden_layers"])
            environment = specify(content["environment"]["name"], **content["environment"]["options"])
            return cls(environment, Settings(**settings))
        except (KeyError, TypeError, AttributeError) as error:
            raise HindsightError(f"'{source}' is not a settings file of this version: {error}.") from None


def load_job(folder: Path) -> Job:
    """The job that a folder holds."""
    if not (folder / SETTINGS).exists():
        raise HindsightError(f"'{folder}' holds no run: it has no {SETTINGS}.")
    return Job.from_json(read_json(folder / SETTINGS), folder / SETTINGS)


def load_snapshot(folder: Path, job: Job, batch: int | None = None) -> Snapshot:
    """The newest state of the job in a folder, or the one that was kept after so many batches."""
    path = folder / CHECKPOINT if batch is None else kept_checkpoint(folder, batch)
    if batch is not None and not path.exists():
        kept = sorted(int(other.stem.rpartition("-")[2]) for other in path.parent.glob("batch-*.npz"))
        known = f"those of the batches {', '.join(map(str, kept))}" if kept else "none; train with --keep-every"
        raise HindsightError(f"'{folder}' has no checkpoint of batch {batch}; it has {known}.")
    arrays, metadata = load_checkpoint(path)
    if describe_difference(Job.from_json(metadata.get("job"), path), job):
        raise HindsightError(f"'{path}' belongs to other settings than '{folder / SETTINGS}'.")
    return snapshot_from_arrays(initial_states(job.environment.build(), job.settings), arrays)


def kept_checkpoint(folder: Path, batch: int) -> Path:
    """Where the checkpoint of a batch is kept, when the job was told to keep some."""
    return folder / "checkpoints" / f"batch-{batch}.npz"


def load_policies(folder: Path) -> list[Any]:
    """The policy of each run in a folder."""
    job = load_job(folder)
    return policies(job.environment.build(), job.settings, load_snapshot(folder, job))


def run_job(
    job: Job,
    folder: Path,
    resume: bool = False,
    report: Callable[[Snapshot], None] = lambda snapshot: None,
    tick: Callable[[int], None] = lambda batch: None,
    seconds_between_checkpoints: float = 5.0,
    keep_every: int | None = None,
    notice: Callable[[str], None] = lambda sentence: None,
    workers: int | None = None,
) -> Snapshot:
    """Train a job into a folder, and call `report` after each evaluation and `tick` every few seconds.

    The checkpoint is replaced as a whole, so a kill at any moment leaves a folder from which `resume` goes on to the
    very same numbers. With `keep_every`, the checkpoint of every so many batches is kept beside it. `workers` play a
    hosted environment.
    """
    if keep_every is not None and (keep_every < 1 or keep_every % job.settings.evaluate_every):
        raise HindsightError(
            f"keep_every must be a multiple of evaluate_every ({job.settings.evaluate_every}), not {keep_every}."
        )
    environment = with_workers(job.environment.build(), workers)
    with claimed(folder):
        snapshot = _prepare(job, folder, resume)
        saved = snapshot
        due = time.monotonic() + seconds_between_checkpoints
        if snapshot is not None:
            report(snapshot)
        try:
            for newest in training(environment, job.settings, snapshot=snapshot, tick=tick, notice=notice):
                snapshot = newest
                report(snapshot)
                if keep_every and snapshot.batch % keep_every == 0:
                    make_folder(kept_checkpoint(folder, snapshot.batch).parent)
                    _save_checkpoint(job, kept_checkpoint(folder, snapshot.batch), snapshot)
                if time.monotonic() >= due:
                    began = time.monotonic()
                    _save(job, folder, snapshot)
                    saved, took = snapshot, time.monotonic() - began
                    due = time.monotonic() + seconds_until_next(seconds_between_checkpoints, took)
        finally:
            # An interruption (Ctrl-C) comes through here too: nothing that was evaluated is lost.
            if snapshot is not None and snapshot is not saved:
                _save(job, folder, snapshot)
    assert snapshot is not None
    return snapshot


def check_folder(job: Job, folder: Path, resume: bool) -> None:
    """Refuse a folder in which something else would be overwritten."""
    if not (folder / SETTINGS).exists():
        if (folder / CHECKPOINT).exists():
            raise HindsightError(f"'{folder}' has a {CHECKPOINT} but no {SETTINGS}: choose another output folder.")
        return
    if difference := describe_difference(load_job(folder), job):
        raise HindsightError(f"'{folder}' already holds a different run ({difference}): choose another output folder.")
    if not resume:
        raise HindsightError(f"'{folder}' already holds this run: add --resume to go on, or choose another folder.")


def _prepare(job: Job, folder: Path, resume: bool) -> Snapshot | None:
    """Write the settings of a new or longer job, and find where an old one stopped."""
    check_folder(job, folder, resume)
    snapshot = load_snapshot(folder, job) if (folder / CHECKPOINT).exists() else None
    remove_leftovers(folder)
    write_json(folder / SETTINGS, job.to_json())
    write_json(folder / VERSIONS, versions())
    return snapshot


def describe_difference(held: Job, wanted: Job) -> str:
    """The first setting in which two jobs differ, or nothing; going on for more batches is no difference."""
    if held.environment != wanted.environment:
        return f"environment {held.environment.id}, not {wanted.environment.id}"
    for field in fields(Settings):
        old, new = getattr(held.settings, field.name), getattr(wanted.settings, field.name)
        if old != new and not (field.name == "batches" and new > old):
            return f"{field.name} {old}, not {new}"
    return ""


def _save(job: Job, folder: Path, snapshot: Snapshot) -> None:
    _save_checkpoint(job, folder / CHECKPOINT, snapshot)
    write_atomically(folder / EVALUATIONS, snapshot.evaluations.to_csv().encode())


def _save_checkpoint(job: Job, path: Path, snapshot: Snapshot) -> None:
    save_checkpoint(path, snapshot_to_arrays(snapshot), {"job": job.to_json()})
