"""Hindsight PPO one decision at a time, in plain NumPy: what the compiled update must come to.

Networks have one hidden layer; discrete actions only. Draws of pairs and the order of decisions are given.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from hindsight_rl.agents.hppo_options import PPOOptions

Weights = list[np.ndarray]
"""Hidden weights, output weights, hidden biases, output biases, direct weights."""


class Decision(NamedTuple):
    """One decision under one goal, and what it says."""

    inputs: np.ndarray
    clock: float
    action: int
    value: float
    advantage: float
    weight: float
    old: np.ndarray


def weights_of(network: Any) -> Weights:
    """Of a network of the library."""
    inner = network.network
    return [np.array(leaf, np.float64) for leaf in (*inner.weights, *inner.biases, network.direct)]


def forward(weights: Weights, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and hidden units."""
    first, last, first_bias, last_bias, direct = weights
    hidden = np.maximum(row @ first + first_bias, 0)
    return hidden @ last + last_bias + row @ direct, hidden


def backward(weights: Weights, row: np.ndarray, slope: np.ndarray) -> Weights:
    """The gradient for one row, from the slope of its outputs."""
    hidden = forward(weights, row)[1]
    inner = np.where(hidden > 0, weights[1] @ slope, 0)
    return [np.outer(row, inner), np.outer(hidden, slope), inner, slope, np.outer(row, slope)]


def log_softmax(outputs: np.ndarray) -> np.ndarray:
    """Log-probabilities."""
    shifted = outputs - outputs.max()
    return shifted - math.log(np.exp(shifted).sum())


def decisions_of(
    task: Any,
    options: PPOOptions,
    episode: Any,
    goal: np.ndarray,
    show: Any,
    actor: Weights,
    target: Weights,
    pace: float = 0.0,
    left: int = -1,
) -> list[Decision]:
    """The decisions of one episode under one goal, with raw advantages; where it left the goal, those after that."""
    horizon, scale = task.horizon - 1, options.reward_scale or task.horizon
    states = range(left + 1, int(episode.lengths) + 1)
    away = [time for time in states if not task.reached(episode.achieved_goals[time], goal)]
    if not away or (left < 0 and away[0] > 0):
        return []
    begin = away[0]
    rows, said, values, logs, rewards, reached = [], [], [], [], [], False
    for time in range(begin, int(episode.lengths) + 1):
        rows.append(show(episode.observations[time], goal))
        said.append(forward(target, np.append(rows[-1], time / horizon))[0])
        logs.append(log_softmax(forward(actor, rows[-1])[0]))
        values.append(float(np.exp(logs[-1]) @ said[-1]) if options.critic == "actions" else said[-1][0])
        if reached or time == int(episode.lengths):
            break
        arrival = episode.achieved_goals[time + 1]
        rewards.append((float(task.reward(arrival, goal, time + 1)) + (options.reward_offset or 0)) / scale - pace)
        reached = bool(task.reached(arrival, goal))
        if reached:
            rewards[-1] -= pace * (horizon - time - 1)
    count = len(rewards)
    following = target_value = 0.0 if reached or begin + count == horizon else values[count]
    found, handed = [], 0.0
    for time in reversed(range(count)):
        action = int(episode.actions[begin + time])
        ratio = math.exp(logs[time][action] - float(episode.log_probabilities[begin + time]))
        cut = min(options.ratio_limit, ratio)
        if options.critic == "actions":
            value = rewards[time] + following + handed
            parts = (action, value, value - values[time], cut, logs[time])
            found.append(Decision(rows[time], (begin + time) / horizon, *parts))
            handed = options.trace * min(options.trace_limit, ratio) * (value - said[time][action])
            following = values[time]
            continue
        advantage = rewards[time] + target_value - values[time]
        error = cut * (rewards[time] + following - values[time])
        value = values[time] + error + options.trace * min(options.trace_limit, ratio) * (target_value - following)
        found.append(Decision(rows[time], (begin + time) / horizon, action, value, advantage, cut, logs[time]))
        following, target_value = values[time], value
    return found[::-1]


def normalised(decisions: list[Decision]) -> list[Decision]:
    """With advantages of mean square one."""
    root = math.sqrt(sum(one.advantage**2 for one in decisions) / len(decisions))
    return [one._replace(advantage=one.advantage / (root + 1e-3)) for one in decisions]


def policy_gradient(weights: Weights, minibatch: list[Decision], options: PPOOptions) -> Weights:
    """Of minus the clipped objective and the entropy's share."""
    total = [np.zeros_like(leaf) for leaf in weights]
    for one in minibatch:
        logs = log_softmax(forward(weights, one.inputs)[0])
        probabilities = np.exp(logs)
        ratio = math.exp(logs[one.action] - one.old[one.action])
        clipped = ratio > 1 + options.clip if one.advantage > 0 else ratio < 1 - options.clip
        coefficient = 0.0 if clipped else one.weight * one.advantage * ratio
        taken = np.eye(len(logs))[one.action]
        entropy = -float(probabilities @ logs)
        slope = coefficient * (taken - probabilities) - options.entropy_weight(len(logs), 4) * probabilities * (
            logs + entropy
        )
        for part, more in zip(total, backward(weights, one.inputs, -slope / len(minibatch)), strict=True):
            part += more
    return total


def critic_gradient(weights: Weights, minibatch: list[Decision]) -> Weights:
    """Of the mean squared error, of a state's value or of the action that was taken."""
    total = [np.zeros_like(leaf) for leaf in weights]
    for one in minibatch:
        row = np.append(one.inputs, one.clock)
        said = forward(weights, row)[0]
        error = (said - one.value) * (np.eye(len(said))[one.action] if len(said) > 1 else 1)
        for part, more in zip(total, backward(weights, row, 2 * error / len(minibatch)), strict=True):
            part += more
    return total


class Adam:
    """Adam on gradients whose norm is cut at one."""

    def __init__(self, weights: Weights):
        self.means = [np.zeros_like(leaf) for leaf in weights]
        self.squares = [np.zeros_like(leaf) for leaf in weights]
        self.steps = 0

    def descend(self, weights: Weights, gradient: Weights, rate: float) -> Weights:
        """The weights after one step."""
        self.steps += 1
        norm = math.sqrt(sum(float(np.sum(part**2)) for part in gradient))
        after = []
        for number, part in enumerate(gradient):
            part = part / max(norm, 1.0)
            self.means[number] = 0.9 * self.means[number] + 0.1 * part
            self.squares[number] = 0.999 * self.squares[number] + 0.001 * part**2
            mean, square = self.means[number] / (1 - 0.9**self.steps), self.squares[number] / (1 - 0.999**self.steps)
            after.append(weights[number] - rate * mean / (np.sqrt(square) + 1e-8))
        return after
