"""The best possible return, where it is known."""

import jax
import jax.numpy as jnp
import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.finite import finite_problem
from hindsight_rl.environments.interface import Environment, Task
from hindsight_rl.exact.values import optimal_return

MOST_BITS = 16
"""Strings of more bits are not enumerated."""
RULES = ("reset", "step", "observe", "achieved_goal", "reached", "reward", "finite_problem")
"""What decides how soon a goal can be reached, and what that is worth."""


def best_return(environment: Task) -> float | None:
    """The largest expected return of any policy, or None where it cannot be computed.

    Bit flipping, which has too many states for tables, goal by goal; a class derived from it that changes its rules is
    treated as any other environment.
    """
    if isinstance(environment, BitFlipping) and _keeps_the_rules(environment):
        return _best_of_bits(environment)
    if not isinstance(environment, Environment):
        return None
    try:
        return optimal_return(finite_problem(environment))
    except HindsightError:
        return None


def _best_of_bits(environment: BitFlipping) -> float | None:
    """A goal with d ones takes d actions and so gives the horizon minus d; the start itself takes two actions.

    That is half the bits on average over all strings; goals that are drawn otherwise are weighed one by one.
    """
    bits, horizon = environment.bits, environment.horizon
    # With one bit there is one action only, and no way back to the start.
    of_start = horizon - 2 if bits > 1 else 0
    if _inherits(environment, "goal_probability"):
        return horizon - bits / 2 + (of_start - horizon) * 2.0**-bits
    if bits > MOST_BITS:
        return None
    goals = (np.arange(2**bits)[:, None] >> np.arange(bits)) & 1
    ones = goals.sum(axis=1)
    probabilities = np.asarray(jax.vmap(environment.goal_probability)(jnp.asarray(goals, jnp.float32)), np.float64)
    return float(probabilities @ np.where(ones > 0, horizon - ones, of_start) / probabilities.sum())


def _keeps_the_rules(environment: BitFlipping) -> bool:
    sizes = (environment.horizon, environment.action_count) == (environment.bits + 1, environment.bits)
    return sizes and all(_inherits(environment, name) for name in RULES)


def _inherits(environment: BitFlipping, name: str) -> bool:
    return getattr(type(environment), name) is getattr(BitFlipping, name)
