"""A task known only by its shapes: enough to make a policy for it again, where the environment itself is not needed."""

from dataclasses import asdict, dataclass
from typing import Any, NoReturn

import jax.numpy as jnp
from jaxtyping import Array, Float

from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.environments.interface import Bounds, Task


@dataclass(frozen=True)
class Spaces:
    """What a policy is shown and what it answers."""

    observation_shape: tuple[int, ...]
    observation_type: str
    goal_shape: tuple[int, ...]
    action_count: int
    """How many actions there are; for continuous actions, how many numbers one of them is made of."""
    continuous: bool
    action_bounds: Bounds | None
    horizon: int

    @classmethod
    def of(cls, task: Task) -> "Spaces":
        """Those of a task."""
        return cls(**{name: getattr(task, name) for name in cls.__dataclass_fields__})

    def to_json(self) -> dict[str, Any]:
        """Fit for a file."""
        content = asdict(self)
        if self.action_bounds is not None:  # JSON knows no infinity
            content["action_bounds"] = [[repr(value) for value in bound] for bound in self.action_bounds]
        return content

    @classmethod
    def from_json(cls, content: Any) -> "Spaces":
        """The inverse of `to_json`."""
        try:
            content, bounds = dict(content), content["action_bounds"]
            for name in ("observation_shape", "goal_shape"):
                content[name] = tuple(int(size) for size in content[name])
            if bounds is not None:
                low, high = (tuple(float(value) for value in bound) for bound in bounds)
                content["action_bounds"] = (low, high)
            return cls(**content)
        except (LookupError, TypeError, ValueError) as error:
            raise HindsightError(f"The shapes of a policy's inputs are damaged: {gist(error)}.") from error


class DescribedTask(Task):
    """Takes the place of an environment that is not there. It can be asked for its shapes, but not for rewards."""

    horizon: int
    action_count: int
    spaces: Spaces

    def __init__(self, spaces: Spaces):
        self.spaces, self.horizon, self.action_count = spaces, spaces.horizon, spaces.action_count

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return self.spaces.observation_shape

    @property
    def observation_type(self) -> str:
        return self.spaces.observation_type

    @property
    def goal_shape(self) -> tuple[int, ...]:
        return self.spaces.goal_shape

    @property
    def continuous(self) -> bool:
        return self.spaces.continuous

    @property
    def action_bounds(self) -> Bounds | None:
        return self.spaces.action_bounds

    @property
    def goal_count(self) -> int:
        return 1

    @property
    def state_limit(self) -> int | None:
        return None

    def goal_probability(self, goal: Array) -> Float[Array, ""]:
        return jnp.float32(1)

    def reached(self, achieved: Array, goal: Array) -> NoReturn:
        raise HindsightError("Only the shapes of this environment are known: nothing can be played in it.")

    def reward(self, achieved: Array, goal: Array, time: Array) -> NoReturn:
        raise HindsightError("Only the shapes of this environment are known: nothing can be played in it.")
