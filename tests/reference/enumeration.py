"""Exact expectations, on problems so small that every trajectory can be written down.

A policy is a table of log-probabilities [goal, state, action]; time counts actions from 0.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from reference.compilation import quick_jit

from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.goals import GoalSet
from hindsight_rl.environments.interface import Environment

LogPolicy = Callable[[Any], jax.Array]
"""From parameters to log-probabilities [goal, state, action]."""

Table = TypeVar("Table", np.ndarray, jax.Array)


class Problem(NamedTuple):
    """A finite problem in tables."""

    start: np.ndarray
    """[state] probability of the first state."""
    transitions: np.ndarray
    """[time, state, action, next state] probability."""
    rewards: np.ndarray
    """[goal, time, next state] reward of arriving there with the action of that time."""
    ends: np.ndarray
    """[goal, state] whether arriving there ends the episode of that goal: no later reward counts."""
    goal_probabilities: np.ndarray
    """[goal]"""


class Trajectories(NamedTuple):
    """Every trajectory that can happen."""

    states: np.ndarray
    """[trajectory, time + 1]"""
    actions: np.ndarray
    """[trajectory, time]"""
    chances: np.ndarray
    """[trajectory] what the environment contributes to the probability; the policy contributes the rest."""


def random_problem(generator: np.random.Generator, goals: int, states: int, actions: int, times: int) -> Problem:
    """Transitions that are random and differ from time to time, any goal distribution, rewards of either sign."""
    return Problem(
        start=generator.dirichlet(np.ones(states)),
        transitions=generator.dirichlet(np.ones(states), size=(times, states, actions)),
        rewards=generator.normal(size=(goals, times, states)),
        ends=np.zeros((goals, states), bool),
        goal_probabilities=generator.dirichlet(np.ones(goals)),
    )


def deterministic_problem(environment: Environment, states: np.ndarray) -> Problem:
    """The tables of a deterministic environment whose states, observations and goals are all the rows of `states`."""
    times, actions, key = environment.horizon - 1, environment.action_count, jax.random.key(0)
    rows = jnp.asarray(states)
    step_all = jax.vmap(jax.vmap(environment.step, in_axes=(None, 0, None)), in_axes=(0, None, None))
    following = np.asarray(quick_jit(step_all)(rows, jnp.arange(actions), key))
    arrivals = np.all(following[:, :, None] == states[None, None], axis=3)
    reward_all = jax.vmap(
        lambda goal: jax.vmap(lambda time: jax.vmap(environment.reward, (0, None, None))(rows, goal, time))(
            jnp.arange(1, times + 1)
        )
    )
    return Problem(
        start=np.all(states == np.asarray(environment.reset(key))[None], axis=1).astype(float),
        transitions=np.repeat(arrivals[None].astype(float), times, axis=0),
        rewards=np.asarray(quick_jit(reward_all)(rows), dtype=float),
        ends=np.asarray(jax.vmap(lambda goal: jax.vmap(environment.reached, (0, None))(rows, goal))(rows)),
        goal_probabilities=np.array([float(environment.goal_probability(goal)) for goal in rows]),
    )


def expected_return(problem: Problem, log_policy: jax.Array) -> jax.Array:
    """The expected return, by pushing each goal's distribution over states forward in time."""
    distribution = jnp.repeat(jnp.asarray(problem.start)[None], len(problem.goal_probabilities), axis=0)
    returns = jnp.zeros(len(problem.goal_probabilities))
    for time, transition in enumerate(problem.transitions):
        arriving = jnp.einsum("gs,gsa,san->gn", distribution, jnp.exp(log_policy), transition)
        returns += jnp.sum(arriving * problem.rewards[:, time], axis=1)
        distribution = jnp.where(problem.ends, 0, arriving)
    return jnp.sum(problem.goal_probabilities * returns)


def all_trajectories(problem: Problem) -> Trajectories:
    """Every trajectory with a probability above zero under a policy that may do anything."""
    found = [way for state in np.flatnonzero(problem.start).tolist() for way in _continue(problem, [state], [], 1.0)]
    states, actions, chances = zip(*found, strict=True)
    return Trajectories(np.array(states), np.array(actions), np.array(chances) * problem.start[np.array(states)[:, 0]])


def _continue(
    problem: Problem, states: list[int], actions: list[int], chance: float
) -> Iterator[tuple[list[int], list[int], float]]:
    if len(actions) == len(problem.transitions):
        yield states, actions, chance
        return
    for action, following in np.argwhere(problem.transitions[len(actions), states[-1]] > 0):
        step = problem.transitions[len(actions), states[-1], action, following]
        yield from _continue(problem, [*states, following], [*actions, action], chance * step)


def action_log_probabilities(trajectories: Trajectories, log_policy: Table) -> Table:
    """[goal, trajectory, time] of the actions taken."""
    return log_policy[:, trajectories.states[:, :-1], trajectories.actions]


def trajectory_probabilities(trajectories: Trajectories, log_policy: np.ndarray) -> np.ndarray:
    """[goal, trajectory] p(trajectory | goal)."""
    return trajectories.chances[None] * np.exp(action_log_probabilities(trajectories, log_policy).sum(axis=2))


def rewards_along(problem: Problem, trajectories: Trajectories) -> np.ndarray:
    """[goal, trajectory, time] rewards, none after the goal's own end."""
    shape = (len(problem.goal_probabilities), *trajectories.actions.shape)
    rewards = np.zeros(shape)
    for goal, number in np.ndindex(shape[:2]):
        for time in range(shape[2]):
            arrival = trajectories.states[number, time + 1]
            rewards[goal, number, time] = problem.rewards[goal, time, arrival]
            if problem.ends[goal, arrival]:
                break
    return rewards


def expected_estimate(
    log_policy: LogPolicy, parameters: Any, trajectories: Trajectories, weights: np.ndarray, coefficients: np.ndarray
) -> Any:
    """sum over goals, trajectories and times of weight[trajectory] * c[goal, trajectory, time] * grad log pi."""
    constants = weights[None, :, None] * coefficients

    def surrogate(parameters: Any) -> jax.Array:
        return jnp.sum(constants * action_log_probabilities(trajectories, log_policy(parameters)))

    return jax.grad(surrogate)(parameters)


def episodes_of(
    trajectories: Trajectories, states: np.ndarray, pursued: np.ndarray, lengths: np.ndarray, log_policy: np.ndarray
) -> Episodes:
    """The trajectories as the library's episodes, each with the number of the goal it pursued."""
    log_probabilities = action_log_probabilities(trajectories, log_policy)
    return Episodes(
        observations=jnp.asarray(states[trajectories.states]),
        achieved_goals=jnp.asarray(states[trajectories.states]),
        actions=jnp.asarray(trajectories.actions),
        pursued_goals=jnp.asarray(states[pursued]),
        lengths=jnp.asarray(lengths),
        log_probabilities=jnp.asarray(log_probabilities[pursued, np.arange(len(pursued))]),
    )


def all_goals(problem: Problem, states: np.ndarray) -> GoalSet:
    """Every goal of a problem whose goals are its states."""
    return GoalSet(jnp.asarray(states), jnp.asarray(problem.goal_probabilities), jnp.ones(len(states), bool))


def lengths_until_end(problem: Problem, trajectories: Trajectories, pursued: np.ndarray) -> np.ndarray:
    """How many actions each trajectory has when reaching its pursued goal ends it."""
    times = trajectories.actions.shape[1]
    lengths = []
    for states, goal in zip(trajectories.states, pursued, strict=True):
        arrivals = np.flatnonzero(problem.ends[goal, states[1:]])
        lengths.append(arrivals[0] + 1 if len(arrivals) else times)
    return np.array(lengths)


def largest_difference(first: Any, second: Any) -> float:
    """The largest difference between two gradients, over all parameters."""
    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return max(float(np.max(np.abs(np.asarray(a) - np.asarray(b)))) for a, b in pairs)


def largest_component(gradient: Any) -> float:
    """The largest component of a gradient."""
    return max(float(np.max(np.abs(leaf))) for leaf in jax.tree.leaves(gradient))
