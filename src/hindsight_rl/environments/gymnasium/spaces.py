"""Between Gymnasium's spaces and plain arrays: observations and goals in, actions out."""

import math
from typing import Any

import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.extras import import_gymnasium

Space = Any
"""A Gymnasium space."""
Bounds = tuple[tuple[float, ...], tuple[float, ...]]
"""The lowest and the highest values."""


class Observations:
    """Pictures stay as they are; other arrays become float32; dictionaries, tuples and choices are laid out flat."""

    def __init__(self, space: Space, name: str):
        spaces = import_gymnasium().spaces
        self._space = space
        self._flatten = None if isinstance(space, spaces.Box) else spaces.flatten
        picture = isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) >= 2
        self.type = "uint8" if picture else "float32"
        if self._flatten and not space.is_np_flattenable:
            raise HindsightError(f"The observations of '{name}' cannot be laid out as one vector: {space}.")
        self.shape = spaces.flatten_space(space).shape if self._flatten else space.shape

    def encode(self, observation: Any) -> np.ndarray:
        """An observation of the environment as an array of its own."""
        if self._flatten:
            observation = self._flatten(self._space, observation)
        return np.array(observation, self.type).reshape(self.shape)


class Goals:
    """Goals are arrays of numbers; here they are float32, for the environment they are what it declares."""

    def __init__(self, achieved: Space, desired: Space, name: str):
        spaces = import_gymnasium().spaces
        if not isinstance(achieved, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
            raise HindsightError(f"Goals must be arrays of numbers, but those of '{name}' are {achieved}.")
        if achieved.shape != desired.shape:
            raise HindsightError(
                f"In '{name}' the achieved goal has the shape {achieved.shape}, the desired one {desired.shape}."
            )
        self.shape: tuple[int, ...] = achieved.shape
        self._type = achieved.dtype

    def encode(self, goal: Any) -> np.ndarray:
        """A goal of the environment as an array of its own."""
        return np.array(goal, np.float32).reshape(self.shape)

    def decode(self, goals: Any) -> np.ndarray:
        """One goal or many, as the environment's `compute_reward` expects them."""
        return np.asarray(goals).astype(self._type)


MOST_COMBINATIONS = 1000
"""Of several choices that are made at once."""


class Actions:
    """Numbers from zero, or vectors, which are clipped to their bounds; `count` of either.

    Several choices at once are numbered by their combinations.
    """

    def __init__(self, space: Space, name: str):
        spaces = import_gymnasium().spaces
        self._space = space
        self._sizes: tuple[int, ...] | None = None
        self.bounds: Bounds | None = None
        """Of each number of a vector."""
        if isinstance(space, spaces.Discrete):
            self.count = int(space.n)
            return
        if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
            self._sizes = tuple(map(int, np.ravel(getattr(space, "nvec", np.full(space.shape, 2)))))
            self.count = math.prod(self._sizes)
            if self.count > MOST_COMBINATIONS:
                raise HindsightError(
                    f"The actions of '{name}' are {space}, which makes {self.count} combinations; at most "
                    f"{MOST_COMBINATIONS} will do."
                )
            return
        if not (isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating)):
            raise HindsightError(f"The actions of '{name}' are {space}; only discrete and real Box spaces will do.")
        low, high = (tuple(map(float, bound.ravel())) for bound in (space.low, space.high))
        self.bounds, self.count = (low, high), len(low)

    def encode(self, action: Any) -> Any:
        """An action of the environment as a policy chooses it."""
        if self.bounds is not None:
            return action
        chosen = np.ravel(action - getattr(self._space, "start", 0))
        return int(np.ravel_multi_index(tuple(map(int, chosen)), self._sizes or (self.count,)))

    def decode(self, action: Any) -> Any:
        """An action as the environment expects it."""
        if self._sizes is not None:
            choice = np.array(np.unravel_index(int(action), self._sizes), self._space.dtype).reshape(self._space.shape)
            return choice + getattr(self._space, "start", 0)
        if self.bounds is None:
            return self._space.dtype.type(int(action) + int(self._space.start))
        vector = np.asarray(action, self._space.dtype).reshape(self._space.shape)
        return np.clip(vector, self._space.low, self._space.high)
