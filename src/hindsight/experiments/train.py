"""Training from Python: `hindsight.train`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from hindsight.environments.interface import Environment
from hindsight.environments.registry import specify
from hindsight.experiments.paper import default_settings
from hindsight.records.evaluations import Evaluations
from hindsight.training.loop import make_agent, training
from hindsight.training.settings import Settings
from hindsight.training.state import Failure, Snapshot


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


def train(
    environment: str | Environment, report: Callable[[Snapshot], None] = lambda snapshot: None, **settings: Any
) -> Result:
    """Train on an environment, given by name or as an object, and return learning curves and policies.

    `settings` are the fields of `Settings`; those not given are the paper's for a named environment. `report` is
    called with a snapshot after each evaluation.
    """
    if isinstance(settings.get("hidden_layers"), list):
        settings["hidden_layers"] = tuple(settings["hidden_layers"])
    name = "custom"
    if isinstance(environment, str):
        specification = specify(environment)
        name, environment = specification.id, specification.build()
    chosen = default_settings(name, settings)
    for snapshot in training(environment, chosen):
        report(snapshot)
    return Result(chosen, snapshot.evaluations, policies(environment, chosen, snapshot), snapshot.failures)


def policies(environment: Environment, settings: Settings, snapshot: Snapshot) -> list[Any]:
    """The policy of each run of a snapshot."""
    agent = make_agent(environment, settings)
    runs = range(len(snapshot.evaluations.seeds))
    return [agent.policy(jax.tree.map(lambda leaf, run=run: leaf[run], snapshot.states.agent)) for run in runs]
