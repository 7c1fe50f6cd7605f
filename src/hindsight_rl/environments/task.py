"""What a learner must know of a hosted environment: plain data and pure functions.

A compiled environment is one object; a hosted one is two. The task describes it; a `Simulator` holds an emulator or a
physics engine and plays one episode at a time.
"""

from abc import ABC, abstractmethod

from jaxtyping import Array, Bool, Float, Int

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.simulators import SimulatorSource

Goal = Float[Array, "*goal"]


class HostedTask(ABC):
    """A goal task that simulators play; `source` can be sent to worker processes, which make the simulators.

    `reached`, `reward` and `goal_probability` are written for one state and one goal; they can be traced and mapped
    with `jax.vmap`. As in a compiled environment, an episode has at most `horizon` states and one action fewer, and
    time is the number of actions taken so far.
    """

    name: str
    """How people call it."""
    horizon: int
    """The largest number of states in an episode (the paper's T)."""
    observation_shape: tuple[int, ...]
    observation_type: str
    """`uint8` for pictures, otherwise `float32`."""
    goal_shape: tuple[int, ...]
    action_count: int | None
    """How many actions there are; None if actions are vectors."""
    action_size: int | None
    """How many numbers an action has; None if actions are counted."""
    goal_count: int | None
    """How many goals have a probability above zero; None if goals are not counted but form a continuum."""

    @property
    def action_bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """The lowest and the highest value of each number of an action; None for counted actions, or no bounds."""
        return None

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences that a user should see before learning starts."""
        return ()

    @property
    def state_limit(self) -> None:
        """Compiled environments may bound the number of distinct states; here there is no bound worth using."""
        return None

    @abstractmethod
    def source(self, pictures: bool = False) -> SimulatorSource:
        """How to make a simulator of this task, here or in another process, one that can draw if asked for."""

    @abstractmethod
    def goal_probability(self, goal: Goal) -> Float[Array, ""]:
        """The probability p(g) with which a simulator draws this goal; 1 where goals form a continuum.

        In a continuum no single goal has a probability. The estimators use p(g) only to weigh goals against one
        another, so the constant says that all goals weigh the same.
        """

    @abstractmethod
    def reached(self, achieved: Goal, goal: Goal) -> Bool[Array, ""]:
        """Whether a state that achieves `achieved` reaches `goal`, which ends the episode of that goal."""

    @abstractmethod
    def reward(self, achieved: Goal, goal: Goal, time: Int[Array, ""]) -> Float[Array, ""]:
        """The reward, under any goal, of arriving after `time` actions in a state that achieves `achieved`."""

    def take_fault(self) -> HindsightError | None:
        """What went wrong in `reached` or `reward` since this was last asked.

        A compiled program cannot raise a sentence, so a task whose rewards may fail remembers the failure.
        """
        return None

    def raise_fault(self) -> None:
        """Raise what went wrong there."""
        fault = self.take_fault()
        if fault is not None:
            raise fault
