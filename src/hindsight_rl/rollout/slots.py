"""The memory that a learner shares with its worker processes; imports nothing heavy."""

from typing import Any, NamedTuple

import numpy as np


class Layout(NamedTuple):
    """Shapes and types of what an episode shows and takes."""

    observation_shape: tuple[int, ...]
    observation_type: str
    goal_shape: tuple[int, ...]
    action_shape: tuple[int, ...]
    """Empty for an action that is a whole number."""


class Slots(NamedTuple):
    """The shared memory, as arrays with a row for each slot: a place in which one episode is played."""

    seeds: np.ndarray
    """Of the episode, and of its goal."""
    actions: np.ndarray
    observations: np.ndarray
    achieved_goals: np.ndarray
    goals: np.ndarray
    over: np.ndarray

    @classmethod
    def shapes(cls, layout: Layout, slots: int) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Shape and type of each array."""
        action_type = np.float32 if layout.action_shape else np.int64
        return [
            ((slots, 2), np.dtype(np.uint64)),
            ((slots, *layout.action_shape), np.dtype(action_type)),
            ((slots, *layout.observation_shape), np.dtype(layout.observation_type)),
            ((slots, *layout.goal_shape), np.dtype(np.float32)),
            ((slots, *layout.goal_shape), np.dtype(np.float32)),
            ((slots,), np.dtype(np.bool_)),
        ]

    @classmethod
    def size(cls, layout: Layout, slots: int) -> int:
        """Bytes of shared memory."""
        return sum(_aligned(int(np.prod(shape)) * kind.itemsize) for shape, kind in cls.shapes(layout, slots))

    @classmethod
    def within(cls, buffer: Any, layout: Layout, slots: int) -> "Slots":
        """The arrays in a piece of memory."""
        arrays, offset = [], 0
        for shape, kind in cls.shapes(layout, slots):
            count = int(np.prod(shape))
            arrays.append(np.frombuffer(buffer, kind, count, offset).reshape(shape))
            offset += _aligned(count * kind.itemsize)
        return cls(*arrays)


def _aligned(size: int) -> int:
    return -(-size // 64) * 64
