"""A robot of your own as a Gymnasium goal environment, with sparse rewards: -1 for each step, 0 at the goal.

hindsight check examples.point_robot:PointRobot
hindsight train examples.point_robot:PointRobot
hindsight train examples.point_robot:DiscretePointRobot
hindsight render runs/examples.point_robot-PointRobot-hppo-batch16 --trust
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

STEPS = 50
REACH = 0.1
THRUSTS = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], np.float32)


class PointRobot(gymnasium.Env[dict[str, np.ndarray], np.ndarray]):
    """A sliding point that two thrusters push about a table; it observes place and speed, and a goal is a place."""

    max_episode_steps = STEPS

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = (
            render_mode  # "rgb_array" where a film is made; whoever wants none leaves this and `render` out
        )
        goals = spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space: spaces.Space[Any] = spaces.Dict(
            {"observation": spaces.Box(-2, 2, (4,), np.float32), "achieved_goal": goals, "desired_goal": goals}
        )
        self.action_space: spaces.Space[Any] = spaces.Box(-1, 1, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Put the robot near the middle, at rest, and draw a goal."""
        super().reset(seed=seed)
        self._place = self.np_random.uniform(-0.1, 0.1, 2).astype(np.float32)
        self._speed = np.zeros(2, np.float32)
        self._goal = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Push; the table's edge stops the robot."""
        self._speed = np.float32(0.8) * self._speed + np.float32(0.03) * np.clip(action, -1, 1).astype(np.float32)
        self._place = np.clip(self._place + self._speed, -1, 1)
        reward = float(self.compute_reward(self._place, self._goal, {}))
        return self._observation(), reward, False, False, {}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """-1 away from the goal, 0 within reach of it; for one pair or for many."""
        far = np.linalg.norm(achieved_goal - desired_goal, axis=-1) > REACH
        return -far.astype(np.float32)

    def render(self) -> np.ndarray:
        """The table from above: the goal is red, the robot blue."""
        picture = np.full((200, 200, 3), 255, np.uint8)
        for place, colour in ((self._goal, (220, 60, 60)), (self._place, (40, 80, 200))):
            column, row = (90 + 90 * place * (1, -1)).astype(int)
            picture[row : row + 20, column : column + 20] = colour
        return picture

    def _observation(self) -> dict[str, np.ndarray]:
        seen = np.concatenate([self._place, self._speed])
        return {"observation": seen, "achieved_goal": self._place.copy(), "desired_goal": self._goal.copy()}


class DiscretePointRobot(PointRobot):
    """The same with five actions: no thrust, or full thrust to one of four sides."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.action_space = spaces.Discrete(len(THRUSTS))

    def step(self, action: Any) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Push to the side of that number."""
        return super().step(THRUSTS[int(action)])
