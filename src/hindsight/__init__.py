"""Hindsight policy gradients: learn about every goal an agent passed, whatever it set out for.

import hindsight

environment = hindsight.make("bit-flipping", bits=8)
result = hindsight.train(environment, method="hpg", batches=200, runs=2)
action = result.policies[0].act(observation, goal)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hindsight.agents.registry import METHODS
    from hindsight.core.errors import HindsightError
    from hindsight.environments.interface import Environment
    from hindsight.environments.registry import ENVIRONMENTS, make
    from hindsight.experiments.train import Result, train
    from hindsight.training.settings import Settings

_HOMES = {
    "ENVIRONMENTS": "hindsight.environments.registry",
    "METHODS": "hindsight.agents.registry",
    "Environment": "hindsight.environments.interface",
    "HindsightError": "hindsight.core.errors",
    "Result": "hindsight.experiments.train",
    "Settings": "hindsight.training.settings",
    "make": "hindsight.environments.registry",
    "train": "hindsight.experiments.train",
}

__all__ = [
    "ENVIRONMENTS",
    "METHODS",
    "Environment",
    "HindsightError",
    "Result",
    "Settings",
    "make",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the command line's help need not wait for JAX."""
    if name not in _HOMES:
        raise AttributeError(f"module 'hindsight' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
