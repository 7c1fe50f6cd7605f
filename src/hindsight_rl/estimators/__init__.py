"""Gradient estimators: pure functions from log-ratios and rewards to coefficients of grad log pi.

Every policy gradient of the paper has the form

    sum over goals g, episodes i and times t of  c[g, i, t] * grad log p(a[i, t] | s[i, t], g)

with c held constant; an estimator returns c. There is no network and no environment in sight, so they fit any training
loop: differentiate `sum(c * log_probabilities)` with respect to your parameters.

Axes: time t counts actions from 0. `rewards[g, i, t]` is the reward, under goal g, of the state that action t leads to;
`log_ratios[g, i, t]` is the log of the likelihood ratio of the actions 0..t under goal g and under the goal pursued, as
`cumulative_log_ratios` makes it. The goal-conditional forms know only the pursued goal and have no goal axis.
"""

from hindsight_rl.estimators.hindsight import (
    every_decision,
    hindsight_action_value,
    hindsight_advantage,
    hindsight_baseline,
    one_step_advantage,
    per_decision,
    without_ratios,
)
from hindsight_rl.estimators.optimal_baseline import optimal_constant_baseline
from hindsight_rl.estimators.pursued_goal import (
    goal_conditional,
    goal_conditional_action_value,
    goal_conditional_advantage,
    goal_conditional_baseline,
)
from hindsight_rl.estimators.ratios import (
    cumulative_log_ratios,
    effective_sample_size,
    normalised_ratios,
    rewards_to_go,
)
from hindsight_rl.estimators.weighted import weighted_baseline, weighted_per_decision

__all__ = [
    "cumulative_log_ratios",
    "effective_sample_size",
    "every_decision",
    "goal_conditional",
    "goal_conditional_action_value",
    "goal_conditional_advantage",
    "goal_conditional_baseline",
    "hindsight_action_value",
    "hindsight_advantage",
    "hindsight_baseline",
    "normalised_ratios",
    "one_step_advantage",
    "optimal_constant_baseline",
    "per_decision",
    "rewards_to_go",
    "weighted_baseline",
    "weighted_per_decision",
    "without_ratios",
]
