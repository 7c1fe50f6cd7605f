"""The estimators of sections 3 and 5 as plain loops over goals, episodes and times, straight from the formulas.

Time counts actions from 0, so the paper's r(s_{t'}, g) with t' > t is `rewards[goal, episode, time]` with time >= t,
and the ratio that goes with it, of the actions before t', is that of the actions 0..time.
"""

import numpy as np


def likelihood_ratios(probabilities: np.ndarray, behaviour: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """prod_{k <= t} p(a_k | s_k, g) / p(a_k | s_k, g') over the actions that were taken."""
    ratios = np.zeros(probabilities.shape)
    goals, episodes, times = probabilities.shape
    for goal in range(goals):
        for episode in range(episodes):
            ratio = 1.0
            for time in range(times):
                if time < lengths[episode]:
                    ratio *= probabilities[goal, episode, time] / behaviour[episode, time]
                ratios[goal, episode, time] = ratio
    return ratios


def normalised_ratios(ratios: np.ndarray, lengths: np.ndarray, ended: str, floor: float = 0.0) -> np.ndarray:
    """Each ratio over the sum of the ratios of that time; an ended episode adds its last ratio or nothing.

    A floor is added to the ratio of every episode, ended or not.
    """
    weights = np.zeros(ratios.shape)
    goals, episodes, times = ratios.shape
    for goal in range(goals):
        for time in range(times):
            counted = [j for j in range(episodes) if time < lengths[j] or ended == "carry"]
            total = sum(ratios[goal, j, time] for j in counted) + episodes * floor
            for episode in range(episodes):
                if time < lengths[episode]:
                    weights[goal, episode, time] = (ratios[goal, episode, time] + floor) / total
    return weights


def weighted_per_decision(
    ratios: np.ndarray,
    rewards: np.ndarray,
    goal_probabilities: np.ndarray,
    lengths: np.ndarray,
    ended: str,
    floor: float = 0.0,
) -> np.ndarray:
    """Theorem 5.2."""
    weights = normalised_ratios(ratios, lengths, ended, floor)
    coefficients = np.zeros(ratios.shape)
    for goal, episode, time in np.ndindex(ratios.shape):
        for later in range(time, ratios.shape[2]):
            coefficients[goal, episode, time] += (
                goal_probabilities[goal] * weights[goal, episode, later] * rewards[goal, episode, later]
            )
    return coefficients


def weighted_baseline(
    ratios: np.ndarray,
    baselines: np.ndarray,
    goal_probabilities: np.ndarray,
    lengths: np.ndarray,
    ended: str,
    floor: float = 0.0,
) -> np.ndarray:
    """Theorem C.1."""
    weights = normalised_ratios(ratios, lengths, ended, floor)
    coefficients = np.zeros(ratios.shape)
    for goal, episode, time in np.ndindex(ratios.shape):
        coefficients[goal, episode, time] = (
            goal_probabilities[goal] * weights[goal, episode, time] * baselines[goal, episode, time]
        )
    return coefficients


def per_decision(ratios: np.ndarray, rewards: np.ndarray, goal_probabilities: np.ndarray) -> np.ndarray:
    """Theorem 5.1."""
    coefficients = np.zeros(ratios.shape)
    for goal, episode, time in np.ndindex(ratios.shape):
        for later in range(time, ratios.shape[2]):
            coefficients[goal, episode, time] += ratios[goal, episode, later] * rewards[goal, episode, later]
        coefficients[goal, episode, time] *= goal_probabilities[goal] / ratios.shape[1]
    return coefficients


def rewards_to_go(rewards: np.ndarray) -> np.ndarray:
    """[episode, time] sums of the rewards of this and all later actions."""
    sums = np.zeros(rewards.shape)
    for episode, time in np.ndindex(rewards.shape):
        for later in range(time, rewards.shape[1]):
            sums[episode, time] += rewards[episode, later]
    return sums
