"""A training job that lives in a folder: settings, versions, evaluations and a checkpoint, safe against any kill."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.numbers import whole_number
from hindsight_rl.environments.hosted import check_workers
from hindsight_rl.experiments.best_policies import BEST, BestPolicies
from hindsight_rl.experiments.definition import SETTINGS, Job, describe_difference, load_job
from hindsight_rl.experiments.saving import Saver
from hindsight_rl.records.checkpoints import load_checkpoint, save_checkpoint
from hindsight_rl.records.digests import content_digest
from hindsight_rl.records.files import (
    claimed,
    make_folder,
    read_json,
    remove_leftovers,
    require_ours,
    write_json,
    write_where_different,
)
from hindsight_rl.records.versions import versions
from hindsight_rl.rollout.crew import Hands, count_of
from hindsight_rl.training.loop import training
from hindsight_rl.training.numerics import NUMERICS, numerics, require_numerics
from hindsight_rl.training.program import Program, lengthened, make_program
from hindsight_rl.training.state import Snapshot, snapshot_from_arrays, snapshot_to_arrays

VERSIONS, EVALUATIONS, CHECKPOINT = "versions.json", "evaluations.csv", "checkpoint.npz"
DIGEST, LENGTHENED = "settings_digest", "lengthened"
"""What a checkpoint knows its settings file by, and what ties the settings of a job made longer to those before."""
EARLIER = "earlier"
"""In versions.json, what made the job before it was resumed elsewhere."""
CHECKPOINTS = "checkpoints"
"""The folder of those that are kept."""


def load_snapshot(folder: Path, job: Job, program: Program, batch: int | None = None) -> Snapshot:
    """The newest state of the job in a folder, or the one that was kept after so many batches."""
    path = folder / CHECKPOINT if batch is None else kept_checkpoint(folder, batch)
    if batch is not None and not path.exists():
        named = (whole_number(other.stem.removeprefix("batch-")) for other in path.parent.glob("batch-*.npz"))
        kept = sorted(number for number in named if number is not None)
        known = f"those of the batches {', '.join(map(str, kept))}" if kept else "none; train with --keep-every"
        raise HindsightError(f"'{folder}' has no checkpoint of batch {batch}; it has {known}.")
    arrays, metadata = load_checkpoint(path)
    held = Job.from_json(metadata.get("job"), path)
    if describe_difference(held, job):
        raise HindsightError(f"'{path}' belongs to other settings than '{folder / SETTINGS}'.")
    if batch is None:  # those that are kept may be from before the job was told to go on for longer
        require_settings_as_written(folder, metadata)
    if program.agent.lengthen is None or held.settings.compiled == job.settings.compiled:
        snapshot = snapshot_from_arrays(program.states(job.settings.runs), arrays)
    else:
        shorter = make_program(program.task, held.settings)
        snapshot = lengthened(program, snapshot_from_arrays(shorter.states(job.settings.runs), arrays))
    if batch not in (None, snapshot.batch):
        raise HindsightError(f"'{path}' is not of the batch that its name says: it holds batch {snapshot.batch}.")
    return snapshot


def require_settings_as_written(folder: Path, metadata: Mapping[str, Any]) -> bool:
    """Refuse settings that were edited since the checkpoint was written; says whether it has their digest at all."""
    known, content = metadata.get(DIGEST), read_json(folder / SETTINGS)
    if known is None:  # an earlier version wrote it
        return False
    mark = content.pop(LENGTHENED, None) if isinstance(content, dict) else None
    digest = content_digest(content)
    if known not in (digest, mark and _since(known, mark, digest)):
        raise HindsightError(
            f"'{folder / SETTINGS}' is not what was written: it does not match its digest in '{folder / CHECKPOINT}'."
        )
    return True


def _since(known: Any, mark: Any, digest: str) -> Any:
    """The digest that the checkpoint knows, if these settings were made from those to go on for longer."""
    return known if mark == content_digest([known, digest]) else None


def _versions(path: Path) -> dict[str, Any]:
    """What makes the job now, and what made it earlier where that differs, the newest last."""
    now: dict[str, Any] = {**versions(), **numerics()}
    try:
        held = read_json(path) if path.exists() else {}
        earlier, before = held.pop(EARLIER, []), held
    except (HindsightError, AttributeError, TypeError):  # damaged: what made it earlier is not known any more
        return now
    history = [*(earlier if isinstance(earlier, list) else []), *([before] if before and before != now else [])]
    return {**now, EARLIER: history} if history else now


def _settings(job: Job, known: Any) -> dict[str, Any]:
    """The settings; those of a job that goes on for longer name the ones before, until a checkpoint knows them."""
    content = job.to_json()
    if known is None or known == (digest := content_digest(content)):
        return content
    return {**content, LENGTHENED: content_digest([known, digest])}


def kept_checkpoint(folder: Path, batch: int) -> Path:
    """Where the checkpoint of a batch is kept, when the job was told to keep some."""
    return folder / CHECKPOINTS / f"batch-{batch}.npz"


def load_policies(folder: Path, batch: int | None = None) -> tuple[Job, Snapshot, list[Any]]:
    """The job in a folder, its newest state or that of a batch, and the policy of each run."""
    job = load_job(folder)
    program = make_program(job.environment.task, job.settings)
    snapshot = load_snapshot(folder, job, program, batch)
    return job, snapshot, program.policies(snapshot.states)


def run_job(
    job: Job,
    folder: Path,
    program: Program | None = None,
    resume: bool = False,
    report: Callable[[Snapshot], bool | None] = lambda snapshot: None,
    tick: Callable[[int], None] = lambda batch: None,
    seconds_between_checkpoints: float = 5.0,
    keep_every: int | None = None,
    notice: Callable[[str], None] = lambda sentence: None,
    workers: int | Hands | None = None,
    keep_best: bool = True,
) -> Snapshot:
    """Train a job into a folder, and call `report` after each evaluation and `tick` every few seconds.

    The checkpoint is replaced as a whole, so a kill at any moment leaves a folder from which `resume` goes on to the
    very same numbers. With `keep_every`, the checkpoint of every so many batches is kept beside it; with `keep_best`,
    the best policy of each run. `workers` play a hosted environment. The `program` is made unless given. A `report`
    that returns True ends the job, which `resume` can go on with.
    """
    check_keep_every(job, keep_every)
    check_workers([job.environment.task], count_of(workers))
    program = program or make_program(job.environment.task, job.settings)
    with claimed(folder):
        snapshot = _prepare(job, folder, program, resume)
        best = BestPolicies(job, folder, program) if keep_best else None
        if best and snapshot:
            best.show(snapshot)
        if snapshot is not None and report(snapshot) is True:
            return snapshot
        steps = training(program, job.settings, snapshot=snapshot, tick=tick, notice=notice, workers=workers)
        with Saver(lambda newest: _save(job, folder, newest, best), seconds_between_checkpoints, snapshot) as saver:
            for snapshot in steps:
                saver.newest = snapshot
                if best:
                    best.show(snapshot)
                ends = report(snapshot) is True
                if keep_every and snapshot.batch % keep_every == 0:
                    make_folder(kept_checkpoint(folder, snapshot.batch).parent)
                    _save_checkpoint(job, kept_checkpoint(folder, snapshot.batch), snapshot)
                if ends:
                    break
                saver.show(snapshot)
            saver.save()
        if best:
            best.save()  # of a finished job whose best were lost
        assert snapshot is not None
        if LENGTHENED in read_json(folder / SETTINGS):
            # The checkpoint first: where there was nothing to train, it still knows only the settings before.
            _save_checkpoint(job, folder / CHECKPOINT, snapshot)
            write_json(folder / SETTINGS, job.to_json())
    return snapshot


def check_keep_every(job: Job, keep_every: int | None) -> None:
    """Refuse batches between kept checkpoints after which there is no evaluation."""
    every = job.settings.evaluate_every
    if keep_every is not None and (keep_every < 1 or keep_every % every):
        raise HindsightError(f"keep_every must be a multiple of evaluate_every ({every}), not {keep_every}.")


def check_folder(job: Job, folder: Path, resume: bool) -> None:
    """Refuse a folder in which something else would be overwritten."""
    if not (folder / SETTINGS).exists():
        if (folder / CHECKPOINT).exists():
            raise HindsightError(f"'{folder}' has a {CHECKPOINT} but no {SETTINGS}: choose another output folder.")
        require_ours(folder, SETTINGS)
        return
    held = load_job(folder)
    if not any((folder / name).exists() for name in (CHECKPOINT, EVALUATIONS, CHECKPOINTS, BEST)):
        return  # it ended before its first evaluation, as where the memory did not suffice: nothing would be lost
    if difference := describe_difference(held, job):
        raise HindsightError(f"'{folder}' already holds a different run ({difference}): choose another output folder.")
    if not resume:
        raise HindsightError(f"'{folder}' already holds this run: add --resume to go on, or choose another folder.")


def _prepare(job: Job, folder: Path, program: Program, resume: bool) -> Snapshot | None:
    """Write the settings of a new or longer job, and find where an old one stopped."""
    check_folder(job, folder, resume)
    snapshot, known = None, None
    if (folder / CHECKPOINT).exists():
        snapshot = load_snapshot(folder, job, program)
        _, metadata = load_checkpoint(folder / CHECKPOINT)
        require_numerics(metadata.get(NUMERICS, {}), f"'{folder}'")
        known = metadata.get(DIGEST)
    remove_leftovers(folder, folder / CHECKPOINTS, folder / BEST)
    write_json(folder / SETTINGS, _settings(job, known))
    write_json(folder / VERSIONS, _versions(folder / VERSIONS))
    if snapshot is not None:
        _save_evaluations(folder, snapshot)
    return snapshot


def _save(job: Job, folder: Path, snapshot: Snapshot, best: BestPolicies | None = None) -> None:
    if best:
        best.save()
    _save_checkpoint(job, folder / CHECKPOINT, snapshot)
    _save_evaluations(folder, snapshot)


def _save_evaluations(folder: Path, snapshot: Snapshot) -> None:
    """The table says what the checkpoint says: a kill between the two, or damage, is mended when the job goes on."""
    write_where_different(folder / EVALUATIONS, snapshot.evaluations.to_csv().encode())


def _save_checkpoint(job: Job, path: Path, snapshot: Snapshot) -> None:
    content = job.to_json()
    metadata: dict[str, Any] = {"job": content, DIGEST: content_digest(content), NUMERICS: numerics()}
    save_checkpoint(path, snapshot_to_arrays(snapshot), metadata)
