"""Value, action-value and advantage of a policy, by backward recursion."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hindsight_rl.environments.finite import FiniteProblem
from hindsight_rl.exact.returns import require_policy_table


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
    return _recursion(problem, lambda action_values: np.sum(policy * action_values, axis=2))


def optimal_return(problem: FiniteProblem) -> float:
    """The largest expected return of any policy, which may depend on time."""
    steps = _backwards(problem, lambda action_values: np.max(action_values, axis=2))
    ((first, _),) = deque(steps, maxlen=1)  # the tables of all times would take far more memory than the problem's
    return float(problem.start_probabilities @ first @ problem.goal_probabilities)


def _recursion(problem: FiniteProblem, choose: Callable[[np.ndarray], np.ndarray]) -> Values:
    values, action_values = zip(*_backwards(problem, choose), strict=True)
    return Values(np.stack([*values[::-1], np.zeros(problem.reached.shape)]), np.stack(action_values[::-1]))


def _backwards(
    problem: FiniteProblem, choose: Callable[[np.ndarray], np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """V_t and Q_t, from the last action to the first."""
    values = np.zeros(problem.reached.shape)
    for time in reversed(range(problem.actions_per_episode)):
        transitions = problem.transition_probabilities[min(time, len(problem.transition_probabilities) - 1)]
        arriving = problem.rewards[time] + np.where(problem.reached, 0, values)
        action_values = np.moveaxis(np.tensordot(transitions, arriving, axes=1), 1, 2)
        values = choose(action_values)
        yield values, action_values
