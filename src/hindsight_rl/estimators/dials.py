"""Truncated corrections as estimators: one for each setting of their dials, for the laboratory to measure.

The weights of section 4 and the advantages of hindsight PPO, over all goals and weighted by p(g):

    c[g, i, t] = p(g)/N min(rho_bar, rho[g, i, t]) W[g, i, t]^power A[g, i, t]

with the advantages of `off_policy.truncated_targets` and the weights of `off_policy.earlier_ratio_weights`.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import jax.numpy as jnp
from jaxtyping import Array, Float

from hindsight_rl.core.errors import HindsightError, unknown
from hindsight_rl.estimators.off_policy import (
    earlier_ratio_weights,
    require_levels,
    require_unit_interval,
    truncated_ratios,
    truncated_targets,
)

TRUNCATED = "truncated"
Critic = Literal["exact", "zero"]


@dataclass(frozen=True)
class Dials:
    """What truncated corrections can be told. As they stand here, they are exact with any critic."""

    rho: float = math.inf
    """rho-bar, where ratios are cut in corrections and in the policy's weights; infinite for nowhere."""
    c: float = math.inf
    """c-bar, where ratios are cut in traces."""
    trace: float = 1.0
    """lambda: what of a later correction is handed back at each step."""
    power: float = 1.0
    """Of the product of earlier ratios."""
    normalised: bool = False
    """Whether these products are divided by their mean over all pairs of episode and goal."""
    critic: Critic = "exact"
    """Values to lean on: the exact ones, or none."""

    def __post_init__(self) -> None:
        require_levels(rho=self.rho, c=self.c)
        require_unit_interval(**{"lambda": self.trace, "power": self.power})

    @property
    def name(self) -> str:
        """Under which an estimator with these dials is found: `truncated,rho=1,c=1,lambda=0.9,power=0`."""
        rho, c = (f"{level:g}" if math.isfinite(level) else "none" for level in (self.rho, self.c))
        parts = [f"rho={rho}", f"c={c}", f"lambda={self.trace:g}", f"power={self.power:g}"]
        if self.normalised:
            parts.append("normalised=yes")
        if self.critic != "exact":
            parts.append(f"critic={self.critic}")
        return ",".join([TRUNCATED, *parts])


def parse_dials(name: str) -> Dials:
    """The inverse of `Dials.name`; what it does not say is exact."""
    values: dict[str, Any] = {}
    known = {"lambda" if field.name == "trace" else field.name: field.name for field in fields(Dials)}
    for part in name.split(",")[1:]:
        dial, _, text = part.partition("=")
        if dial not in known:
            raise unknown("dial of truncated corrections", dial, known)
        values[known[dial]] = _value(dial, text)
    return Dials(**values)


def _value(dial: str, text: str) -> float | bool | str:
    if dial in _CHOICES:
        if text not in _CHOICES[dial]:
            raise HindsightError(f"{dial} must be {' or '.join(_CHOICES[dial])}, not '{text}'.")
        return text == "yes" if dial == "normalised" else text
    if text == "none" and dial in ("rho", "c"):
        return math.inf
    try:
        return float(text)
    except ValueError:
        raise HindsightError(f"{dial} must be a number, not '{text}'.") from None


_CHOICES = {"normalised": ("yes", "no"), "critic": get_args(Critic)}

_EXACT = Dials()
_TURNED = (
    _EXACT,
    *(Dials(rho=level, c=level) for level in (4.0, 1.0)),
    *(Dials(trace=trace) for trace in (0.9, 0.0)),
    *(Dials(power=power) for power in (0.5, 0.0)),
    *(Dials(power=power, normalised=True) for power in (1.0, 0.5)),
    *(Dials(level, level, 0.9, 0.0) for level in (4.0, 1.0)),
)
LADDER: tuple[Dials, ...] = tuple(replace(dials, critic=critic) for critic in get_args(Critic) for dials in _TURNED)
"""Each dial turned alone away from the exact setting, then those of hindsight PPO; with exact values and with none."""


def truncated_coefficients(
    dials: Dials,
    log_ratios: Float[Array, "goal episode time"],
    rewards: Float[Array, "goal episode time"],
    values: Float[Array, "goal episode state"],
    following: Float[Array, "goal episode time"],
    decides: Array,
    goal_probabilities: Float[Array, " goal"],
) -> Float[Array, "goal episode time"]:
    """The coefficients of this file's equation, from the logarithms of the products of ratios up to each action.

    `following` is the value of the state that each action led to, zero where nothing follows.
    """
    goals, episodes, times = rewards.shape
    pairs = goals * episodes
    single = jnp.diff(log_ratios, axis=2, prepend=0.0).reshape(pairs, times)
    courses = jnp.concatenate([values[:, :, :1], following], axis=2).reshape(pairs, times + 1)
    if dials.critic == "zero":
        courses = jnp.zeros_like(courses)
    decisions = decides.reshape(pairs, times)
    targets = truncated_targets(
        single,
        rewards.reshape(pairs, times),
        courses,
        decisions,
        jnp.zeros_like(decisions),  # where nothing follows, the value that follows is zero
        rho_bar=dials.rho,
        c_bar=dials.c,
        trace=dials.trace,
    )
    weights = earlier_ratio_weights(single, decisions, dials.power, dials.normalised)
    # Where there is nothing to weigh, the ratio may be too large for a float.
    weighed = jnp.where(targets.advantages != 0, truncated_ratios(single, dials.rho) * weights * targets.advantages, 0)
    return goal_probabilities[:, None, None] * weighed.reshape(rewards.shape) / episodes
