"""The expected return of a policy, by propagating the distribution over states."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.finite import FiniteProblem


def expected_return(policy: Float[Array, "state goal action"], problem: FiniteProblem) -> Float[Array, ""]:
    """eta = sum_g p(g) E[sum_t r(s_t, g) | g] of Eq. 2, of a policy given as a table of probabilities.

    A pure function that JAX can differentiate with respect to the table; for float64, call it within
    `jax.enable_x64(True)`.
    """
    arrivals = _arrivals(policy, problem)
    return jnp.einsum("tsg,tsg,g->", arrivals, jnp.asarray(problem.rewards), jnp.asarray(problem.goal_probabilities))


def state_distributions(
    policy: Float[Array, "state goal action"], problem: FiniteProblem
) -> Float[Array, "time state goal"]:
    """p(s_t, not yet reached | g) before each action t: where the decisions of an episode are made."""
    arrivals = _arrivals(policy, problem)
    start = jnp.broadcast_to(jnp.asarray(problem.start_probabilities)[:, None], arrivals.shape[1:])
    return jnp.concatenate([start[None], jnp.where(problem.reached[None], 0, arrivals[:-1])])


def _arrivals(policy: Array, problem: FiniteProblem) -> Float[Array, "time state goal"]:
    """The probability, for each goal, that action t leads to each state with the goal not reached before."""
    require_policy_table(policy, problem)
    transitions = jnp.asarray(problem.transition_probabilities)

    def step(present: Array, time: Array) -> tuple[Array, Array]:
        chosen = transitions[jnp.minimum(time, transitions.shape[0] - 1)]
        arriving = jnp.einsum("sga,san->ng", present[:, :, None] * policy, chosen)
        return jnp.where(problem.reached, 0, arriving), arriving

    start = jnp.broadcast_to(jnp.asarray(problem.start_probabilities)[:, None], problem.reached.shape)
    return jax.lax.scan(step, start, jnp.arange(problem.actions_per_episode))[1]


def require_policy_table(policy: Array | np.ndarray, problem: FiniteProblem) -> None:
    """A policy has a probability for each state, goal and action."""
    expected = (*problem.reached.shape, problem.transition_probabilities.shape[2])
    if policy.shape != expected:
        raise HindsightError(f"policy must have the axes [state, goal, action] = {expected}, not {policy.shape}.")
