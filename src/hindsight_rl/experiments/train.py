"""Training from Python: `hindsight_rl.train`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from hindsight_rl.environments.interface import Task
from hindsight_rl.environments.registry import specify
from hindsight_rl.experiments.paper import default_settings
from hindsight_rl.records.evaluations import Evaluations
from hindsight_rl.training.loop import make_agent, training
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import Failure, Snapshot


@dataclass(frozen=True, eq=False)
class Result:
    """What a training job came to."""

    settings: Settings
    evaluations: Evaluations
    """The learning curves: `mean_returns` and `success_rates`, one row for each run, one column for each evaluation."""
    policies: list[Any]
    """The policy of each run; `policy.act(observation, goal)` is its greedy action."""
    failures: list[Failure]
    """The runs that stopped being finite."""


def train(environment: Any, report: Callable[[Snapshot], None] = lambda snapshot: None, **settings: Any) -> Result:
    """Train on an environment and return learning curves and policies.

    `environment` is a name, an environment of this library, or a Gymnasium goal environment; to say more of the latter,
    pass what `hindsight_rl.environments.gymnasium_task.gymnasium_task` makes of it.

    `settings` are the fields of `Settings`; those not given are the paper's for a named environment. `report` is
    called with a snapshot after each evaluation.
    """
    if isinstance(settings.get("hidden_layers"), list):
        settings["hidden_layers"] = tuple(settings["hidden_layers"])
    name, task = _resolve(environment)
    chosen = default_settings(name, settings)
    for snapshot in training(task, chosen):
        report(snapshot)
    return Result(chosen, snapshot.evaluations, policies(task, chosen, snapshot), snapshot.failures)


def _resolve(environment: Any) -> tuple[str, Task]:
    """The name and the environment that a user means."""
    if isinstance(environment, str):
        specification = specify(environment)
        return specification.id, specification.build()
    if isinstance(environment, Task):
        return "custom", environment
    # Whatever else it is, it is for Gymnasium's door to say what is wrong with it.
    from hindsight_rl.environments.gymnasium_task import gymnasium_task
    from hindsight_rl.environments.hosted import HostedEnvironment
    from hindsight_rl.environments.task import HostedTask

    task = environment if isinstance(environment, HostedTask) else gymnasium_task(environment)
    return f"gym:{task.name}", HostedEnvironment(task)


def policies(environment: Task, settings: Settings, snapshot: Snapshot) -> list[Any]:
    """The policy of each run of a snapshot."""
    agent = make_agent(environment, settings)
    runs = range(len(snapshot.evaluations.seeds))
    return [agent.policy(jax.tree.map(lambda leaf, run=run: leaf[run], snapshot.states.agent)) for run in runs]
