"""Single greedy episodes, step by step, for people to look at."""

from typing import NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.environments.interface import Environment, State
from hindsight_rl.environments.simulators import Simulator


class Acts(Protocol):
    """Anything with a greedy action for one observation and goal."""

    def act(self, observation: Array, goal: Array, time: Array) -> Array:
        """The greedy action after so many actions."""
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
        action = _act(policy, environment.observe(state), goal, jnp.int32(time - 1))
        state = _step(environment, state, action, jax.random.fold_in(step_key, time))
        states.append(state)
        achieved = environment.achieved_goal(state)
        total += float(environment.reward(achieved, goal, jnp.int32(time)))
        reached = bool(environment.reached(achieved, goal))
        if reached:
            break
    return Trace(states, goal, reached, total)


class FilmedEpisode(NamedTuple):
    """One greedy episode of a hosted environment."""

    pictures: list[np.ndarray]
    reached: bool
    total_return: float


def film_episode(task: HostedTask, simulator: Simulator, policy: Acts, seed: int) -> FilmedEpisode:
    """Let the policy act greedily in a simulator that can draw, until it reaches its goal or the episode is over."""
    seen = simulator.reset(seed)
    goal = jnp.asarray(simulator.sample_goal(seed))
    pictures, total, reached = [simulator.picture(np.asarray(goal))], 0.0, False
    for time in range(1, task.horizon):
        action = _act(policy, jnp.asarray(seen.observation), goal, jnp.int32(time - 1))
        seen = simulator.step(np.asarray(action))
        pictures.append(simulator.picture(np.asarray(goal)))
        achieved = jnp.asarray(seen.achieved_goal)
        total += float(task.reward(achieved, goal, jnp.int32(time)))
        reached = bool(task.reached(achieved, goal))
        if reached or seen.over:
            break
    return FilmedEpisode(pictures, reached, total)


# Compiled once for all policies and environments of a kind, which are inputs.
@eqx.filter_jit
def _act(policy: Acts, observation: Array, goal: Array, time: Array) -> Array:
    return policy.act(observation, goal, time)


@eqx.filter_jit
def _step(environment: Environment, state: State, action: Array, key: Key[Array, ""]) -> State:
    return environment.step(state, action, key)
