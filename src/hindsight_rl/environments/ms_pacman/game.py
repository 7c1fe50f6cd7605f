"""Ms. Pac-man: walk through the maze of the Atari 2600 game to a given cell, past the ghosts."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.extras import import_ale
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.environments.interface import remaining_time_reward
from hindsight_rl.environments.ms_pacman.frames import Frames, Palette
from hindsight_rl.environments.simulators import Observed, Simulator, SimulatorSource

ACTIONS = ("UP", "RIGHT", "LEFT", "DOWN")
TICKS = 13
"""How long an action is held."""
FRAME_TICKS = (1, 5, 9, 13)
"""The ticks of an action whose frame, combined with the one before, the policy is shown."""
READ_TICKS = (1, 4, 5, 8, 9, 12, 13)
"""These and those before them."""
FROZEN_TICKS = 253
"""Ticks skipped after the console is switched on.

Nothing moves before tick 265. The published experiments skip 240, hold up for 13 and nothing for 13, and then draw
the random action; skipping 253 and holding up for 13 leads to the very same state, as there is a wall above her.
"""
TICK_SEEN = 12
"""The tick after which her position is read: the screen at a tick shows where she was at the tick before."""
LIVES = 3

ROW_EDGES = np.arange(12, 169, 12)
COLUMN_EDGES = np.array([10, 20, 28, 36, 44, 52, 60, 68, 76, 80, 88, 96, 104, 112, 120, 128, 136, 144, 160])
"""Where each row ends below and each column on the right, in pixels."""

HORIZONTAL_BYTE, VERTICAL_BYTE = 10, 16
"""Where in the console's memory her position is."""
HER_COLOUR = 42
"""Her palette number; nothing else in the maze has it."""


@dataclass(frozen=True)
class Cells:
    """What the search in `cells` found, as cells (row, column)."""

    standing: tuple[tuple[int, int], ...]
    """Those that Ms. Pac-man can stand on."""
    goals: tuple[tuple[int, int], ...]
    """Those that an agent is sent to: all but the passage in which every episode starts, junctions included."""


@cache
def known_cells() -> Cells:
    """The cells of the maze, as kept beside this file."""
    lines = json.loads((files("hindsight_rl.environments.ms_pacman") / "cells.json").read_text())["map"]
    cells = [(row, column, sign) for row, line in enumerate(lines) for column, sign in enumerate(line)]
    standing = tuple((row, column) for row, column, sign in cells if sign in ".s")
    return Cells(standing, tuple((row, column) for row, column, sign in cells if sign == "."))


class MsPacmanTask(HostedTask):
    """The paper's Ms. Pac-man: 28 states, four actions, and 155 cells to go to.

    She can stand on 160 cells of the overlay. The paper sends her to non-initial positions: the five cells of the
    passage in which she starts are no goals. These are the published 155. It also means that losing a life, which
    puts her back into that passage, achieves no goal.
    """

    name: str = "Ms. Pac-man"
    horizon: int = 28
    observation_shape: tuple[int, ...] = (84, 84, 4)
    observation_type: str = "uint8"
    goal_shape: tuple[int, ...] = (2,)
    action_count: int = len(ACTIONS)

    @property
    def goal_count(self) -> int:
        return len(known_cells().goals)

    def source(self, pictures: bool = False) -> SimulatorSource:
        return SimulatorSource(__name__, "MsPacman")

    def goal_probability(self, goal: Float[Array, "2"]) -> Float[Array, ""]:
        goals = jnp.asarray(known_cells().goals)
        return jnp.where(jnp.any(jnp.all(goals == goal[None], axis=1)), 1 / len(goals), 0.0)

    def reached(self, achieved: Float[Array, "2"], goal: Float[Array, "2"]) -> Bool[Array, ""]:
        return jnp.all(achieved == goal)

    def reward(self, achieved: Float[Array, "2"], goal: Float[Array, "2"], time: Int[Array, ""]) -> Float[Array, ""]:
        return remaining_time_reward(self.reached(achieved, goal), time, self.horizon)


def ms_pacman() -> MsPacmanTask:
    """The task, or a sentence on what must be installed first."""
    import_ale()
    return MsPacmanTask()


class MsPacman(Simulator):
    """One emulator. No action is sticky; an episode starts with a uniformly random action near the centre."""

    def __init__(self) -> None:
        self._actions = [getattr(import_ale().Action, name) for name in ACTIONS]
        self._emulator = open_emulator()
        hold(self._emulator, self._actions[0], FROZEN_TICKS + TICKS)
        self._start = self._emulator.cloneState()
        # Restoring a state does not restore the screen, and the first frame is combined with the one before it.
        self._start_screen = self._emulator.getScreen()
        self._palette, self._frames = Palette(), Frames()
        self._palette.learn(self._start_screen, self._emulator.getScreenRGB)
        self._read = dict(zip(READ_TICKS, self._frames.places[1:], strict=True))
        self._taken: list[Any] = []

    def reset(self, seed: int) -> Observed:
        self._emulator.restoreState(self._start)
        self._taken = []
        self._frames.advance(self._start_screen)
        return self._act(self._actions[_generator(seed, "start").integers(len(self._actions))])

    def sample_goal(self, seed: int) -> np.ndarray:
        goals = known_cells().goals
        return np.array(goals[_generator(seed, "goal").integers(len(goals))], np.float32)

    def step(self, action: np.ndarray) -> Observed:
        self._frames.advance()
        return self._act(self._actions[int(action)])

    def picture(self, goal: np.ndarray) -> np.ndarray:
        picture = self._emulator.getScreenRGB()
        top, bottom, left, right = cell_borders(int(goal[0]), int(goal[1]))
        picture[top:bottom, [left, right - 1]] = 255
        picture[[top, bottom - 1], left:right] = 255
        # A pixel of the console is about one and a half times as wide as it is high.
        return picture.repeat(2, axis=0).repeat(3, axis=1)

    def close(self) -> None:
        del self._emulator

    def _act(self, action: Any) -> Observed:
        self._taken.append(action)
        for tick in range(1, TICKS + 1):
            self._emulator.act(action)
            if tick in self._read:
                self._emulator.getScreen(self._read[tick])
            if tick == TICK_SEEN:
                memory = self._emulator.getRAM()
        observation = self._frames.observation(self._palette)
        if observation is None:
            self._learn_colours()
            observation = self._frames.observation(self._palette)
            assert observation is not None
        cell = np.array(cell_in_memory(memory), np.float32)
        return Observed(observation, cell, self._emulator.lives() < LIVES)

    def _learn_colours(self) -> None:
        """Play the episode so far again, for the colours of what has not been seen before: there are few of them."""
        self._emulator.restoreState(self._start)
        for action in self._taken:
            for _ in range(TICKS):
                self._emulator.act(action)
                self._palette.learn(self._emulator.getScreen(), self._emulator.getScreenRGB)


@cache
def cell_of(horizontal: int, vertical: int) -> tuple[int, int]:
    """The cell (row, column) that covers most of Ms. Pac-man when her position in the console's memory is this.

    She is drawn 8 pixels wide from `horizontal - 12` and 10 high from `vertical + 1`. The cell with the largest part of
    that box is the one with its middle, of the two middle pixels the left and upper one. In the tunnels the box leaves
    the screen on one side and enters it on the other.
    """
    row = np.searchsorted(ROW_EDGES, vertical + 5, side="right")
    column = np.searchsorted(COLUMN_EDGES, (horizontal - 9) % 160, side="right")
    return int(row), int(column)


def cell_in_memory(memory: UInt8[np.ndarray, " byte"]) -> tuple[int, int]:
    """Her cell, from the console's memory."""
    return cell_of(int(memory[HORIZONTAL_BYTE]), int(memory[VERTICAL_BYTE]))


def cell_borders(row: int, column: int) -> tuple[int, int, int, int]:
    """The first and last pixel row, the first and last pixel column of a cell; the last ones are excluded."""
    left = COLUMN_EDGES[column - 1] if column else 0
    return 12 * row, 12 * (row + 1), int(left), int(COLUMN_EDGES[column])


def open_emulator() -> Any:
    """An emulator with the game just switched on."""
    ale = import_ale()
    ale.ALEInterface.setLoggerMode(ale.LoggerMode.Error)
    emulator = ale.ALEInterface()
    emulator.setFloat("repeat_action_probability", 0.0)
    emulator.setInt("random_seed", 0)
    try:
        path = ale.roms.get_rom_path("ms_pacman")
        emulator.loadROM(path)
    except (OSError, RuntimeError) as error:
        raise HindsightError(
            f"The game file of Ms. Pac-man cannot be loaded ({error}): reinstall ale-py, which brings it, "
            "and check ALE_ROMS_DIR if that is set."
        ) from None
    return emulator


def hold(emulator: Any, action: Any, ticks: int) -> None:
    """Hold an action for a number of ticks."""
    for _ in range(ticks):
        emulator.act(action)


def _generator(seed: int, use: str) -> np.random.Generator:
    """Random numbers for one use of a seed, so that the goal tells nothing about the start."""
    return np.random.default_rng([("start", "goal").index(use), seed])
