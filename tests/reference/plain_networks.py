"""The networks in plain NumPy, one row at a time."""

import numpy as np

from hindsight_rl.networks.perceptron import Perceptron
from hindsight_rl.networks.policy import Policy
from hindsight_rl.networks.value import Value


def forward(network: Perceptron, row: np.ndarray) -> np.ndarray:
    """tanh layers and a linear output."""
    *hidden, (last_weight, last_bias) = zip(network.weights, network.biases, strict=True)
    for weight, bias in hidden:
        row = np.tanh(row @ np.asarray(weight) + np.asarray(bias))
    return row @ np.asarray(last_weight) + np.asarray(last_bias)


def action_probabilities(policy: Policy, observation: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """A softmax, and 1e-12 on top."""
    logits = forward(policy.network, np.concatenate([observation.ravel(), goal.ravel()]))
    powers = np.exp(logits - logits.max())
    return powers / powers.sum() + 1e-12


def value(baseline: Value, observation: np.ndarray, goal: np.ndarray, time: int) -> float:
    """The value network's answer for one observation, goal and time."""
    return float(forward(baseline.network, np.concatenate([observation.ravel(), goal.ravel(), [time]]))[0])
