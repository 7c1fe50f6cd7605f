"""Single greedy episodes, step by step, for people to look at."""

from typing import NamedTuple, Protocol

import equinox as eqx
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
    states, total, reached = [state], 0.0, False
    for time in range(1, environment.horizon):
        action = _act(policy, environment.observe(state), goal)
        state = _step(environment, state, action, jax.random.fold_in(step_key, time))
        states.append(state)
        achieved = environment.achieved_goal(state)
        total += float(environment.reward(achieved, goal, jnp.int32(time)))
        reached = bool(environment.reached(achieved, goal))
        if reached:
            break
    return Trace(states, goal, reached, total)


# Compiled once for all policies and environments of a kind, which are inputs.
@eqx.filter_jit
def _act(policy: Acts, observation: Array, goal: Array) -> Array:
    return policy.act(observation, goal)


@eqx.filter_jit
def _step(environment: Environment, state: State, action: Array, key: Key[Array, ""]) -> State:
    return environment.step(state, action, key)
