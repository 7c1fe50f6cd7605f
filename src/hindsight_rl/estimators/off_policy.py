"""Truncated per-decision corrections: what an episode says about any goal, whoever chose its actions.

A pair is an episode seen under a goal. mu[i, t] is the probability with which action t was taken, p the policy under
the pair's goal, and rho[i, t] = p(a[i, t] | s[i, t], g) / mu[i, t] one ratio, not the product of all up to it. All is
in log space: a ratio that underflows is nothing, and one that overflows is cut before it is exponentiated.

Exact without truncation, with trace decay 1 and the product of earlier ratios as a weight: the expectation is then that
of Theorems 4.3 and 4.4, for any values. Truncation and leaving out the product trade bias for variance.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.estimators.checks import require_runs, require_shapes


class Targets(NamedTuple):
    """What the values of the decisions should be, and how much better each action was than its state's value."""

    values: Float[Array, "pair time"]
    """v[i, t], or q[i, t] of actions; the value that was given where no decision was made."""
    advantages: Float[Array, "pair time"]
    """A[i, t]; zero where no decision was made."""


def truncated_targets(
    log_ratios: Float[Array, "pair time"],
    rewards: Float[Array, "pair time"],
    values: Float[Array, "pair state"],
    decides: Bool[Array, "pair time"],
    ends: Bool[Array, "pair time"],
    *,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    trace: float = 1.0,
    discount: float = 1.0,
) -> Targets:
    """V-trace (Espeholt et al., 2018) under any goal, with rho[t] cut at rho_bar and c[t] = trace * min(c_bar, rho[t]).

        delta[t] = min(rho_bar, rho[t]) (r[t] + discount V[t+1] - V[t])            Theorem 4.4 in brackets
        v[t]     = V[t] + delta[t] + discount c[t] (v[t+1] - V[t+1])
        A[t]     = r[t] + discount v[t+1] - V[t]

    `rewards[i, t]` is the reward of the state that action t leads to, `log_ratios[i, t]` is log rho[i, t], and `values`
    has one more entry along time. No value follows an action that `ends` the episode under the goal: the one that
    reaches it, or the last before the horizon. After the last decision of an episode that ended for another reason, the
    value of its last state stands for what would have followed.

    The fixed point is the value of the policy proportional to min(rho_bar mu, p), which is p itself for an infinite
    rho_bar; then, with an infinite c_bar and trace 1, v is unbiased whatever the values.
    """
    axes = "pair time"
    require_shapes(
        log_ratios=(log_ratios, axes),
        rewards=(rewards, axes),
        values=(values[:, :-1], axes),
        decides=(decides, axes),
        ends=(ends, axes),
    )
    require_runs(decides=decides)
    require_levels(rho_bar=rho_bar, c_bar=c_bar)
    require_unit_interval(trace=trace, discount=discount)
    following = jnp.where(ends, 0, values[:, 1:])
    ratios = truncated_ratios(log_ratios, rho_bar)
    errors = jnp.where(decides, rewards + discount * following - values[:, :-1], 0)
    # What is handed back from the action after this one, which must have been a decision.
    decays = jnp.where(decides & ~ends, discount * trace * truncated_ratios(log_ratios, c_bar), 0)

    corrections = jnp.where(decides, ratios * errors, 0)
    nothing = jnp.zeros_like(values[:, 0])
    _, gaps = jax.lax.scan(_back, nothing, (corrections.T, decays.T), reverse=True)
    gaps = gaps.T
    later = jnp.where(ends, 0, jnp.concatenate([gaps[:, 1:], nothing[:, None]], axis=1))
    return Targets(values[:, :-1] + gaps, jnp.where(decides, errors + discount * later, 0))


def _back(later: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
    """v[t] - V[t] from v[t+1] - V[t+1]."""
    correction, decay = now
    total = correction + decay * later
    return total, total


def action_value_targets(
    log_ratios: Float[Array, "pair time"],
    rewards: Float[Array, "pair time"],
    action_values: Float[Array, "pair time"],
    expected_values: Float[Array, "pair state"],
    decides: Bool[Array, "pair time"],
    ends: Bool[Array, "pair time"],
    *,
    c_bar: float = 1.0,
    trace: float = 1.0,
    discount: float = 1.0,
) -> Targets:
    """Retrace (Munos et al., 2016) under any goal, for a critic of actions, with c[t] = trace * min(c_bar, rho[t]).

        q[t] = r[t] + discount (E[t+1] + c[t+1] (q[t+1] - Q[t+1])),   E[t] = sum over a of p(a | s[t], g) Q(s[t], a)
        A[t] = q[t] - E[t]

    `action_values[i, t]` is Q of the action taken; `expected_values` has one more entry along time. No ratio weighs the
    first step, so that nothing need be truncated there: with any c_bar up to 1 the fixed point is the action value of p
    itself. What ends an episode is as in `truncated_targets`.
    """
    axes = "pair time"
    require_shapes(
        log_ratios=(log_ratios, axes),
        rewards=(rewards, axes),
        action_values=(action_values, axes),
        expected_values=(expected_values[:, :-1], axes),
        decides=(decides, axes),
        ends=(ends, axes),
    )
    require_runs(decides=decides)
    require_levels(c_bar=c_bar)
    require_unit_interval(trace=trace, discount=discount)
    following = jnp.where(ends, 0, expected_values[:, 1:])
    nothing = jnp.zeros_like(rewards[:, 0])
    errors = jnp.where(decides, rewards + discount * following - action_values, 0)
    traces = jnp.where(decides, discount * trace * truncated_ratios(log_ratios, c_bar), 0)
    # The correction after this action belongs to the next one, if that was a decision.
    decays = jnp.where(ends, 0, jnp.concatenate([traces[:, 1:], nothing[:, None]], axis=1))
    _, gaps = jax.lax.scan(_back, nothing, (errors.T, decays.T), reverse=True)
    targets = action_values + jnp.where(decides, gaps.T, 0)
    return Targets(targets, jnp.where(decides, targets - expected_values[:, :-1], 0))


def truncated_ratios(log_ratios: Float[Array, "*batch"], level: float) -> Float[Array, "*batch"]:
    """min(level, rho), from log rho; an infinite level leaves the ratios as they are."""
    require_levels(level=level)
    return jnp.exp(jnp.minimum(log_ratios, math.log(level)))


def earlier_ratio_weights(
    log_ratios: Float[Array, "pair time"],
    decides: Bool[Array, "pair time"],
    power: float = 1.0,
    normalised: bool = True,
) -> Float[Array, "pair time"]:
    """W[i, t]^power with W[i, t] = prod_{k < t} rho[i, k]: from the states that were seen to those that p would see.

    Normalised as in Theorem 5.2, over the pairs that decide at time t, but to a mean of one rather than a sum of one:

        w[i, t] = n[t] W[i, t]^power / sum_j W[j, t]^power,   n[t] = sum_j 1

    Under every goal the expectation of W[i, t] is one, so that pairs of different goals may share a normaliser. With
    power 1 the weighted sum is consistent, and unbiased where it is not normalised; with power 0 all weights are one.
    Zero where no decision was made.
    """
    require_shapes(log_ratios=(log_ratios, "pair time"), decides=(decides, "pair time"))
    require_runs(decides=decides)
    require_unit_interval(power=power)
    if power == 0:
        return jnp.where(decides, jnp.ones_like(log_ratios), 0)
    sums = jnp.cumsum(jnp.where(decides, log_ratios, 0), axis=1)
    earlier = power * jnp.concatenate([jnp.zeros_like(sums[:, :1]), sums[:, :-1]], axis=1)
    if not normalised:
        return jnp.where(decides, jnp.exp(earlier), 0)
    counted = jnp.where(decides, earlier, -jnp.inf)
    largest = jnp.max(counted, axis=0, keepdims=True)
    shifted = jnp.exp(counted - jnp.where(jnp.isfinite(largest), largest, 0))
    total = jnp.sum(shifted, axis=0, keepdims=True)
    count = jnp.sum(decides, axis=0, keepdims=True)
    return jnp.where(decides, count * shifted / jnp.where(total != 0, total, 1), 0)


class Clipped(NamedTuple):
    """Coefficients of a clipped objective, and where they were clipped away."""

    coefficients: Float[Array, "*batch"]
    clipped: Bool[Array, "*batch"]


def clipped_coefficients(
    log_probabilities: Float[Array, "*batch"],
    old_log_probabilities: Float[Array, "*batch"],
    advantages: Float[Array, "*batch"],
    weights: Float[Array, "*batch"],
    clip: float = 0.2,
) -> Clipped:
    """The gradient of the clipped objective (Schulman et al., 2017), as coefficients of grad log p.

        L = w min(R A, clip(R, 1 - clip, 1 + clip) A),   R = p(a | s, g) / p_old(a | s, g)
        c = w A R  where R has not left the interval in the direction of A, otherwise 0

    `weights` are held constant: min(rho_bar, p_old / mu), and the weight of earlier ratios where that is wanted. With
    p = p_old this is w A, and with the weights rho W the coefficient of Theorem 4.3. An infinite `clip` never clips.
    """
    axes = " ".join(f"axis{number}" for number in range(jnp.ndim(log_probabilities)))
    require_shapes(
        log_probabilities=(log_probabilities, axes),
        old_log_probabilities=(old_log_probabilities, axes),
        advantages=(advantages, axes),
        weights=(weights, axes),
    )
    require_levels(clip=clip)
    ratios = jnp.exp(log_probabilities - old_log_probabilities)
    clipped = jnp.where(advantages > 0, ratios > 1 + clip, ratios < 1 - clip) & (advantages != 0)
    # Where there is nothing to weigh, the ratio may be too large for a float.
    kept = ~clipped & (advantages != 0) & (weights != 0)
    return Clipped(jnp.where(kept, weights * advantages * jnp.where(kept, ratios, 1), 0), clipped)


def effective_share(weights: Float[Array, "*batch"], counted: Bool[Array, "*batch"]) -> Float[Array, ""]:
    """(sum w)^2 / (n sum w^2): the share of the n decisions that weighted ones amount to, from 1/n to 1."""
    weights = jnp.where(counted, weights, 0)
    squares = jnp.sum(weights**2) * jnp.sum(counted)
    return jnp.where(squares > 0, jnp.sum(weights) ** 2 / jnp.where(squares > 0, squares, 1), 0)


def require_levels(**arguments: float) -> None:
    """Levels at which something is cut: above zero, and infinite for not at all."""
    for name, value in arguments.items():
        if not value > 0:
            raise HindsightError(f"{name} must be above zero, not {value}.")


def require_unit_interval(**arguments: float) -> None:
    """Numbers from 0 to 1."""
    for name, value in arguments.items():
        if not 0 <= value <= 1:
            raise HindsightError(f"{name} must be a number from 0 to 1, not {value}.")
