"""Policies from wherever they are: `hindsight_rl.load`."""

import re
from pathlib import Path
from typing import NamedTuple

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.numbers import whole_number
from hindsight_rl.experiments.best_policies import load_best
from hindsight_rl.experiments.definition import SETTINGS, Job, load_job
from hindsight_rl.experiments.job import load_policies
from hindsight_rl.experiments.policy_files import MARK, Card, load_policy, measured, named, policy_of
from hindsight_rl.experiments.study.plan import Plan
from hindsight_rl.experiments.study.policies import POLICIES, held_choices, policy_path, require_of_cell
from hindsight_rl.experiments.zoo import PREFIX, zoo_path
from hindsight_rl.records.checkpoints import load_checkpoint
from hindsight_rl.records.evaluations import Evaluations
from hindsight_rl.records.results import RESULTS, ResultsFile
from hindsight_rl.training.program import make_program
from hindsight_rl.training.state import snapshot_from_arrays, state_from_arrays
from hindsight_rl.training.trained_policy import TrainedPolicy

EXPORTED = "policy.npz"
"""The policy file in a folder that `hindsight export` wrote."""
LAST, BEST = "last", "best"
_READERS = {".onnx": "onnxruntime", ".stablehlo": "jax.export.deserialize"}


class Known(NamedTuple):
    """A policy, and what is known of it."""

    policy: TrainedPolicy
    card: Card


def load(source: str | Path, checkpoint: str | int = LAST) -> list[TrainedPolicy]:
    """The policies that a folder or a file holds, one for each run.

    `source` is a run folder, a study's folder or one of its `policies/*.npz`, what `Result.save` or `hindsight export`
    wrote, or a policy of the zoo, such as `zoo:four-rooms`. Of a run folder, `checkpoint` chooses `last`, `best` by
    evaluation, or the number of a batch that `--keep-every` kept.

    >>> policy = load("zoo:bit-flipping-8")[0]
    >>> int(policy.act([0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0, 0]))
    2
    """
    return [known.policy for known in load_known(source, checkpoint)]


def load_known(source: str | Path, checkpoint: str | int = LAST) -> list[Known]:
    """As `load`, with what is known of each policy."""
    batch = parse_checkpoint(checkpoint)
    path = Path(source)
    if (path / SETTINGS).exists():
        return _of_run(path, batch)
    if path.suffix in _READERS and not path.is_dir():
        raise HindsightError(f"'{path}' is for {_READERS[path.suffix]} to read; load the {EXPORTED} beside it.")
    if not (path.exists() or str(source).startswith(PREFIX)):
        raise HindsightError(f"There is no file or folder '{source}'.")
    if batch != LAST:
        raise HindsightError(f"Only run folders have checkpoints to choose from, and '{source}' is none.")
    if str(source).startswith(PREFIX):
        return [Known(*load_policy(zoo_path(str(source))))]
    if path.is_dir():
        return _of_folder(path)
    return _of_file(path)


def parse_checkpoint(checkpoint: str | int) -> str | int:
    """`last`, `best`, or the number of a batch."""
    number = whole_number(checkpoint) if isinstance(checkpoint, str) else checkpoint
    if number is not None and number >= 0:
        return number
    if checkpoint in (LAST, BEST):
        return checkpoint
    raise HindsightError(f"checkpoint must be last, best or the number of a batch, not {checkpoint!r}.")


def _of_run(folder: Path, batch: str | int) -> list[Known]:
    if batch == BEST:
        return [Known(*each) for each in load_best(folder, load_job(folder))]
    job, snapshot, policies = load_policies(folder, None if isinstance(batch, str) else batch)
    return _of_job(job, snapshot.batch, policies, snapshot.evaluations)


def _of_job(job: Job, batch: int, policies: list[TrainedPolicy], evaluations: Evaluations) -> list[Known]:
    return [
        Known(policy, Card(job.settings, named(job.environment), int(seed), batch, measured(evaluations, run)))
        for run, (seed, policy) in enumerate(zip(evaluations.seeds, policies, strict=True))
    ]


def _of_folder(folder: Path) -> list[Known]:
    if (folder / EXPORTED).exists():
        return _of_file(folder / EXPORTED)
    # In the order of people: seed-2 comes before seed-10.
    files = sorted((folder / POLICIES).glob("*.npz"), key=_in_order)
    if not files:
        raise HindsightError(f"'{folder}' holds no policies: it has no {SETTINGS}, {EXPORTED} or {POLICIES}/*.npz.")
    return [known for path in files for known in _of_file(path)]


def _in_order(path: Path) -> list[tuple[int, str]]:
    parts = ((whole_number(part), part) for part in re.split(r"(\d+)", path.name))
    return [(-1, part) if number is None else (number, "") for number, part in parts]


def _of_file(path: Path) -> list[Known]:
    arrays, metadata = load_checkpoint(path)
    if MARK in metadata:
        return [Known(*policy_of(path, arrays, metadata))]
    if "job" in metadata:
        job = Job.from_json(metadata["job"], path)
        program = make_program(job.environment.task, job.settings)
        snapshot = snapshot_from_arrays(program.states(job.settings.runs), arrays)
        return _of_job(job, snapshot.batch, program.policies(snapshot.states), snapshot.evaluations)
    if "key" not in metadata:
        raise HindsightError(f"'{path}' holds no policy.")
    plan = _plan_of(path)
    require_of_cell(path, metadata, plan.cell)
    settings = plan.settings(plan.definitive, 1, held_choices(metadata))
    program = make_program(plan.specification.task, settings)
    (policy,) = program.policies(state_from_arrays(program.states(1), arrays))
    return [Known(policy, Card(settings, named(plan.specification), int(metadata["key"][-1]), settings.batches))]


def _plan_of(path: Path) -> Plan:
    """What a study planned for the cell that one of its policies belongs to."""
    folder = path.resolve().parent.parent
    if not (folder / RESULTS).exists():
        raise HindsightError(f"'{path}' belongs to a study, but {folder / RESULTS} is missing.")
    with ResultsFile.open(folder / RESULTS) as file:
        plans = file.read().plans
    for cell, content in plans.items():
        if policy_path(folder, cell).name == path.name:
            return Plan.from_json(cell, content)
    raise HindsightError(f"The study in '{folder}' has no plan for '{path.name}'.")
