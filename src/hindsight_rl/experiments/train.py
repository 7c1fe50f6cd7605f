"""What training from Python comes to, and the names of environments that are given as objects."""

from dataclasses import dataclass
from typing import Any

from hindsight_rl.environments.gymnasium.task import GymnasiumTask, gymnasium_task
from hindsight_rl.environments.interface import Task
from hindsight_rl.records.evaluations import Evaluations
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import Failure


@dataclass(frozen=True, eq=False)
class Result:
    """What a training job came to."""

    settings: Settings
    evaluations: Evaluations
    """The learning curves: `mean_returns`, `success_rates` and all `metrics`, one row for each run, one column for each
    evaluation."""
    policies: list[Any]
    """The policy of each run; `policy.act(observation, goal)` is its greedy action."""
    failures: list[Failure]
    """The runs that stopped being finite."""


def named_task(environment: Any) -> tuple[str, Task]:
    """An environment that a user made, and the name under which it finds its default settings."""
    if isinstance(environment, Task):
        return (f"gym:{environment.name}" if isinstance(environment, GymnasiumTask) else "custom"), environment
    # Whatever else it is, it is for Gymnasium's door to say what is wrong with it.
    task = gymnasium_task(environment)
    return f"gym:{task.name}", task
