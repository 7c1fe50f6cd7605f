"""What the pool asks of those who play: the same of processes that share memory and of actors on other machines.

Imports nothing heavy: it is all that a new worker process needs.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.environments.simulators import Simulator, SimulatorSource
from hindsight_rl.rollout.slots import Layout, Slots

BEGIN, STEP = range(2)
"""What some slots are asked to do."""
GOOD = b""


class Order(NamedTuple):
    """What a worker is told: to begin an episode, or to take an action, in each of some slots."""

    kind: int
    slots: list[int]

    def pack(self) -> bytes:
        """The order as bytes."""
        return np.array([self.kind, *self.slots], np.int32).tobytes()

    @classmethod
    def unpack(cls, message: bytes) -> "Order":
        """The inverse of `pack`."""
        kind, *slots = np.frombuffer(message, np.int32).tolist()
        return cls(kind, slots)


def carry_out(source: SimulatorSource, simulators: dict[int, Simulator], shared: Slots, order: Order) -> bytes:
    """Carry out an order; an error becomes a sentence."""
    try:
        for slot in order.slots:
            if slot not in simulators:
                simulators[slot] = source.build()
            _play_slot(simulators[slot], shared, slot, order.kind)
    except HindsightError as error:
        return str(error).encode()
    except Exception as error:
        return f"The environment raised {gist(error)}.".encode()
    return GOOD


def _play_slot(simulator: Simulator, slots: Slots, slot: int, kind: int) -> None:
    """Do what a slot is asked to do, and show what came of it."""
    if kind == BEGIN:
        episode_seed, goal_seed = map(int, slots.seeds[slot])
        seen = simulator.reset(episode_seed)
        slots.goals[slot] = simulator.sample_goal(goal_seed)
    else:
        seen = simulator.step(slots.actions[slot])
    slots.observations[slot] = seen.observation
    slots.achieved_goals[slot] = seen.achieved_goal
    slots.over[slot] = seen.over


class Lost(Exception):
    """A worker that will not answer; the message says why."""


@dataclass(eq=False)
class Worker(ABC):
    """One that plays in some slots."""

    slots: list[int]
    orders: deque[Order] = field(default_factory=deque, kw_only=True)
    """Those that it has not answered yet, the oldest first."""
    busy_since: float = field(default=0.0, kw_only=True)
    """When it was given the oldest of them, or answered the one before that."""
    has_answered: bool = field(default=False, kw_only=True)

    @abstractmethod
    def send(self, order: Order) -> None:
        """Give it an order. That it is lost is noticed when its answer is awaited."""

    @abstractmethod
    def receive(self, seconds: float) -> bytes | None:
        """Its answer to the oldest order: nothing when it is good, or a sentence; None when there is none by then.

        Raises `Lost`. What came of a good order is then in the memory of the crew.
        """

    @abstractmethod
    def kill(self) -> None:
        """End it at once, whatever it does."""


class Crew(ABC):
    """Starts workers, and holds what they show."""

    slots: Slots

    @abstractmethod
    def start(self, slots: list[int]) -> Worker:
        """A new worker for some slots."""

    @abstractmethod
    def heard(self, workers: Sequence[Worker], seconds: float) -> list[Worker]:
        """Those of some busy workers that have answered or are lost, as soon as there is one; none by then."""

    @abstractmethod
    def dismiss(self, workers: Sequence[Worker]) -> None:
        """Let workers go, and make sure that they have gone."""


def count_of(workers: "int | Hands | None") -> int | None:
    """How many workers are meant; None where that is left to the machine."""
    return workers if isinstance(workers, int | None) else workers.count


class Hands(Protocol):
    """How many workers there are, and of which kind."""

    @property
    def count(self) -> int:
        """How many workers."""

    def crew(self, source: SimulatorSource, layout: Layout, slots: int) -> Crew:
        """Those who will play in so many slots."""
