"""What a policy-gradient agent computes, as plain loops over (goal, episode, time), one network row at a time."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from reference import loops, plain_networks
from reference.compilation import quick_jit

from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.grid_world import GridWorld
from hindsight_rl.networks.policy import Policy
from hindsight_rl.networks.value import Value


class PlainEpisodes(NamedTuple):
    """Episodes as NumPy arrays."""

    observations: np.ndarray
    achieved_goals: np.ndarray
    actions: np.ndarray
    pursued_goals: np.ndarray
    lengths: np.ndarray
    log_probabilities: np.ndarray


def plain(episodes: Episodes) -> PlainEpisodes:
    return PlainEpisodes(*(np.asarray(part) for part in episodes))


def is_goal(environment: BitFlipping | GridWorld, goal: np.ndarray) -> bool:
    """Whether the environment may ask for this goal."""
    if isinstance(environment, BitFlipping):
        return True
    return tuple(goal) in {tuple(cell) for cell in environment.goals}


def reached_goals(environment: BitFlipping | GridWorld, episodes: PlainEpisodes) -> np.ndarray:
    """The goals that some episode reached before it ended, in lexical order."""
    found = set()
    for episode, length in enumerate(episodes.lengths):
        for time in range(length):
            goal = episodes.achieved_goals[episode, time + 1]
            if is_goal(environment, goal):
                found.add(tuple(goal))
    return np.array(sorted(found)).reshape(len(found), episodes.achieved_goals.shape[2])


class Rewards(NamedTuple):
    """Of every (goal, episode, time)."""

    rewards: np.ndarray
    decides: np.ndarray
    """Whether an action was taken before its episode had reached that goal."""


def rewards_of_goals(horizon: int, episodes: PlainEpisodes, goals: np.ndarray) -> Rewards:
    """The remaining time for the first arrival at a goal, then nothing."""
    shape = (len(goals), *episodes.actions.shape)
    rewards, decides = np.zeros(shape), np.zeros(shape, bool)
    for goal, episode in np.ndindex(shape[:2]):
        for time in range(episodes.lengths[episode]):
            decides[goal, episode, time] = True
            if np.array_equal(episodes.achieved_goals[episode, time + 1], goals[goal]):
                rewards[goal, episode, time] = horizon - (time + 1)
                break
    return Rewards(rewards, decides)


def action_probabilities(policy: Policy, episodes: PlainEpisodes, goals: np.ndarray) -> np.ndarray:
    """[goal, episode, time] p(a | s, g) of the actions in the episodes."""
    probabilities = np.zeros((len(goals), *episodes.actions.shape))
    for goal, episode, time in np.ndindex(probabilities.shape):
        row = plain_networks.action_probabilities(policy, episodes.observations[episode, time], goals[goal])
        probabilities[goal, episode, time] = row[episodes.actions[episode, time]]
    return probabilities


def values_under_goals(baseline: Value, episodes: PlainEpisodes, goals: np.ndarray) -> np.ndarray:
    """[goal, episode, time] b_t(s, g)."""
    values = np.zeros((len(goals), *episodes.actions.shape))
    for goal, episode, time in np.ndindex(values.shape):
        observation = episodes.observations[episode, time]
        values[goal, episode, time] = plain_networks.value(baseline, observation, goals[goal], time)
    return values


def hindsight_coefficients(
    environment: BitFlipping | GridWorld,
    policy: Policy,
    baseline: Value | None,
    episodes: PlainEpisodes,
    goals: np.ndarray,
    ended: str,
    floor: float = 0.0,
) -> np.ndarray:
    """Theorem 5.2, less Theorem C.1 with a baseline, with a batch mean on top and p(g) relative to uniform (so 1)."""
    rewards, decides = rewards_of_goals(environment.horizon, episodes, goals)
    behaviour = np.exp(episodes.log_probabilities)
    ratios = loops.likelihood_ratios(action_probabilities(policy, episodes, goals), behaviour, episodes.lengths)
    scale = np.full(len(goals), 1 / len(episodes.lengths))
    coefficients = loops.weighted_per_decision(ratios, rewards, scale, episodes.lengths, ended, floor)
    if baseline is not None:
        values = np.where(decides, values_under_goals(baseline, episodes, goals), 0)
        coefficients -= loops.weighted_baseline(ratios, values, scale, episodes.lengths, ended, floor)
    return coefficients


def coefficients_without_ratios(
    environment: BitFlipping | GridWorld, episodes: PlainEpisodes, goals: np.ndarray
) -> np.ndarray:
    """Rewards to go under every goal, as a batch mean."""
    rewards, _ = rewards_of_goals(environment.horizon, episodes, goals)
    return np.array([loops.rewards_to_go(own) for own in rewards]) / len(episodes.lengths)


def pursued_coefficients(
    environment: BitFlipping | GridWorld, baseline: Value | None, episodes: PlainEpisodes
) -> np.ndarray:
    """Theorems 3.1 and 3.2: [goal, episode, time] with goal i for episode i, and nothing elsewhere."""
    batch_size, times = episodes.actions.shape
    rewards, decides = rewards_of_goals(environment.horizon, episodes, episodes.pursued_goals)
    coefficients = np.zeros((batch_size, batch_size, times))
    for episode in range(batch_size):
        for time in np.flatnonzero(decides[episode, episode]):
            coefficients[episode, episode, time] = rewards[episode, episode, time:].sum() / batch_size
            if baseline is not None:
                observation, goal = episodes.observations[episode, time], episodes.pursued_goals[episode]
                value = plain_networks.value(baseline, observation, goal, time)
                coefficients[episode, episode, time] -= value / batch_size
    return coefficients


def surrogate_gradient(policy: Policy, episodes: PlainEpisodes, goals: np.ndarray, coefficients: np.ndarray) -> Policy:
    """grad of sum c[g, i, t] log p(a[i, t] | s[i, t], g), with a row for every single triple."""
    triples = np.array(list(np.ndindex(coefficients.shape)))
    goal, episode, time = triples.T
    observations = episodes.observations[episode, time].reshape(len(triples), -1)
    actions = episodes.actions[episode, time]

    def surrogate(policy: Policy) -> jax.Array:
        table = policy.log_probabilities(observations, goals[goal].reshape(len(triples), -1))
        return jnp.sum(coefficients.ravel() * table[np.arange(len(triples)), actions])

    return quick_jit(jax.grad(surrogate))(policy)


def temporal_difference_gradient(horizon: int, baseline: Value, episodes: PlainEpisodes) -> Value:
    """The gradient of the mean squared TD error of the pursued goals, whose episode is over once reached."""
    rewards, decides = rewards_of_goals(horizon, episodes, episodes.pursued_goals)
    rows, targets = [], []
    for episode, goal in enumerate(episodes.pursued_goals):
        for time in np.flatnonzero(decides[episode, episode]):
            target = rewards[episode, episode, time]
            if time + 1 < len(decides[0, 0]) and decides[episode, episode, time + 1]:
                target += plain_networks.value(baseline, episodes.observations[episode, time + 1], goal, time + 1)
            rows.append((episodes.observations[episode, time].ravel(), goal.ravel(), float(time)))
            targets.append(target)
    observations, goals, times = (np.array(column) for column in zip(*rows, strict=True))

    def loss(baseline: Value) -> jax.Array:
        return jnp.mean((np.array(targets) - baseline(observations, goals, times)) ** 2)

    return quick_jit(jax.grad(loss))(baseline)
