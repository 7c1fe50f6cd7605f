"""What training from Python comes to, and the names of environments that are given as objects."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.gymnasium.task import GymnasiumTask, gymnasium_task
from hindsight_rl.environments.interface import Task
from hindsight_rl.environments.registry import Specification
from hindsight_rl.experiments.job import EVALUATIONS, VERSIONS
from hindsight_rl.experiments.policy_files import Card, measured, named, save_policy
from hindsight_rl.experiments.study.policies import POLICIES
from hindsight_rl.records.evaluations import Evaluations, summary
from hindsight_rl.records.files import make_folder, require_ours, write_atomically, write_json
from hindsight_rl.records.versions import versions
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import Failure
from hindsight_rl.training.trained_policy import TrainedPolicy


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """What a training job came to."""

    settings: Settings
    evaluations: Evaluations
    """The learning curves: `mean_returns`, `success_rates` and all `metrics`, one row for each run, one column for each
    evaluation."""
    policies: list[TrainedPolicy]
    """The policy of each run; `policy.act(observation, goal)` is its greedy action, or those of a batch."""
    failures: list[Failure]
    """The runs that stopped being finite."""
    environment: Specification | None = None
    """The environment; None for one that was passed as an object."""

    def __repr__(self) -> str:
        """A line: its fields would fill the screen."""
        where = self.environment.id if self.environment else "an environment of your own"
        evaluations = self.evaluations
        runs, batches = len(evaluations.seeds), int(evaluations.batches[-1])
        last = summary(evaluations.final_return)["mean"]
        success = summary(evaluations.final_success_rate)["mean"]
        said = "no run finished" if last is None else f"return {last:.2f}, success rate {success:.2f}"
        return f"Result({self.settings.method} on {where}: {runs} run{'s' * (runs > 1)}, {batches:,} batches, {said})"

    def save(self, folder: str | Path) -> None:
        """Write each run's policy and the learning curves into a new folder, from which `hindsight_rl.load` reads."""
        folder = Path(folder)
        require_ours(folder, EVALUATIONS)
        if (folder / EVALUATIONS).exists():
            raise HindsightError(f"'{folder}' already holds a result: choose another folder.")
        make_folder(folder / POLICIES)
        evaluations, about = self.evaluations, named(self.environment) if self.environment else None
        for run, policy in enumerate(self.policies):
            seed, batch = int(evaluations.seeds[run]), int(evaluations.batches[-1])
            card = Card(self.settings, about, seed, batch, measured(evaluations, run))
            save_policy(folder / POLICIES / f"seed-{seed}.npz", policy, card)
        write_json(folder / VERSIONS, versions())
        write_atomically(folder / EVALUATIONS, evaluations.to_csv().encode())


def named_task(environment: Any) -> tuple[str, Task]:
    """An environment that a user made, and the name under which it finds its default settings."""
    if isinstance(environment, Task):
        return (f"gym:{environment.name}" if isinstance(environment, GymnasiumTask) else "custom"), environment
    # Whatever else it is, it is for Gymnasium's door to say what is wrong with it.
    task = gymnasium_task(environment)
    return f"gym:{task.name}", task
