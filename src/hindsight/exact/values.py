"""Value, action-value and advantage of a policy, by backward recursion."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hindsight.environments.finite import FiniteProblem
from hindsight.exact.returns import require_policy_table


class Values(NamedTuple):
    """V, Q and A = Q - V of section 2, for every time, state and goal."""

    values: Float[np.ndarray, "time state goal"]
    """V_t(s, g) at the T states of an episode; zero at the last."""
    action_values: Float[np.ndarray, "time state goal action"]
    """Q_t(s, a, g) for the T - 1 actions."""

    @property
    def advantages(self) -> Float[np.ndarray, "time state goal action"]:
        """A_t(s, a, g) for the T - 1 actions."""
        return self.action_values - self.values[:-1, :, :, None]


def exact_values(policy: Float[np.ndarray, "state goal action"], problem: FiniteProblem) -> Values:
    """Lemma D.3 backwards in time: Q_t = E[r(s', g) + V_{t+1}(s', g)] and V_t = E[Q_t], with V zero once reached."""
    require_policy_table(policy, problem)
    return _recursion(problem, lambda action_values: jnp.sum(policy * action_values, axis=2))


def optimal_return(problem: FiniteProblem) -> float:
    """The largest expected return of any policy, which may depend on time."""
    first = _recursion(problem, lambda action_values: jnp.max(action_values, axis=2)).values[0]
    return float(problem.start_probabilities @ first @ problem.goal_probabilities)


def _recursion(problem: FiniteProblem, choose: Callable[[Array], Array]) -> Values:
    with jax.enable_x64(True):
        values, action_values = _backwards(problem, choose)
        return Values(np.asarray(values), np.asarray(action_values))


def _backwards(problem: FiniteProblem, choose: Callable[[Array], Array]) -> tuple[Array, Array]:
    transitions = jnp.asarray(problem.transition_probabilities)

    def step(following: Array, time: Array) -> tuple[Array, tuple[Array, Array]]:
        arriving = jnp.asarray(problem.rewards)[time] + jnp.where(problem.reached, 0, following)
        chosen = transitions[jnp.minimum(time, transitions.shape[0] - 1)]
        action_values = jnp.einsum("san,ng->sga", chosen, arriving)
        values = choose(action_values)
        return values, (values, action_values)

    final = jnp.zeros(problem.reached.shape, transitions.dtype)
    times = jnp.arange(problem.actions_per_episode)
    values, action_values = jax.lax.scan(step, final, times, reverse=True)[1]
    return jnp.concatenate([values, final[None]]), action_values
