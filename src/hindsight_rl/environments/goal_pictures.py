"""Pictures of Gymnasium environments with a goal drawn in, which leave the episode as it was."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hindsight_rl.core.errors import HindsightError, gist

OPENGL = (
    " MuJoCo needs OpenGL: without a display install libegl1 and set MUJOCO_GL=egl before the start, or libosmesa6 and "
    "MUJOCO_GL=osmesa."
)


def draw(environment: Any, name: str, goal: np.ndarray) -> np.ndarray:
    """A picture by the environment's own means, or one sentence on why there is none.

    The goal is drawn in by environments that keep theirs as `goal`, as Gymnasium's robots and mazes do.
    """
    try:
        with _unchanged(environment.unwrapped), _goal_shown(environment.unwrapped, goal):
            return np.asarray(environment.render())
    except Exception as error:  # Each OpenGL loader fails in its own way, down to attributes of None.
        hint = OPENGL if _is_mujoco(environment.unwrapped) else ""
        raise HindsightError(f"{name} cannot be drawn ({gist(error)}).{hint}") from error


@contextmanager
def _unchanged(environment: Any) -> Iterator[None]:
    """Put the data of a MuJoCo simulation back afterwards; does nothing for other environments.

    Drawing moves marks and brings derived numbers up to date, which an environment may read, and from some of which the
    solver starts the next step: an episode that was looked at must not go on differently.
    """
    if not _is_mujoco(environment):
        yield
        return
    from mujoco import mj_copyData

    before = copy.copy(environment.data)
    try:
        yield
    finally:
        mj_copyData(environment.data, environment.model, before)


@contextmanager
def _goal_shown(environment: Any, goal: np.ndarray) -> Iterator[None]:
    """Let an environment show this goal in place of its own."""
    own_goal = getattr(environment, "goal", None)
    if not isinstance(own_goal, np.ndarray) or own_goal.shape != goal.shape:
        yield
        return
    try:
        environment.goal = goal.astype(own_goal.dtype)
        _move_mark(environment)
        yield
    finally:
        environment.goal = own_goal
        _move_mark(environment)


def _move_mark(environment: Any) -> None:
    """Mazes move the mark of their goal only when told; robots do it whenever they draw."""
    if hasattr(environment, "update_target_site_pos"):
        environment.update_target_site_pos()
        if _is_mujoco(environment):
            from mujoco import mj_kinematics

            mj_kinematics(environment.model, environment.data)


def _is_mujoco(environment: Any) -> bool:
    return type(getattr(environment, "data", None)).__module__.startswith("mujoco")
