"""What a hosted environment must say of itself: an ordinary Python object that plays one episode at a time."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np


class Observed(NamedTuple):
    """What can be seen of a state."""

    observation: np.ndarray
    """What the policy is shown; its type and shape never change (uint8 for pictures, float32 otherwise)."""
    achieved_goal: np.ndarray
    """The goal that the state achieves, float32."""
    over: bool = False
    """Whether the episode cannot go on, for a reason other than its goal (a lost life, say)."""


class Simulator(ABC):
    """Plays episodes, one after another. The same seed and actions always give the same episode, whatever went before.

    It lives in a worker process, so that many of them can play at the same time.
    """

    @abstractmethod
    def reset(self, seed: int) -> Observed:
        """Begin an episode."""

    @abstractmethod
    def sample_goal(self, seed: int) -> np.ndarray:
        """Draw the goal to pursue in the episode that `reset` has just begun."""

    @abstractmethod
    def step(self, action: np.ndarray) -> Observed:
        """Take an action: a whole number, or a vector for continuous actions."""

    @abstractmethod
    def picture(self, goal: np.ndarray) -> np.ndarray:
        """The state as people see it with the goal drawn in: height, width, RGB in uint8."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what it holds."""


@dataclass(frozen=True)
class SimulatorSource:
    """How to make a simulator in another process: a function by its module and name, and its options."""

    module: str
    function: str
    options: Mapping[str, Any] = field(default_factory=dict)
    portable: bool = True
    """Otherwise there may be just one simulator at a time, and it has to stay in this process."""

    def build(self) -> Simulator:
        """Make a simulator."""
        return getattr(import_module(self.module), self.function)(**self.options)

    def __str__(self) -> str:
        return self.function
