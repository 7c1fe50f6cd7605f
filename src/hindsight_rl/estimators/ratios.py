"""Likelihood ratios in log space, and their normalisation over the episodes of a batch."""

import math
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from hindsight_rl.core.errors import HindsightError, unknown
from hindsight_rl.estimators.checks import require_log_probabilities, require_prefixes, require_shapes


def cumulative_log_ratios(
    log_probabilities: Float[Array, "goal episode time"],
    behaviour: Float[Array, "episode time"],
    taken: Bool[Array, "episode time"],
) -> Float[Array, "goal episode time"]:
    """log prod_{k<=t} p(a_k | s_k, g) / p(a_k | s_k, g'): the ratio of the actions up to and including t.

    `log_probabilities` are those of the actions under each goal g, `behaviour` those under the pursued goal g'.
    Actions that were never taken contribute nothing, so an ended episode carries its last ratio on.
    """
    require_shapes(
        log_probabilities=(log_probabilities, "goal episode time"),
        behaviour=(behaviour, "episode time"),
        taken=(taken, "episode time"),
    )
    require_log_probabilities(log_probabilities=log_probabilities, behaviour=behaviour)
    require_prefixes(taken=taken)
    return jnp.cumsum(jnp.where(taken[None], log_probabilities - behaviour[None], 0), axis=-1)


def normalised_ratios(
    log_ratios: Float[Array, "goal episode time"],
    taken: Bool[Array, "episode time"],
    ended: Literal["drop", "carry"] = "drop",
    floor: float = 0.0,
) -> Float[Array, "goal episode time"]:
    """rho[g, i, t] / sum_j rho[g, j, t], the weights of Theorem 5.2; zero for actions that were not taken.

    `ended` says what an episode that is over adds to the sum: nothing (drop, as published), or its last ratio (carry:
    the ratio is a martingale, so this keeps the expectation of the sum at the number of episodes).
    `floor` is added to the ratio of every episode, ended ones included: (rho[g, i, t] + floor) over the sum of these.
    Where all ratios of a goal are far below it, the weights are equal; without it, nearly all weight goes to the least
    unlikely episode. The released program of the paper adds 1e-12.
    The largest ratio is taken out before exponentiating: nothing overflows, however large or small the ratios.
    """
    require_shapes(log_ratios=(log_ratios, "goal episode time"), taken=(taken, "episode time"))
    require_prefixes(taken=taken)
    if ended not in ("drop", "carry"):
        raise unknown("choice of ended", str(ended), ("drop", "carry"))
    if not floor >= 0:
        raise HindsightError(f"floor must be a number of at least zero, not {floor}.")
    counted = jnp.where(taken[None], log_ratios, -jnp.inf) if ended == "drop" else log_ratios
    largest = jnp.max(counted, axis=1, keepdims=True)
    if floor:
        largest = jnp.maximum(largest, math.log(floor))
    shifted = jnp.exp(counted - jnp.where(jnp.isfinite(largest), largest, 0))
    if floor:
        shifted += jnp.exp(math.log(floor) - largest)
    total = jnp.sum(shifted, axis=1, keepdims=True)
    # Compared with zero, so that a ratio that is not a number is not taken for none.
    return jnp.where(taken[None] & (total != 0), shifted / jnp.where(total != 0, total, 1), 0)


def effective_sample_size(
    log_ratios: Float[Array, "goal episode time"],
    taken: Bool[Array, "episode time"],
    ended: Literal["drop", "carry"] = "drop",
    floor: float = 0.0,
) -> Float[Array, "goal time"]:
    """1 / sum_i w[g, i, t]^2 with the weights of Theorem 5.2: how many episodes a goal's estimate really rests on.

    With `carry`, ended episodes count as well, with the weight that they have in the normaliser.
    """
    weights = normalised_ratios(log_ratios, taken if ended == "drop" else jnp.ones_like(taken), ended, floor)
    squares = jnp.sum(weights**2, axis=1)
    return jnp.where(squares > 0, 1 / jnp.where(squares > 0, squares, 1), 0)


def rewards_to_go(rewards: Float[Array, "... time"]) -> Float[Array, "... time"]:
    """sum_{t' > t} of the rewards: those that follow action t."""
    return jax.lax.cumsum(rewards, axis=rewards.ndim - 1, reverse=True)
