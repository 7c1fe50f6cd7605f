"""Exact expectations on finite problems: the return of a policy, its values, and its gradient, in float64.

No sampling: the distribution over states is propagated for every start and goal at once, and differentiated.
"""

from hindsight_rl.environments.finite import FiniteProblem, finite_problem
from hindsight_rl.exact.best import best_return
from hindsight_rl.exact.gradient import exact_gradient, policy_table
from hindsight_rl.exact.returns import expected_return, state_distributions
from hindsight_rl.exact.values import Values, exact_values, optimal_return

__all__ = [
    "FiniteProblem",
    "Values",
    "best_return",
    "exact_gradient",
    "exact_values",
    "expected_return",
    "finite_problem",
    "optimal_return",
    "policy_table",
    "state_distributions",
]
