"""Gymnasium environments that mean harm, and one that does not."""

import multiprocessing
import os
import signal
import time
from typing import Any

import gymnasium
import numpy as np
from reference.goal_environments import Line, batched_reward


def nan_reward(achieved: np.ndarray, goal: np.ndarray, info: Any) -> Any:
    return batched_reward(achieved, goal, info) * np.nan


def wide_reward(achieved: np.ndarray, goal: np.ndarray, info: Any) -> Any:
    return np.zeros((3, 3))


def raising_reward(achieved: np.ndarray, goal: np.ndarray, info: Any) -> Any:
    raise ArithmeticError("no reward today")


def huge_reward(achieved: np.ndarray, goal: np.ndarray, info: Any) -> Any:
    return batched_reward(achieved, goal, info) * 1e300


class Good(Line):
    """Behaves."""

    def __init__(self, render_mode: str | None = None):
        super().__init__(**self.changes(), render_mode=render_mode)

    def changes(self) -> dict[str, Any]:
        return {}

    def step(self, action: Any) -> Any:
        return self.spoiled(*super().step(action))

    def spoiled(self, seen: Any, *rest: Any) -> Any:
        return seen, *rest


class NanReward(Good):
    def changes(self) -> dict[str, Any]:
        return {"reward": nan_reward}


class WideReward(Good):
    def changes(self) -> dict[str, Any]:
        return {"reward": wide_reward}


class RaisingReward(Good):
    def changes(self) -> dict[str, Any]:
        return {"reward": raising_reward}


class HugeReward(Good):
    def changes(self) -> dict[str, Any]:
        return {"reward": huge_reward}


class RaisesAtOnce(Good):
    def reset(self, **options: Any) -> Any:
        raise RuntimeError("\x1b[31mno episode\x1b[0m")


class RaisesInConstructor(Good):
    def changes(self) -> dict[str, Any]:
        raise OSError("no such robot")


class Loud(Good):
    def spoiled(self, *result: Any) -> Any:
        raise RuntimeError("very long " * 1_000_000)


class Raises(Good):
    def spoiled(self, *result: Any) -> Any:
        raise KeyError("joint")


def in_worker() -> bool:
    """The first episodes are played in the program's own process, which cannot be saved from an end of this kind."""
    return multiprocessing.parent_process() is not None


class Exits(Good):
    def spoiled(self, *result: Any) -> Any:
        return os._exit(3) if in_worker() else result


class ExitsPolitely(Good):
    def spoiled(self, *result: Any) -> Any:
        raise SystemExit(0)


class Interrupts(Good):
    def spoiled(self, *result: Any) -> Any:
        if in_worker():
            raise KeyboardInterrupt
        return result


class Kills(Good):
    def spoiled(self, *result: Any) -> Any:
        return os.kill(os.getpid(), signal.SIGKILL) if in_worker() else result


class Hangs(Good):
    def spoiled(self, *result: Any) -> Any:
        return time.sleep(3600) if in_worker() else result


class NanObservation(Good):
    def spoiled(self, seen: Any, *rest: Any) -> Any:
        return {**seen, "observation": seen["observation"] * np.nan}, *rest


class WideObservation(Good):
    def spoiled(self, seen: Any, *rest: Any) -> Any:
        return {**seen, "observation": np.zeros(5)}, *rest


class HugeObservation(Good):
    def spoiled(self, seen: Any, *rest: Any) -> Any:
        return {**seen, "observation": np.zeros(50_000_000)}, *rest


class NoGoal(Good):
    def spoiled(self, seen: Any, *rest: Any) -> Any:
        return {"observation": seen["observation"]}, *rest


class Text(Good):
    def spoiled(self, seen: Any, *rest: Any) -> Any:
        return {**seen, "achieved_goal": "here"}, *rest


class Nothing(Good):
    def spoiled(self, *result: Any) -> Any:
        return None


HOSTILE: list[type[Good]] = [
    one for one in list(vars().values()) if isinstance(one, type) and issubclass(one, Good) and one is not Good
]
for _name in ("Good", *(one.__name__ for one in HOSTILE)):
    gymnasium.register(f"{_name}-v0", entry_point=f"{__name__}:{_name}", max_episode_steps=12)
