"""The best policy of each run by evaluation, kept beside the last."""

from pathlib import Path

import jax
import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.experiments.definition import Job, describe_difference
from hindsight_rl.experiments.policy_files import Card, load_policy, measured, named, read_card, save_policy
from hindsight_rl.records.checkpoints import load_checkpoint
from hindsight_rl.records.files import make_folder
from hindsight_rl.training.program import Program
from hindsight_rl.training.state import Snapshot
from hindsight_rl.training.trained_policy import TrainedPolicy

BEST = "best"
"""The folder of a run folder in which they are."""


class BestPolicies:
    """Remembers the best policies that it was shown, and writes them when a checkpoint is written.

    So a kill costs nothing: a job that goes on from the checkpoint comes to the same policies again.
    """

    def __init__(self, job: Job, folder: Path, program: Program):
        self._job, self._folder, self._program = job, folder, program
        self._returns = [_held_return(folder, job, seed) for seed in job.settings.seeds]
        self._unsaved: dict[int, tuple[TrainedPolicy, Card]] = {}

    def show(self, snapshot: Snapshot) -> None:
        """A newer snapshot: the first of equally good policies is kept."""
        evaluations = snapshot.evaluations
        for run, value in enumerate(evaluations.final_return):
            if not value > self._returns[run]:  # nor is a failed run's
                continue
            self._returns[run] = float(value)
            about, seed = named(self._job.environment), int(evaluations.seeds[run])
            card = Card(self._job.settings, about, seed, snapshot.batch, measured(evaluations, run))
            self._unsaved[run] = self._policy(snapshot, run), card

    def save(self) -> None:
        """Write what is new."""
        for run, (policy, card) in self._unsaved.items():
            path = best_path(self._folder, self._job.settings.seeds[run])
            make_folder(path.parent)
            save_policy(path, policy, card)
        self._unsaved.clear()

    def _policy(self, snapshot: Snapshot, run: int) -> TrainedPolicy:
        """A copy of a run's policy; what else its state holds (a replay buffer, say) is looked at but not copied."""
        for part in snapshot.parts:
            if run < (size := len(part.failed_batch)):
                viewed = jax.tree.map(np.asarray, part)
                return jax.tree.map(np.array, self._program.policy(viewed, run))
            run -= size
        raise IndexError(run)


def best_path(folder: Path, seed: int) -> Path:
    """Where the best policy of a run is kept."""
    return folder / BEST / f"seed-{seed}.npz"


def load_best(folder: Path, job: Job) -> list[tuple[TrainedPolicy, Card]]:
    """The best policy of each run of a folder."""
    paths = [best_path(folder, seed) for seed in job.settings.seeds]
    for path in paths:
        if not path.exists():
            raise HindsightError(
                f"'{folder}' holds no best policy of seed {path.stem.rpartition('-')[2]}: it was trained with "
                "--keep last, by an earlier version, or its run failed."
            )
    found = [load_policy(path) for path in paths]
    for path, seed, (_, card) in zip(paths, job.settings.seeds, found, strict=True):
        _require_of_run(path, card, job, seed)
    return found


def _require_of_run(path: Path, card: Card, job: Job, seed: int) -> None:
    """Refuse the policy of another run, which somebody may have put there."""
    same = card.seed == seed and card.environment is not None and card.environment["name"] == job.environment.name
    if not same or describe_difference(Job(card.specification, card.settings), job):
        raise HindsightError(f"'{path}' holds a policy of another run (seed {card.seed}), not of seed {seed} here.")


def _held_return(folder: Path, job: Job, seed: int) -> float:
    """That of the policy in a file; a missing, damaged or foreign one is worse than any other."""
    path = best_path(folder, seed)
    try:
        if not path.exists():
            return -np.inf
        card = read_card(path, load_checkpoint(path)[1])
        _require_of_run(path, card, job, seed)
        return float(card.measured["mean_return"])
    except (HindsightError, KeyError, TypeError, ValueError):
        return -np.inf
