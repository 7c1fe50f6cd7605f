"""Single greedy episodes, step by step, for people to look at."""

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from hindsight.environments.interface import Environment, State


class Acts(Protocol):
    """Anything with a greedy action for one observation and goal."""

    def act(self, observation: Array, goal: Array) -> Array:
        """The greedy action."""
        ...


class Trace(NamedTuple):
    """One greedy episode."""

    states: list[State]
    goal: Array
    reached: bool
    total_return: float


def trace(environment: Environment, policy: Acts, key: Key[Array, ""]) -> Trace:
    """Let the policy act greedily until it reaches a random goal, or to the horizon."""
    reset_key, goal_key, step_key = jax.random.split(key, 3)
    state, goal = environment.reset(reset_key), environment.sample_goal(goal_key)
    act = jax.jit(lambda observation, goal: policy.act(observation, goal))
    step = jax.jit(lambda state, action, key: environment.step(state, action, key))
    states, total, reached = [state], 0.0, False
    for time in range(1, environment.horizon):
        action = act(environment.observe(state), goal)
        state = step(state, action, jax.random.fold_in(step_key, time))
        states.append(state)
        achieved = environment.achieved_goal(state)
        total += float(environment.reward(achieved, goal, jnp.int32(time)))
        reached = bool(environment.reached(achieved, goal))
        if reached:
            break
    return Trace(states, goal, reached, total)
