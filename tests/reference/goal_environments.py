"""Small Gymnasium goal environments to try things on: a walk along a line, well behaved or not."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

PLACES = 7


def batched_reward(achieved: np.ndarray, goal: np.ndarray, info: Any) -> Any:
    return -(np.abs(achieved - goal) > 0.5).any(axis=-1).astype(np.float64)


def single_reward(achieved: np.ndarray, goal: np.ndarray, info: Any) -> float:
    """Raises for a batch, as only one truth value is expected."""
    return 0.0 if abs(achieved[0] - goal[0]) <= 0.5 else -1.0


def misleading_reward(achieved: np.ndarray, goal: np.ndarray, info: Any) -> float:
    """Takes a batch without complaint, and gives one number for all of it."""
    return float(np.all(np.abs(achieved - goal) <= 0.5))


class Line(gymnasium.Env):
    """Walk left or right; the place is the achieved goal, another one the desired goal."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        reward: Callable[..., Any] = batched_reward,
        observation: spaces.Space[Any] | None = None,
        action: spaces.Space[Any] | None = None,
        fault: Callable[["Line"], Any] | None = None,
        render_mode: str | None = None,
    ):
        self.compute_reward = reward
        self.render_mode = render_mode
        self.fault = fault
        self.action_space = action or spaces.Discrete(2, start=1)
        place = spaces.Box(0, PLACES - 1, (1,), np.float64)
        self.observation_space: spaces.Dict = spaces.Dict(
            observation=observation or place, achieved_goal=place, desired_goal=place
        )
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.aim = self.np_random.choice(PLACES, 2, replace=False).astype(np.float64)
        self.steps = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self.steps += 1
        move = float(np.sum(action)) if isinstance(self.action_space, spaces.Box) else (-1.0, 1.0)[action - 1]
        self.place = float(np.clip(self.place + move, 0, PLACES - 1))
        seen = self._seen()
        if self.fault is not None and self.steps == 3:
            seen = self.fault(self) or seen
        return seen, 0.0, False, self.steps >= 12, {}

    def render(self) -> np.ndarray:
        picture = np.zeros((4, PLACES, 3), np.uint8)
        picture[:, int(self.place)] = 255
        return picture

    def _seen(self) -> dict[str, Any]:
        inner = self.observation_space["observation"]
        fillings: dict[type, Callable[[], Any]] = {
            spaces.Box: lambda: np.full(inner.shape, self.place, inner.dtype),
            spaces.Dict: lambda: {"place": np.array([self.place]), "door": int(self.place) % 3},
        }
        return {
            "observation": fillings[type(inner)](),
            "achieved_goal": np.array([self.place]),
            "desired_goal": np.array([self.aim]),
        }
