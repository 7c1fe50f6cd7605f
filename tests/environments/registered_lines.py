"""Walks along a line that Gymnasium knows by name, so that other processes can make them; some are out of order."""

import os
import signal
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from reference.goal_environments import Line, batched_reward

TROUBLE = "LINE_TROUBLE"
"""The environment variable that says what is to go wrong: it reaches worker processes too."""
LATE = 5
"""Nothing goes wrong in the few steps that are played to look at an environment."""


def moody_reward(achieved: np.ndarray, goal: np.ndarray, info: Any) -> Any:
    rewards = batched_reward(achieved, goal, info)
    is_late = np.max(info["time"]) >= LATE
    if is_late and os.environ.get(TROUBLE) == "reward is interrupted":
        os.kill(os.getpid(), signal.SIGINT)
    if is_late and os.environ.get(TROUBLE) == "reward raises":
        raise ZeroDivisionError("no scales\nto weigh with")
    return rewards * np.nan if is_late and os.environ.get(TROUBLE) == "reward is no number" else rewards


class MoodyLine(Line):
    """Goes wrong as the environment variable says."""

    def __init__(self, **options: Any):
        super().__init__(reward=moody_reward, **options)

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        stepped = super().step(action)
        if self.steps == LATE and os.environ.get(TROUBLE) == "raises":
            raise ZeroDivisionError("a wheel came off\nand rolled away")
        if self.steps == LATE and os.environ.get(TROUBLE) == "no number":
            stepped[0]["observation"] = np.array([np.nan])
        return stepped


class PairedLine(Line):
    """Its actions are tuples, which nothing here can choose."""

    def __init__(self, **options: Any):
        super().__init__(action=spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2))), **options)


for name in ("MoodyLine", "PairedLine"):
    gymnasium.register(f"{name}-v0", entry_point=f"{__name__}:{name}", max_episode_steps=12)
