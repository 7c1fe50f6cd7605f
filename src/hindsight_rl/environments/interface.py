"""What an environment must say of itself, as pure functions of a single episode."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

State = Any
"""Whatever an environment wants to carry from one time step to the next: any pytree of arrays."""

Goal = Float[Array, "*goal"]
Action = Int[Array, ""] | Float[Array, " size"]
"""One of a few, or a vector."""
Bounds = tuple[tuple[float, ...], tuple[float, ...]]


class Task(eqx.Module):
    """What a learner must know of an environment, whoever plays its episodes. Every method is pure and compiles.

    An episode has at most `horizon` states (the paper's T) and `horizon - 1` actions. Time is the number of actions
    taken so far: 0 at the first state, where nothing is rewarded yet.
    """

    horizon: eqx.AbstractVar[int]
    """T, the largest number of states in an episode."""
    action_count: eqx.AbstractVar[int]
    """How many actions there are; for continuous actions, how many numbers one of them is made of."""

    @property
    @abstractmethod
    def observation_shape(self) -> tuple[int, ...]:
        """The shape of what the policy is shown."""

    @property
    @abstractmethod
    def observation_type(self) -> str:
        """The type of the numbers in it: `uint8` for pictures, otherwise `float32`."""

    @property
    @abstractmethod
    def goal_shape(self) -> tuple[int, ...]:
        """The shape of a goal."""

    @property
    @abstractmethod
    def goal_count(self) -> int:
        """How many goals have a probability above zero; 1 where `goal_probability` is a density relative to uniform."""

    @property
    @abstractmethod
    def state_limit(self) -> int | None:
        """An upper bound on the number of distinct states (and of distinct achieved goals), or None if there is none.

        Only speed depends on it: the learner evaluates each distinct state once.
        """

    @property
    def continuous(self) -> bool:
        """Whether actions are vectors rather than one of a few."""
        return False

    @property
    def action_bounds(self) -> Bounds | None:
        """The lowest and the highest value of each number of a continuous action, where there are bounds."""
        return None

    @property
    def shows_pictures(self) -> bool:
        """Whether observations are pictures: height, width and depth in bytes. All others are laid out flat."""
        return len(self.observation_shape) == 3 and self.observation_type == "uint8"

    @property
    def goal_type(self) -> str:
        """The type of the numbers in a goal."""
        return "float32"

    @property
    def example_goal(self) -> np.ndarray:
        """Some goal, to see what reaching one is worth; override it where zeros are none."""
        return np.zeros(self.goal_shape, self.goal_type)

    @abstractmethod
    def goal_probability(self, goal: Goal) -> Float[Array, ""]:
        """The probability p(g) with which this goal is drawn; 1 for each where goals form a continuum.

        In a continuum no single goal has a probability. The estimators use p(g) only to weigh goals against one
        another, so the constant says that all goals weigh the same.
        """

    @abstractmethod
    def reached(self, achieved: Goal, goal: Goal) -> Bool[Array, ""]:
        """Whether a state that achieves `achieved` reaches `goal`, which ends the episode of that goal."""

    @abstractmethod
    def reward(self, achieved: Goal, goal: Goal, time: Int[Array, ""]) -> Float[Array, ""]:
        """The reward, under any goal, of arriving after `time` actions in a state that achieves `achieved`."""


class Environment(Task):
    """A goal environment whose every method is pure and compiles; the rollout maps it over episodes."""

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The shape of what the policy is shown."""
        return self._shape(self.observe).shape

    @property
    def observation_type(self) -> str:
        """The type of the numbers in it."""
        return str(self._shape(self.observe).dtype)

    @property
    def goal_shape(self) -> tuple[int, ...]:
        """The shape of a goal."""
        return self._shape(self.achieved_goal).shape

    @property
    def goal_type(self) -> str:
        """The type of the numbers in it."""
        return str(self._shape(self.achieved_goal).dtype)

    def _shape(self, view: Callable[[State], Array]) -> jax.ShapeDtypeStruct:
        return jax.eval_shape(lambda key: view(self.reset(key)), jax.random.key(0))

    @abstractmethod
    def reset(self, key: Key[Array, ""]) -> State:
        """Draw a first state."""

    @abstractmethod
    def step(self, state: State, action: Action, key: Key[Array, ""]) -> State:
        """Draw the state that follows an action."""

    @abstractmethod
    def observe(self, state: State) -> Float[Array, "*features"]:
        """What the policy is shown of a state."""

    @abstractmethod
    def achieved_goal(self, state: State) -> Goal:
        """The goal that a state achieves."""

    @abstractmethod
    def sample_goal(self, key: Key[Array, ""]) -> Goal:
        """Draw a goal to pursue."""

    def render(self, state: State, goal: Goal) -> str:
        """A picture of the state in text, with the goal marked; unless one is drawn, what is achieved and wanted."""
        return f"achieved {self.achieved_goal(state)}, goal {goal}"


def remaining_time_reward(reached: Bool[Array, ""], time: Int[Array, ""], horizon: int) -> Float[Array, ""]:
    """The paper's reward: the remaining number of time steps plus one for reaching the goal, otherwise nothing."""
    return jnp.where(reached, horizon - time, 0).astype(jnp.float32)
