"""Likelihood ratios in log space, and their normalisation over the episodes of a batch."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def cumulative_log_ratios(
    log_probabilities: Float[Array, "goal episode time"],
    behaviour: Float[Array, "episode time"],
    taken: Bool[Array, "episode time"],
) -> Float[Array, "goal episode time"]:
    """log prod_{k<=t} p(a_k | s_k, g) / p(a_k | s_k, g'): the ratio of the actions up to and including t.

    Actions that were never taken contribute nothing, so an ended episode carries its last ratio on.
    """
    return jnp.cumsum(jnp.where(taken[None], log_probabilities - behaviour[None], 0), axis=-1)


def normalised_ratios(
    log_ratios: Float[Array, "goal episode time"],
    taken: Bool[Array, "episode time"],
    ended: Literal["drop", "carry"] = "drop",
) -> Float[Array, "goal episode time"]:
    """rho[g, i, t] / sum_j rho[g, j, t], the weights of Theorem 5.2; zero for actions that were not taken.

    `ended` says what an episode that is over adds to the sum: nothing (drop, as published), or its last ratio (carry:
    the ratio is a martingale, so this keeps the expectation of the sum at the number of episodes).
    The largest ratio is taken out before exponentiating: nothing overflows, however large or small the ratios.
    """
    counted = jnp.where(taken[None], log_ratios, -jnp.inf) if ended == "drop" else log_ratios
    largest = jnp.max(counted, axis=1, keepdims=True)
    shifted = jnp.exp(counted - jnp.where(jnp.isfinite(largest), largest, 0))
    total = jnp.sum(shifted, axis=1, keepdims=True)
    return jnp.where(taken[None] & (total > 0), shifted / jnp.where(total > 0, total, 1), 0)


def rewards_to_go(rewards: Float[Array, "... time"]) -> Float[Array, "... time"]:
    """sum_{t' > t} of the rewards: those that follow action t."""
    return jax.lax.cumsum(rewards, axis=rewards.ndim - 1, reverse=True)
