"""Hindsight policy gradients (sections 4 and 5): each episode teaches about every goal it reached."""

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from hindsight.estimators.ratios import normalised_ratios, rewards_to_go


def per_decision(
    log_ratios: Float[Array, "goal episode time"],
    rewards: Float[Array, "goal episode time"],
    goal_probabilities: Float[Array, " goal"],
) -> Float[Array, "goal episode time"]:
    """Theorem 5.1: c[g, i, t] = p(g)/N sum_{t' > t} rho[g, i, t'] r(s[i, t'], g), rho the ratio up to action t' - 1.

    Unbiased when every episode has the full horizon; the ratios, and so the variance, are unbounded.
    """
    # Where there is no reward the ratio does not matter, and may be too large for a float.
    weighted = jnp.where(rewards != 0, jnp.exp(log_ratios) * rewards, 0)
    return goal_probabilities[:, None, None] * rewards_to_go(weighted) / rewards.shape[1]


def weighted_per_decision(
    log_ratios: Float[Array, "goal episode time"],
    rewards: Float[Array, "goal episode time"],
    goal_probabilities: Float[Array, " goal"],
    taken: Bool[Array, "episode time"],
    ended: Literal["drop", "carry"] = "drop",
) -> Float[Array, "goal episode time"]:
    """Theorem 5.2: as Theorem 5.1, with each ratio divided by the sum of the ratios of that time over all episodes.

    Consistent when every episode has the full horizon; every weight lies between 0 and 1.
    """
    weights = normalised_ratios(log_ratios, taken, ended)
    return goal_probabilities[:, None, None] * rewards_to_go(weights * rewards)


def weighted_baseline(
    log_ratios: Float[Array, "goal episode time"],
    baselines: Float[Array, "goal episode time"],
    goal_probabilities: Float[Array, " goal"],
    taken: Bool[Array, "episode time"],
    ended: Literal["drop", "carry"] = "drop",
) -> Float[Array, "goal episode time"]:
    """Theorem C.1: p(g) rho[g, i, t] b_t(s[i, t], g) / sum_j rho[g, j, t], to subtract from Theorem 5.2.

    The ratio here includes action t itself. Converges to zero as the batch grows.
    """
    return goal_probabilities[:, None, None] * normalised_ratios(log_ratios, taken, ended) * baselines


def without_ratios(
    rewards: Float[Array, "goal episode time"], goal_probabilities: Float[Array, " goal"]
) -> Float[Array, "goal episode time"]:
    """The ablation: Theorem 5.1 with every ratio replaced by one. Biased: it imitates whatever reached the goal."""
    return goal_probabilities[:, None, None] * rewards_to_go(rewards) / rewards.shape[1]
