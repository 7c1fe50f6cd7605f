"""Truncated corrections: exact where theory says so, and otherwise what plain loops say."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.cases import Case, bit_flipping_case, random_case
from reference.compilation import quick_jit
from reference.enumeration import (
    Problem,
    action_log_probabilities,
    largest_component,
    largest_difference,
    trajectory_probabilities,
)

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.estimators import off_policy
from hindsight_rl.estimators.off_policy import clipped_coefficients, earlier_ratio_weights, effective_share

LEVELS = ("rho_bar", "c_bar", "trace", "discount")
truncated_targets = quick_jit(off_policy.truncated_targets, static_argnames=LEVELS)

action_value_targets = quick_jit(off_policy.action_value_targets, static_argnames=LEVELS[1:])

pytestmark = pytest.mark.usefixtures("double_precision")

CASES: dict[str, Callable[[], Case]] = {"random": random_case, "bits": lambda: bit_flipping_case(2)}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, double_precision: None) -> Case:
    return CASES[request.param]()


def value_table(problem: Problem, policy: np.ndarray) -> np.ndarray:
    """[goal, time, state] values of a policy [goal, state, action], by looking back from the horizon."""
    values = [np.zeros(problem.ends.shape)]
    for time in reversed(range(len(problem.transitions))):
        arriving = problem.rewards[:, time] + np.where(problem.ends, 0, values[-1])
        values.append(np.einsum("gsa,san,gn->gs", policy, problem.transitions[time], arriving))
    return np.stack(values[::-1], axis=1)


def along(case: Case, table: np.ndarray) -> np.ndarray:
    """[goal, trajectory, state] of a table [goal, time, state]."""
    return table[:, np.arange(table.shape[1])[None], case.trajectories.states]


def course(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """[goal, trajectory, time] which actions are decisions under a goal, and after which nothing follows."""
    reached = case.problem.ends[:, case.trajectories.states[:, 1:]]
    before = np.cumsum(reached, axis=2) - reached
    ends = reached.copy()
    ends[:, :, -1] = True
    return before == 0, ends


def behaviours(case: Case) -> list[np.ndarray]:
    """[state, action] log-probabilities of policies that may have acted: under each goal, and an unrelated one."""
    _, states, actions = case.table.shape
    return [*case.table, np.log(np.random.default_rng(5).dirichlet(np.ones(actions), size=states))]


@pytest.mark.parametrize("values", ["exact", "arbitrary"])
def test_untruncated_coefficients_with_earlier_ratios_are_exact(case: Case, values: str) -> None:
    """Theorems 4.3 and 4.4 for any pursued goal and any behaviour; with trace 1 the values need not even be right."""
    table = value_table(case.problem, np.exp(case.table))
    if values == "arbitrary":
        table = np.random.default_rng(2).normal(size=table.shape)
    decides, ends = course(case)
    assert largest_component(case.true_gradient) > 1e-2
    for behaviour in behaviours(case):
        taken = action_log_probabilities(case.trajectories, behaviour[None])[0]
        chances = trajectory_probabilities(case.trajectories, behaviour[None])[0]
        coefficients = np.zeros(case.rewards.shape)
        for goal, rows in enumerate(along(case, table)):
            logs = case.log_probabilities[goal]
            targets = truncated_targets(
                logs - taken, case.rewards[goal], rows, decides[goal], ends[goal], rho_bar=math.inf, c_bar=math.inf
            )
            earlier = earlier_ratio_weights(logs - taken, decides[goal], normalised=False)
            weights = off_policy.truncated_ratios(logs - taken, math.inf) * earlier
            found = clipped_coefficients(logs, logs, targets.advantages, weights)
            assert not np.any(found.clipped)
            coefficients[goal] = case.problem.goal_probabilities[goal] * np.asarray(found.coefficients)
        assert largest_difference(case.estimate(chances, coefficients), case.true_gradient) < 1e-9


@pytest.mark.parametrize(("rho_bar", "c_bar", "trace"), [(1.0, 1.0, 1.0), (0.7, 1.3, 0.6), (1.5, 0.5, 0.9), (9, 1, 0)])
def test_the_fixed_point_is_the_value_of_the_truncated_policy(
    case: Case, rho_bar: float, c_bar: float, trace: float
) -> None:
    """Values of the policy proportional to min(rho_bar mu, p) are handed back, on average, at every time and state."""
    decides, ends = course(case)
    for behaviour in behaviours(case):
        cut = np.minimum(rho_bar * np.exp(behaviour)[None], np.exp(case.table))
        table = value_table(case.problem, cut / cut.sum(axis=2, keepdims=True))
        taken = action_log_probabilities(case.trajectories, behaviour[None])[0]
        chances = trajectory_probabilities(case.trajectories, behaviour[None])[0]
        for goal, rows in enumerate(along(case, table)):
            targets = truncated_targets(
                case.log_probabilities[goal] - taken,
                case.rewards[goal],
                rows,
                decides[goal],
                ends[goal],
                rho_bar=rho_bar,
                c_bar=c_bar,
                trace=trace,
            )
            gaps = np.where(decides[goal], np.asarray(targets.values) - rows[:, :-1], 0) * chances[:, None]
            for time in range(gaps.shape[1]):
                sums = np.zeros(table.shape[2])
                np.add.at(sums, case.trajectories.states[:, time], gaps[:, time])
                np.testing.assert_allclose(sums, 0, atol=1e-12)


def random_batch(seed: int, pairs: int = 7, times: int = 6) -> dict[str, np.ndarray]:
    """Pairs of any length: some end at their goal, some at the horizon, some for another reason."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, times + 1, pairs)
    lengths[0] = times
    decides = np.arange(times)[None] < lengths[:, None]
    ends = np.zeros((pairs, times), bool)
    ends[:, -1] = True
    reaches = np.flatnonzero((generator.random(pairs) < 0.5) & (lengths > 0))
    ends[reaches, lengths[reaches] - 1] = True
    return {
        "log_ratios": generator.normal(size=(pairs, times)),
        "rewards": generator.normal(size=(pairs, times)),
        "values": generator.normal(size=(pairs, times + 1)),
        "decides": decides,
        "ends": ends,
    }


def plain_targets(
    batch: dict[str, np.ndarray], rho_bar: float, c_bar: float, trace: float, discount: float
) -> tuple[np.ndarray, np.ndarray]:
    """The recursion of the docstring, one decision at a time from the last to the first."""
    values, advantages = batch["values"][:, :-1].copy(), np.zeros(batch["rewards"].shape)
    for pair, decides in enumerate(batch["decides"]):
        value = batch["values"][pair]
        for time in reversed(range(int(decides.sum()))):
            following, target = value[time + 1], value[time + 1]
            if time + 1 < decides.sum():
                target = values[pair, time + 1]
            if batch["ends"][pair, time]:
                following = target = 0.0
            ratio, reward = math.exp(batch["log_ratios"][pair, time]), batch["rewards"][pair, time]
            error = min(rho_bar, ratio) * (reward + discount * following - value[time])
            handed = discount * trace * min(c_bar, ratio) * (target - following)
            values[pair, time] = value[time] + error + handed
            advantages[pair, time] = reward + discount * target - value[time]
    return values, advantages


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("levels", [(1.0, 1.0, 1.0, 1.0), (1.4, 0.8, 0.7, 0.9), (math.inf, math.inf, 1.0, 0.5)])
def test_targets_are_what_plain_loops_say(seed: int, levels: tuple[float, float, float, float]) -> None:
    batch = random_batch(seed)
    found = truncated_targets(**batch, **dict(zip(LEVELS, levels, strict=True)))
    values, advantages = plain_targets(batch, *levels)
    np.testing.assert_allclose(found.values, values, atol=1e-12)
    np.testing.assert_allclose(found.advantages, advantages, atol=1e-12)


def test_with_one_behaviour_and_no_truncation_the_advantage_is_the_return_less_the_value() -> None:
    """On-policy with trace 1: sums of rewards, with the value of the last state where the episode was cut short."""
    batch = random_batch(3)
    found = truncated_targets(**{**batch, "log_ratios": np.zeros_like(batch["log_ratios"])})
    for pair, decides in enumerate(batch["decides"]):
        length = int(decides.sum())
        last = 0.0 if length == 0 or batch["ends"][pair, length - 1] else batch["values"][pair, length]
        for time in range(length):
            expected = batch["rewards"][pair, time:length].sum() + last
            assert float(found.values[pair, time]) == pytest.approx(expected)
            assert float(found.advantages[pair, time]) == pytest.approx(expected - batch["values"][pair, time])


@pytest.mark.parametrize(("c_bar", "trace"), [(1.0, 1.0), (0.6, 0.8), (1.0, 0.0), (math.inf, 0.7)])
def test_the_fixed_point_of_action_values_is_that_of_the_policy_itself(case: Case, c_bar: float, trace: float) -> None:
    """Whoever acted: on average, each action's own value is handed back, at every time, in every state."""
    decides, ends = course(case)
    policy = np.exp(case.table)
    values = value_table(case.problem, policy)
    arriving = case.problem.rewards[:, :, None] + np.where(case.problem.ends[:, None], 0, values[:, 1:])[:, :, None]
    table = np.einsum("tsan,gton->gtsa", case.problem.transitions, arriving)
    states, actions = case.trajectories.states[:, :-1], case.trajectories.actions
    times = np.arange(states.shape[1])[None]
    for behaviour in behaviours(case):
        taken = action_log_probabilities(case.trajectories, behaviour[None])[0]
        chances = trajectory_probabilities(case.trajectories, behaviour[None])[0]
        for goal, rows in enumerate(along(case, values)):
            own = table[goal, times, states, actions]
            found = action_value_targets(
                case.log_probabilities[goal] - taken,
                case.rewards[goal],
                own,
                rows,
                decides[goal],
                ends[goal],
                c_bar=c_bar,
                trace=trace,
            )
            gaps = np.where(decides[goal], np.asarray(found.values) - own, 0) * chances[:, None]
            for time in range(gaps.shape[1]):
                sums = np.zeros(table.shape[2:])
                np.add.at(sums, (states[:, time], actions[:, time]), gaps[:, time])
                np.testing.assert_allclose(sums, 0, atol=1e-12)
            advantages = np.where(decides[goal], np.asarray(found.values) - rows[:, :-1], 0)
            np.testing.assert_allclose(found.advantages, advantages, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("levels", [(1.0, 1.0, 1.0), (0.8, 0.7, 0.9), (math.inf, 1.0, 0.5)])
def test_targets_of_actions_are_what_plain_loops_say(seed: int, levels: tuple[float, float, float]) -> None:
    batch, (c_bar, trace, discount) = random_batch(seed), levels
    expected_values = batch.pop("values")
    own = np.random.default_rng(50 + seed).normal(size=batch["rewards"].shape)
    found = action_value_targets(
        **batch, action_values=own, expected_values=expected_values, c_bar=c_bar, trace=trace, discount=discount
    )
    values = own.copy()
    for pair, decides in enumerate(batch["decides"]):
        count = int(decides.sum())
        for time in reversed(range(count)):
            following = 0.0 if batch["ends"][pair, time] else expected_values[pair, time + 1]
            if time + 1 < count and not batch["ends"][pair, time]:
                ratio = min(c_bar, math.exp(batch["log_ratios"][pair, time + 1]))
                following += trace * ratio * (values[pair, time + 1] - own[pair, time + 1])
            values[pair, time] = batch["rewards"][pair, time] + discount * following
    np.testing.assert_allclose(found.values, values, atol=1e-12)
    advantages = np.where(batch["decides"], values - expected_values[:, :-1], 0)
    np.testing.assert_allclose(found.advantages, advantages, atol=1e-12)


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
def test_earlier_ratios_are_normalised_over_the_pairs_that_decide(power: float) -> None:
    batch = random_batch(4)
    ratios, decides = np.exp(batch["log_ratios"]), batch["decides"]
    found = np.asarray(earlier_ratio_weights(batch["log_ratios"], decides, power))
    for time in range(decides.shape[1]):
        products = [np.prod(row[:time]) ** power for row in ratios]
        deciding = np.flatnonzero(decides[:, time])
        total = sum(products[pair] for pair in deciding)
        for pair in range(len(decides)):
            expected = len(deciding) * products[pair] / total if decides[pair, time] else 0.0
            assert found[pair, time] == pytest.approx(expected)


@pytest.mark.parametrize("clip", [0.1, 0.5, math.inf])
def test_coefficients_are_the_gradient_of_the_clipped_objective(clip: float) -> None:
    generator = np.random.default_rng(8)
    logs, advantages, weights = generator.normal(size=(3, 200)) * np.array([[0.4], [1], [1]])
    old, weights = np.zeros(200), np.abs(weights)
    advantages[:5] = 0

    def objective(logs: Any) -> Any:
        ratios = jnp.exp(logs - old)
        return jnp.sum(weights * jnp.minimum(ratios * advantages, jnp.clip(ratios, 1 - clip, 1 + clip) * advantages))

    found = clipped_coefficients(logs, old, advantages, weights, clip)
    np.testing.assert_allclose(found.coefficients, quick_jit(jax.grad(objective))(logs), atol=1e-12)
    assert np.any(found.clipped) == (clip < 1)


def test_extreme_ratios_are_finite() -> None:
    batch = random_batch(0)
    logs = np.where(batch["log_ratios"] > 0, 1e4, -1e4)
    found = truncated_targets(**{**batch, "log_ratios": logs})
    assert np.all(np.isfinite(found.values))
    assert np.all(np.isfinite(found.advantages))
    weights = earlier_ratio_weights(logs, batch["decides"])
    assert np.all(np.isfinite(weights))
    nothing = np.zeros_like(logs)
    assert np.all(np.asarray(clipped_coefficients(logs + 2e4, nothing, nothing, weights).coefficients) == 0)


def test_the_effective_share_of_equal_weights_is_one_and_of_a_single_weight_one_of_them() -> None:
    counted = np.array([True, True, True, True, False])
    assert float(effective_share(np.full(5, 0.3), counted)) == pytest.approx(1)
    assert float(effective_share(np.array([2.0, 0, 0, 0, 7]), counted)) == pytest.approx(1 / 4)
    assert float(effective_share(np.zeros(5), counted)) == 0


BATCH = random_batch(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rewards": BATCH["rewards"][:, :4]}, "rewards has 4 along 'time', but log_ratios has 6"),
        ({"values": BATCH["values"][:, 1:]}, "values has 5 along 'time'"),
        ({"ends": BATCH["ends"][0]}, r"ends must have the axes \[pair, time\]"),
        ({"decides": np.arange(6)[None] % 2 == np.zeros((len(BATCH["decides"]), 1))}, "decides has a hole: pair 0"),
        ({"rho_bar": 0.0}, "rho_bar must be above zero, not 0.0"),
        ({"c_bar": math.nan}, "c_bar must be above zero, not nan"),
        ({"trace": 1.5}, "trace must be a number from 0 to 1, not 1.5"),
        ({"discount": -1}, "discount must be a number from 0 to 1, not -1"),
    ],
)
def test_a_wrong_argument_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(HindsightError, match=message):
        off_policy.truncated_targets(**{**BATCH, **change})


def test_wrong_arguments_of_the_other_functions_are_named() -> None:
    logs = BATCH["log_ratios"]
    with pytest.raises(HindsightError, match="power must be a number from 0 to 1, not 2"):
        earlier_ratio_weights(logs, BATCH["decides"], 2)
    with pytest.raises(HindsightError, match="advantages has 4 along 'axis1'"):
        clipped_coefficients(logs, logs, logs[:, :4], logs)
    with pytest.raises(HindsightError, match="clip must be above zero"):
        clipped_coefficients(logs, logs, logs, logs, 0.0)
