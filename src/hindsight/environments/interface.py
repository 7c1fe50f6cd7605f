"""What an environment must say of itself, as pure functions of a single episode."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

State = Any
"""Whatever an environment wants to carry from one time step to the next: any pytree of arrays."""

Goal = Float[Array, "*goal"]


class Environment(eqx.Module):
    """A goal environment whose every method is pure and compiles; the rollout maps it over episodes.

    An episode has at most `horizon` states (the paper's T) and `horizon - 1` actions. Time is the number of actions
    taken so far: 0 at the first state, where nothing is rewarded yet.
    """

    horizon: eqx.AbstractVar[int]
    action_count: eqx.AbstractVar[int]

    @property
    @abstractmethod
    def goal_count(self) -> int:
        """How many goals have a probability above zero."""

    @property
    @abstractmethod
    def state_limit(self) -> int | None:
        """An upper bound on the number of distinct states (and of distinct achieved goals), or None if there is none.

        Only speed depends on it: the learner evaluates each distinct state once.
        """

    @abstractmethod
    def reset(self, key: Key[Array, ""]) -> State:
        """Draw a first state."""

    @abstractmethod
    def step(self, state: State, action: Int[Array, ""], key: Key[Array, ""]) -> State:
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

    @abstractmethod
    def goal_probability(self, goal: Goal) -> Float[Array, ""]:
        """The probability p(g) with which `sample_goal` draws this goal."""

    @abstractmethod
    def reached(self, achieved: Goal, goal: Goal) -> Bool[Array, ""]:
        """Whether a state that achieves `achieved` reaches `goal`, which ends the episode of that goal."""

    @abstractmethod
    def reward(self, achieved: Goal, goal: Goal, time: Int[Array, ""]) -> Float[Array, ""]:
        """The reward, under any goal, of arriving after `time` actions in a state that achieves `achieved`."""

    @abstractmethod
    def render(self, state: State, goal: Goal) -> str:
        """A picture of the state in text, with the goal marked."""


def remaining_time_reward(reached: Bool[Array, ""], time: Int[Array, ""], horizon: int) -> Float[Array, ""]:
    """The paper's reward: the remaining number of time steps plus one for reaching the goal, otherwise nothing."""
    return jnp.where(reached, horizon - time, 0).astype(jnp.float32)
