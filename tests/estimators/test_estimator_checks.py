"""Bad input to the public estimators: one sentence that names the argument."""

from typing import Any

import jax
import numpy as np
import pytest

from hindsight_rl import estimators
from hindsight_rl.core.errors import HindsightError

LOGS = np.log(np.full((2, 3, 4), 0.5))
REWARDS = np.ones((2, 3, 4))
HALVES = np.array([0.5, 0.5])
TAKEN = np.ones((3, 4), bool)
HOLE = np.array([[True, False, True, False], [True] * 4, [False] * 4])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: estimators.per_decision(LOGS, REWARDS[:, :, :3], HALVES), "values has 3 along 'time'"),
        (lambda: estimators.per_decision(LOGS, REWARDS, np.ones(3) / 3), "goal_probabilities has 3 along 'goal'"),
        (lambda: estimators.every_decision(LOGS, REWARDS, np.array([0.7, 0.7])), "goal_probabilities must sum to at"),
        (lambda: estimators.without_ratios(REWARDS, np.array([1.5, -0.5])), "goal_probabilities must not be negative"),
        (
            lambda: estimators.weighted_per_decision(LOGS, REWARDS[:1], HALVES, TAKEN),
            "rewards has 1 along 'goal', but log_ratios has 2",
        ),
        (lambda: estimators.weighted_baseline(LOGS, REWARDS[0], HALVES, TAKEN), "baselines must have the axes"),
        (lambda: estimators.weighted_per_decision(LOGS, REWARDS, HALVES, HOLE), "taken has a hole: episode 0"),
        (lambda: estimators.normalised_ratios(LOGS, TAKEN[:, :2]), "taken has 2 along 'time'"),
        (lambda: estimators.normalised_ratios(LOGS, TAKEN, "drp"), "no choice 'drp' of ended. Did you mean 'drop'"),
        (lambda: estimators.cumulative_log_ratios(-LOGS, LOGS[0], TAKEN), "log_probabilities must hold logarithms"),
        (lambda: estimators.cumulative_log_ratios(LOGS, LOGS[0] + 1, TAKEN), "behaviour must hold logarithms"),
        (lambda: estimators.cumulative_log_ratios(LOGS * np.nan, LOGS[0], TAKEN), "not-a-number is above zero"),
        (lambda: estimators.cumulative_log_ratios(LOGS, LOGS[0], HOLE), "taken has a hole"),
        (lambda: estimators.goal_conditional(REWARDS), r"rewards must have the axes \[episode, time\]"),
        (lambda: estimators.goal_conditional_baseline(TAKEN, TAKEN[:2]), "baselines has 2 along 'episode'"),
        (lambda: estimators.one_step_advantage(REWARDS, REWARDS), "values has 3 along 'time'"),
        (lambda: estimators.optimal_constant_baseline(LOGS[0], LOGS[0], HALVES), "probabilities has 2 along 'sample'"),
        (lambda: estimators.optimal_constant_baseline(LOGS[0], LOGS[0], np.ones(3)), "probabilities must sum to one"),
    ],
)
def test_a_wrong_argument_is_named(call: Any, message: str) -> None:
    with pytest.raises(HindsightError, match=message):
        call()


def test_shapes_are_checked_while_tracing_and_values_are_not() -> None:
    compiled = jax.jit(estimators.cumulative_log_ratios)
    assert np.all(np.isfinite(compiled(-LOGS, LOGS[0], TAKEN)))
    with pytest.raises(HindsightError, match="behaviour has 2 along 'episode'"):
        compiled(LOGS, LOGS[0, :2], TAKEN)


def test_goals_may_be_a_part_of_all() -> None:
    assert estimators.per_decision(LOGS, REWARDS, np.array([0.1, 0.2])).shape == (2, 3, 4)
