"""Environments as users write them in a module of their own: each kind that can be named, and some that cannot."""

from typing import Any, Literal

import gymnasium
import numpy as np
from reference.goal_environments import Line
from reference.hosted_bits import BitsTask, hosted_bits
from reference.probes import ConstantReward, Corridor

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.options import Count
from hindsight_rl.environments.interface import Environment, Task

NAMES = np.zeros(2)
"""Nothing for a settings file."""


class Hall(Corridor):
    """A corridor of one's own.

    Only the first line counts.
    """

    def __init__(self, cells: Count = 5, side: Literal["left", "right"] = "left", names: Any = NAMES) -> None:
        if cells == 13:
            raise ArithmeticError("no corridor\nhas thirteen cells")
        if cells == 14:
            raise HindsightError("Fourteen cells are one too many.")
        self.cells, self.start, self.moves, self.horizon = cells, 0 if side == "left" else cells - 1, (-1, 1), cells
        self.goals = (1, cells - 2)


class Generated(Corridor):
    """Its constructor is written by equinox from its fields."""


class Unfinished(Environment):
    """Does not say what a step does."""

    horizon: int = 4
    action_count: int = 2


class LimitedLine(Line):
    """A Gymnasium environment with an option."""

    def __init__(self, length: int = 7, render_mode: str | None = None):
        super().__init__(render_mode=render_mode)
        self.length = length


class Neither:
    """No environment at all."""


HALL = Hall(6)
HOSTED = hosted_bits(3)
MADE_LINE = Line()
NUMBER = 3


def make_hall(cells: int) -> Hall:
    """A hall made by a function."""
    return Hall(cells)


def make_bits(bits: int = 3) -> BitsTask:
    return hosted_bits(bits)


def make_untold(length=3, horizon=5):
    return ConstantReward(horizon)


def make_task_untold(length=3):
    return ConstantReward(length)


def make_line(length: int = 7) -> gymnasium.Env:
    return LimitedLine(length)


def make_line_untold(length=7):
    return gymnasium.wrappers.TimeLimit(LimitedLine(length), 9)


def make_nothing() -> Any:
    return []


def make_lie() -> Task:
    return []  # type: ignore[return-value]
