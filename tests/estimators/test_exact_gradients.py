"""The estimators against the true gradient of the expected return, on problems with every trajectory written down."""

import itertools
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.cases import Case, all_bits, bit_flipping_case, random_case, softmax_table, sum_over_goals
from reference.compilation import quick_jit
from reference.enumeration import (
    Trajectories,
    all_goals,
    all_trajectories,
    deterministic_problem,
    episodes_of,
    expected_return,
    largest_component,
    largest_difference,
    lengths_until_end,
    trajectory_probabilities,
)

from hindsight_rl import estimators
from hindsight_rl.agents.active_goals import rewards_of_goals
from hindsight_rl.agents.options import PolicyOptions
from hindsight_rl.environments.bit_flipping import BitFlipping

TOLERANCE = 1e-10
"""float64; the largest gradient components are above 1e-2."""

# Compiled as a whole: one by one, their operations take longer to compile than all of these tests to run.
goal_conditional = quick_jit(estimators.goal_conditional)
goal_conditional_baseline = quick_jit(estimators.goal_conditional_baseline)
per_decision = quick_jit(estimators.per_decision)
weighted_per_decision = quick_jit(estimators.weighted_per_decision)
weighted_baseline = quick_jit(estimators.weighted_baseline)
without_ratios = quick_jit(estimators.without_ratios)
cumulative_log_ratios = quick_jit(estimators.cumulative_log_ratios)
normalised_ratios = quick_jit(estimators.normalised_ratios, static_argnames="ended")

pytestmark = pytest.mark.usefixtures("double_precision")


CASES: dict[str, Callable[[], Case]] = {
    "random table": random_case,
    "2 bits": lambda: bit_flipping_case(2),
    "3 bits": lambda: bit_flipping_case(3),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, double_precision: None) -> Case:
    return CASES[request.param]()


def per_decision_estimate(case: Case, pursued: int, rewards: np.ndarray, taken: np.ndarray) -> Any:
    """The exact expectation of Theorem 5.1's estimator when every episode pursues one given goal."""
    log_ratios = cumulative_log_ratios(case.log_probabilities, case.log_probabilities[pursued], taken)
    coefficients = np.asarray(per_decision(log_ratios, rewards, case.problem.goal_probabilities))
    # The estimator takes the mean over what it thinks is a batch; the expectation weighs by probability instead.
    return case.estimate(case.probabilities[pursued], coefficients * rewards.shape[1])


def test_the_problems_are_complete_and_the_gradients_not_trivial(case: Case) -> None:
    np.testing.assert_allclose(case.probabilities.sum(axis=1), 1, rtol=0, atol=1e-10)
    by_trajectory = case.problem.goal_probabilities @ (case.probabilities * case.rewards.sum(axis=2)).sum(axis=1)
    np.testing.assert_allclose(by_trajectory, quick_jit(expected_return)(case.problem, case.table), rtol=1e-10)
    assert largest_component(case.true_gradient) > 1e-2


def test_goal_conditional_is_unbiased(case: Case) -> None:
    coefficients = [np.asarray(goal_conditional(own)) * len(own) for own in case.rewards]
    assert largest_difference(sum_over_goals(case, coefficients), case.true_gradient) < TOLERANCE


def test_goal_conditional_is_unbiased_with_any_baseline(case: Case) -> None:
    goals, count, times = case.rewards.shape
    table = np.random.default_rng(3).normal(size=(goals, times, len(case.problem.start)))
    baselines = table[:, np.arange(times)[None], case.trajectories.states[:, :-1]]
    coefficients = [
        np.asarray(goal_conditional_baseline(own, baseline)) * count
        for own, baseline in zip(case.rewards, baselines, strict=True)
    ]
    np.testing.assert_allclose(
        coefficients, np.cumsum(case.rewards[..., ::-1], axis=2)[..., ::-1] - baselines, atol=1e-12
    )
    assert largest_difference(sum_over_goals(case, coefficients), case.true_gradient) < TOLERANCE


def test_per_decision_is_unbiased_whatever_goal_is_pursued(case: Case) -> None:
    taken = np.ones(case.trajectories.actions.shape, bool)
    for pursued in range(len(case.problem.goal_probabilities)):
        estimate = per_decision_estimate(case, pursued, case.rewards, taken)
        assert largest_difference(estimate, case.true_gradient) < TOLERANCE


def test_leaving_the_ratios_out_is_biased(case: Case) -> None:
    coefficients = np.asarray(without_ratios(case.rewards, case.problem.goal_probabilities)) * case.rewards.shape[1]
    mixture = case.problem.goal_probabilities @ case.probabilities
    assert largest_difference(case.estimate(mixture, coefficients), case.true_gradient) > 1e-2


@partial(quick_jit, static_argnums=0)
def rewards_and_taken(bits: int, *batch: Any) -> tuple[jax.Array, jax.Array]:
    episodes, goals = batch
    return rewards_of_goals(BitFlipping(bits), episodes, goals)[0], episodes.taken


def library_rewards(
    case: Case, bits: int, pursued: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rewards of every goal and actions taken as the library sees them, and the log-ratios that follow."""
    states = all_bits(bits)
    episodes = episodes_of(case.trajectories, states, pursued, lengths, case.table)
    rewards, taken = rewards_and_taken(bits, episodes, all_goals(case.problem, states))
    log_ratios = cumulative_log_ratios(case.log_probabilities, episodes.log_probabilities, taken)
    return np.asarray(rewards), np.asarray(taken), np.asarray(log_ratios)


@pytest.mark.parametrize("bits", [2, 3])
def test_full_horizon_with_each_goal_cut_at_its_first_achievement_is_exact(bits: int) -> None:
    case = bit_flipping_case(bits)
    count = len(case.trajectories.actions)
    for pursued in range(2**bits):
        rewards, taken, _ = library_rewards(case, bits, np.full(count, pursued), np.full(count, bits))
        np.testing.assert_array_equal(rewards, case.rewards)
        estimate = per_decision_estimate(case, pursued, rewards, taken)
        assert largest_difference(estimate, case.true_gradient) < TOLERANCE


def test_ending_at_the_pursued_goal_is_biased() -> None:
    """As published: what would have followed the pursued goal is lost, and with it reward under other goals."""
    case = bit_flipping_case(2)
    estimates = []
    for pursued, goal_probability in enumerate(case.problem.goal_probabilities):
        goals = np.full(len(case.trajectories.actions), pursued)
        lengths = lengths_until_end(case.problem, case.trajectories, goals)
        rewards, taken, _ = library_rewards(case, 2, goals, lengths)
        estimate = per_decision_estimate(case, pursued, rewards, taken)
        estimates.append(jax.tree.map(lambda leaf, p=goal_probability: p * np.asarray(leaf), estimate))
    error = largest_difference(jax.tree.map(lambda *leaves: sum(leaves), *estimates), case.true_gradient)
    assert 5e-3 < error < largest_component(case.true_gradient)


def test_ending_at_the_pursued_goal_does_not_bias_the_goal_conditional_estimator() -> None:
    case = bit_flipping_case(2)
    coefficients = []
    for pursued in range(4):
        goals = np.full(len(case.trajectories.actions), pursued)
        rewards, _, _ = library_rewards(case, 2, goals, lengths_until_end(case.problem, case.trajectories, goals))
        coefficients.append(np.asarray(goal_conditional(rewards[pursued])) * len(goals))
    assert largest_difference(sum_over_goals(case, coefficients), case.true_gradient) < TOLERANCE


class NearBits(BitFlipping):
    """Within one bit of its goal is near enough, and no goal lies one bit from the start.

    So the first state reaches one goal only, the start itself, and whatever is done first reaches it again.
    """

    def reached(self, achieved: jax.Array, goal: jax.Array) -> jax.Array:
        return jnp.sum(achieved != goal) <= 1

    def goal_probability(self, goal: jax.Array) -> jax.Array:
        return jnp.where(jnp.sum(goal) == 1, 0, 2.0**-self.bits)


@pytest.mark.parametrize(("environment", "exact"), [(NearBits(3), True), (BitFlipping(3), False)])  # type: ignore[call-arg]
def test_goals_reached_at_the_start_teach_nothing_where_the_first_action_cannot_leave_them(
    environment: BitFlipping, exact: bool
) -> None:
    states, bits = all_bits(3), bit_flipping_case(3)
    case = Case(deterministic_problem(environment, states), bits.log_policy, bits.parameters, bits.trajectories)
    count = len(case.trajectories.actions)
    taken = np.ones((count, 3), bool)
    episodes = episodes_of(case.trajectories, states, np.zeros(count, int), np.full(count, 3), case.table)
    options = PolicyOptions(skip_reached=True)
    find = quick_jit(lambda batch, goals: rewards_of_goals(environment, batch, goals, options)[0])
    rewards = np.asarray(find(episodes, all_goals(case.problem, states)))
    assert not np.any(rewards[0])
    assert np.any(case.rewards[0])
    coefficients = [np.asarray(goal_conditional(own)) * count for own in rewards]
    estimates = [sum_over_goals(case, coefficients), per_decision_estimate(case, 5, rewards, taken)]
    for estimate in estimates:
        error = largest_difference(estimate, case.true_gradient)
        assert error < TOLERANCE if exact else error > 1e-2


class Census(NamedTuple):
    """A batch in which every (goal, trajectory) occurs exactly as often as its probability says.

    What is consistent (exact in the limit of large batches) must be exact on such a batch.
    """

    case: Case
    pursued: np.ndarray
    """[episode] number of the goal"""


@cache
def census() -> Census:
    """2 bits with action probabilities in quarters: trajectories in sixteenths, so sixteen copies of each goal."""
    problem = deterministic_problem(BitFlipping(2), all_bits(2))
    quarters = np.random.default_rng(5).choice([1, 2, 3], size=(4, 4))
    logits = np.log(np.stack([quarters, 4 - quarters], axis=2) / 4)
    once = all_trajectories(problem)
    copies = np.rint(16 * trajectory_probabilities(once, logits)).astype(int)
    assert np.all(copies.sum(axis=1) == 16)
    numbers = np.concatenate([np.repeat(np.arange(len(once.actions)), row) for row in copies])
    trajectories = Trajectories(*(part[numbers] for part in once))
    return Census(Case(problem, softmax_table, logits, trajectories), np.repeat(np.arange(4), 16))


def test_weighted_per_decision_is_exact_on_a_batch_without_sampling_error() -> None:
    case, pursued = census()
    rewards, taken, log_ratios = library_rewards(case, 2, pursued, np.full(64, 2))
    coefficients = weighted_per_decision(log_ratios, rewards, case.problem.goal_probabilities, taken)
    assert largest_difference(case.estimate(np.ones(64), coefficients), case.true_gradient) < TOLERANCE


def test_weighted_baseline_vanishes_on_a_batch_without_sampling_error() -> None:
    case, pursued = census()
    _, taken, log_ratios = library_rewards(case, 2, pursued, np.full(64, 2))
    table = np.random.default_rng(2).normal(size=(4, 2, 4))
    baselines = table[:, np.arange(2)[None], case.trajectories.states[:, :-1]]
    coefficients = weighted_baseline(log_ratios, baselines, case.problem.goal_probabilities, taken)
    assert largest_component(coefficients) > 1e-3
    assert largest_component(case.estimate(np.ones(64), coefficients)) < TOLERANCE


def test_carrying_the_ratio_of_ended_episodes_keeps_the_normaliser_at_the_batch_size() -> None:
    case, pursued = census()
    lengths = lengths_until_end(case.problem, case.trajectories, pursued)
    assert len(set(lengths)) > 1
    _, taken, log_ratios = library_rewards(case, 2, pursued, lengths)
    carried = np.asarray(normalised_ratios(log_ratios, taken, ended="carry"))
    np.testing.assert_allclose(carried, np.where(taken, np.exp(log_ratios) / 64, 0), rtol=1e-12)
    dropped = np.asarray(normalised_ratios(log_ratios, taken, ended="drop"))
    assert np.max(np.abs(dropped - carried)) > 1e-3


def test_a_batch_mean_of_two_episodes_is_unbiased() -> None:
    """Every possible batch of two 2-bit episodes with its probability: the division by the batch size is right."""
    case = bit_flipping_case(2)
    count = len(case.trajectories.actions)
    episodes = np.array(list(itertools.product(range(4), range(count))))
    taken = np.ones((2, 2), bool)
    totals = np.zeros(case.rewards.shape)
    for batch in itertools.product(episodes, repeat=2):
        pursued, numbers = np.array(batch).T
        log_ratios = cumulative_log_ratios(
            case.log_probabilities[:, numbers], case.log_probabilities[pursued, numbers], taken
        )
        coefficients = per_decision(log_ratios, case.rewards[:, numbers], case.problem.goal_probabilities)
        chance = np.prod(case.problem.goal_probabilities[pursued] * case.probabilities[pursued, numbers])
        np.add.at(totals, (slice(None), numbers), chance * np.asarray(coefficients))
    assert largest_difference(case.estimate(np.ones(count), totals), case.true_gradient) < TOLERANCE
