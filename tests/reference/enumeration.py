"""Exact expectations, on problems so small that every trajectory can be written down.

A policy is a table of log-probabilities [goal, state, action]; time counts actions from 0.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hindsight.core.episodes import Episodes
from hindsight.core.goals import GoalSet
from hindsight.environments.interface import Environment

LogPolicy = Callable[[Any], jax.Array]
"""From parameters to log-probabilities [goal, state, action]."""


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
    position = {tuple(state): number for number, state in enumerate(states)}
    transitions = np.zeros((times, len(states), actions, len(states)))
    for number, state in enumerate(states):
        for action in range(actions):
            following = environment.step(jnp.asarray(state), jnp.asarray(action), key)
            transitions[:, number, action, position[tuple(np.asarray(following))]] = 1
    start = np.zeros(len(states))
    start[position[tuple(np.asarray(environment.reset(key)))]] = 1
    rewards = [[[float(environment.reward(s, g, time + 1)) for s in states] for time in range(times)] for g in states]
    return Problem(
        start=start,
        transitions=transitions,
        rewards=np.array(rewards),
        ends=np.array([[bool(environment.reached(state, goal)) for state in states] for goal in states]),
        goal_probabilities=np.array([float(environment.goal_probability(goal)) for goal in states]),
    )


def expected_return(problem: Problem, log_policy: jax.Array) -> jax.Array:
    """The expected return, by pushing the distribution over states forward in time, goal by goal."""
    total = jnp.zeros(())
    for goal, goal_probability in enumerate(problem.goal_probabilities):
        distribution = jnp.asarray(problem.start)
        for time, transition in enumerate(problem.transitions):
            choices = distribution[:, None] * jnp.exp(log_policy[goal])
            arriving = jnp.einsum("sa,san->n", choices, transition)
            total += goal_probability * jnp.sum(arriving * problem.rewards[goal, time])
            distribution = jnp.where(problem.ends[goal], 0, arriving)
    return total


def all_trajectories(problem: Problem) -> Trajectories:
    """Every trajectory with a probability above zero under a policy that may do anything."""
    found = [way for state in np.flatnonzero(problem.start) for way in _continue(problem, [state], [], 1.0)]
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


def action_log_probabilities(trajectories: Trajectories, log_policy: jax.Array) -> jax.Array:
    """[goal, trajectory, time] of the actions taken."""
    return log_policy[:, trajectories.states[:, :-1], trajectories.actions]


def trajectory_probabilities(trajectories: Trajectories, log_policy: jax.Array) -> jax.Array:
    """[goal, trajectory] p(trajectory | goal)."""
    return trajectories.chances[None] * jnp.exp(action_log_probabilities(trajectories, log_policy).sum(axis=2))


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
    log_policy: LogPolicy, parameters: Any, trajectories: Trajectories, weights: jax.Array, coefficients: jax.Array
) -> Any:
    """sum over goals, trajectories and times of weight[trajectory] * c[goal, trajectory, time] * grad log pi."""
    constants = jax.lax.stop_gradient(weights[None, :, None] * coefficients)
    return jax.grad(lambda p: jnp.sum(constants * action_log_probabilities(trajectories, log_policy(p))))(parameters)


def episodes_of(
    trajectories: Trajectories, states: np.ndarray, pursued: np.ndarray, lengths: np.ndarray, log_policy: jax.Array
) -> Episodes:
    """The trajectories as the library's episodes, each with the number of the goal it pursued."""
    log_probabilities = action_log_probabilities(trajectories, log_policy)
    return Episodes(
        observations=jnp.asarray(states)[trajectories.states],
        achieved_goals=jnp.asarray(states)[trajectories.states],
        actions=jnp.asarray(trajectories.actions),
        pursued_goals=jnp.asarray(states)[pursued],
        lengths=jnp.asarray(lengths),
        log_probabilities=log_probabilities[pursued, np.arange(len(pursued))],
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
    differences = jax.tree.map(lambda a, b: jnp.max(jnp.abs(a - b)), first, second)
    return float(jnp.max(jnp.stack(jax.tree.leaves(differences))))


def largest_component(gradient: Any) -> float:
    """The largest component of a gradient."""
    return largest_difference(gradient, jax.tree.map(jnp.zeros_like, gradient))
