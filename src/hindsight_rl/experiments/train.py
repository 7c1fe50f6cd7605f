"""Training from Python: `hindsight_rl.train`."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hindsight_rl.environments.gymnasium.task import GymnasiumTask, gymnasium_task
from hindsight_rl.environments.interface import Task
from hindsight_rl.experiments.configuration import complete, resolve
from hindsight_rl.records.evaluations import Evaluations
from hindsight_rl.training.loop import training
from hindsight_rl.training.program import make_program
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import Failure, Snapshot


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


def train(environment: Any, report: Callable[[Snapshot], None] = lambda snapshot: None, **settings: Any) -> Result:
    """Train on an environment and return learning curves and policies.

    `environment` is a name, an environment of this library, or a Gymnasium goal environment; to say more of the latter,
    pass what `hindsight_rl.environments.gymnasium.task.gymnasium_task` makes of it.

    `settings` are those of the run, the `method`, and the options of method and environment, by name, as on the command
    line; those not given are the paper's for a named environment. `report` is called with a snapshot after each
    evaluation.
    """
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    if isinstance(environment, str):
        job = resolve(environment, settings, warnings.warn)
        task, chosen = job.environment.task, job.settings
    else:
        name, task = _named(environment)
        chosen = complete(name, settings)
    program = make_program(task, chosen)
    for snapshot in training(program, chosen):
        report(snapshot)
    return Result(chosen, snapshot.evaluations, program.policies(snapshot.states), snapshot.failures)


def _named(environment: Any) -> tuple[str, Task]:
    """An environment that a user made, and the name under which it finds its default settings."""
    if isinstance(environment, Task):
        return (f"gym:{environment.name}" if isinstance(environment, GymnasiumTask) else "custom"), environment
    # Whatever else it is, it is for Gymnasium's door to say what is wrong with it.
    task = gymnasium_task(environment)
    return f"gym:{task.name}", task
