"""Hindsight policy gradients: learn about every goal an agent passed, whatever it set out for.

import hindsight_rl

environment = hindsight_rl.make("bit-flipping", bits=8)
result = hindsight_rl.train(environment, method="hpg", batches=200, runs=2)
action = result.policies[0].act(observation, goal)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hindsight_rl.agents.interface import Agent, Update
    from hindsight_rl.core.errors import HindsightError
    from hindsight_rl.core.options import Options
    from hindsight_rl.environments.interface import Environment
    from hindsight_rl.environments.registry import ENVIRONMENTS, make
    from hindsight_rl.estimators.table import Estimator
    from hindsight_rl.experiments.policies import load
    from hindsight_rl.experiments.train import Result
    from hindsight_rl.methods.interface import Method
    from hindsight_rl.methods.registry import METHODS
    from hindsight_rl.running.train import train
    from hindsight_rl.training.callbacks import Callback, for_minutes, until_success
    from hindsight_rl.training.settings import Settings

__version__ = "0.1.0"
"""The one place that says it: the package's metadata are read off this line."""

_HOMES = {
    "Agent": "hindsight_rl.agents.interface",
    "Callback": "hindsight_rl.training.callbacks",
    "ENVIRONMENTS": "hindsight_rl.environments.registry",
    "Environment": "hindsight_rl.environments.interface",
    "Estimator": "hindsight_rl.estimators.table",
    "HindsightError": "hindsight_rl.core.errors",
    "METHODS": "hindsight_rl.methods.registry",
    "Method": "hindsight_rl.methods.interface",
    "Options": "hindsight_rl.core.options",
    "Result": "hindsight_rl.experiments.train",
    "Settings": "hindsight_rl.training.settings",
    "Update": "hindsight_rl.agents.interface",
    "for_minutes": "hindsight_rl.training.callbacks",
    "load": "hindsight_rl.experiments.policies",
    "make": "hindsight_rl.environments.registry",
    "train": "hindsight_rl.running.train",
    "until_success": "hindsight_rl.training.callbacks",
}

_MODULES = ("estimators", "exact")
"""Public modules, which need no import of their own."""

__all__ = [
    "ENVIRONMENTS",
    "METHODS",
    "Agent",
    "Callback",
    "Environment",
    "Estimator",
    "HindsightError",
    "Method",
    "Options",
    "Result",
    "Settings",
    "Update",
    "for_minutes",
    "load",
    "make",
    "train",
    "until_success",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the command line's help need not wait for JAX."""
    if name in _MODULES:
        return import_module(f"hindsight_rl.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'hindsight_rl' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
