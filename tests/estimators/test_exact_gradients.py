"""The estimators against the true gradient of the expected return, on problems with every trajectory written down."""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.enumeration import (
    LogPolicy,
    Problem,
    Trajectories,
    action_log_probabilities,
    all_goals,
    all_trajectories,
    deterministic_problem,
    episodes_of,
    expected_estimate,
    expected_return,
    largest_component,
    largest_difference,
    lengths_until_end,
    random_problem,
    rewards_along,
    trajectory_probabilities,
)

from hindsight.agents.active_goals import rewards_of_goals
from hindsight.environments.bit_flipping import BitFlipping
from hindsight.estimators.goal_conditional import goal_conditional, goal_conditional_baseline
from hindsight.estimators.hindsight import per_decision, weighted_baseline, weighted_per_decision, without_ratios
from hindsight.estimators.ratios import cumulative_log_ratios, normalised_ratios
from hindsight.networks.policy import Policy

TOLERANCE = 1e-10
"""float64; the largest gradient components are above 1e-2."""

pytestmark = pytest.mark.usefixtures("double_precision")


class Case(NamedTuple):
    """A problem, a policy for it, and what follows from both."""

    problem: Problem
    log_policy: LogPolicy
    parameters: Any
    trajectories: Trajectories

    @property
    def table(self) -> jax.Array:
        return self.log_policy(self.parameters)

    @property
    def probabilities(self) -> jax.Array:
        """[pursued goal, trajectory]"""
        return trajectory_probabilities(self.trajectories, self.table)

    @property
    def true_gradient(self) -> Any:
        return jax.grad(lambda p: expected_return(self.problem, self.log_policy(p)))(self.parameters)

    def estimate(self, weights: jax.Array, coefficients: jax.Array) -> Any:
        return expected_estimate(self.log_policy, self.parameters, self.trajectories, weights, coefficients)


def softmax_table(logits: jax.Array) -> jax.Array:
    return jax.nn.log_softmax(logits, axis=2)


def random_case() -> Case:
    """Time-varying random transitions, unequal goal probabilities, rewards of either sign at every step."""
    generator = np.random.default_rng(7)
    problem = random_problem(generator, goals=3, states=3, actions=2, times=3)
    return Case(problem, softmax_table, jnp.asarray(generator.normal(size=(3, 3, 2))), all_trajectories(problem))


def all_bits(bits: int) -> np.ndarray:
    return np.array(list(itertools.product([0.0, 1.0], repeat=bits)))


def bit_flipping_case(bits: int) -> Case:
    """The real environment and the real network, small and far from uniform."""
    states = all_bits(bits)
    problem = deterministic_problem(BitFlipping(bits), states)

    def log_policy(policy: Policy) -> jax.Array:
        goals, rows = np.repeat(states, len(states), axis=0), np.tile(states, (len(states), 1))
        return policy.log_probabilities(rows, goals).reshape(len(states), len(states), bits)

    policy = Policy(bits, bits, bits, (3,), jax.random.key(0))
    policy = jax.tree.map(lambda leaf: jax.random.normal(jax.random.key(leaf.size), leaf.shape), policy)
    return Case(problem, log_policy, policy, all_trajectories(problem))


CASES = {"random table": random_case, "2 bits": lambda: bit_flipping_case(2), "3 bits": lambda: bit_flipping_case(3)}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, double_precision: None) -> Case:
    return CASES[request.param]()


def everything_taken(trajectories: Trajectories) -> jax.Array:
    return jnp.ones(trajectories.actions.shape, bool)


def sum_over_goals(case: Case, coefficients_of_goal: list[jax.Array]) -> Any:
    """The expectation of a goal-conditional estimator: each goal pursued with its probability, and taught alone."""
    estimates = []
    for goal, coefficients in enumerate(coefficients_of_goal):
        alone = jnp.zeros((len(coefficients_of_goal), *coefficients.shape)).at[goal].set(coefficients)
        estimates.append(case.estimate(case.problem.goal_probabilities[goal] * case.probabilities[goal], alone))
    return jax.tree.map(lambda *leaves: sum(leaves), *estimates)


def per_decision_estimate(case: Case, pursued: int, rewards: jax.Array, taken: jax.Array) -> Any:
    """The exact expectation of Theorem 5.1's estimator when every episode pursues one given goal."""
    log_probabilities = action_log_probabilities(case.trajectories, case.table)
    log_ratios = cumulative_log_ratios(log_probabilities, log_probabilities[pursued], taken)
    coefficients = per_decision(log_ratios, rewards, jnp.asarray(case.problem.goal_probabilities))
    # The estimator takes the mean over what it thinks is a batch; the expectation weighs by probability instead.
    return case.estimate(case.probabilities[pursued], coefficients * len(case.trajectories.actions))


def test_the_problems_are_complete_and_the_gradients_not_trivial(case: Case) -> None:
    np.testing.assert_allclose(case.probabilities.sum(axis=1), 1, rtol=0, atol=1e-10)
    rewards = rewards_along(case.problem, case.trajectories)
    by_trajectory = case.problem.goal_probabilities @ (case.probabilities * rewards.sum(axis=2)).sum(axis=1)
    np.testing.assert_allclose(by_trajectory, expected_return(case.problem, case.table), rtol=1e-10)
    assert largest_component(case.true_gradient) > 1e-2


def test_goal_conditional_is_unbiased(case: Case) -> None:
    rewards = rewards_along(case.problem, case.trajectories)
    count = len(case.trajectories.actions)
    estimate = sum_over_goals(case, [goal_conditional(jnp.asarray(own)) * count for own in rewards])
    assert largest_difference(estimate, case.true_gradient) < TOLERANCE


def test_goal_conditional_is_unbiased_with_any_baseline(case: Case) -> None:
    rewards = rewards_along(case.problem, case.trajectories)
    count, times = case.trajectories.actions.shape
    table = np.random.default_rng(3).normal(size=(len(rewards), times, len(case.problem.start)))
    baselines = table[:, np.arange(times)[None], case.trajectories.states[:, :-1]]
    coefficients = [
        goal_conditional_baseline(jnp.asarray(own), jnp.asarray(baseline)) * count
        for own, baseline in zip(rewards, baselines, strict=True)
    ]
    plain = [goal_conditional(jnp.asarray(own)) * count for own in rewards]
    assert max(float(jnp.max(jnp.abs(a - b))) for a, b in zip(coefficients, plain, strict=True)) > 0.1
    assert largest_difference(sum_over_goals(case, coefficients), case.true_gradient) < TOLERANCE


def test_per_decision_is_unbiased_whatever_goal_is_pursued(case: Case) -> None:
    rewards = jnp.asarray(rewards_along(case.problem, case.trajectories))
    for pursued in range(len(case.problem.goal_probabilities)):
        estimate = per_decision_estimate(case, pursued, rewards, everything_taken(case.trajectories))
        assert largest_difference(estimate, case.true_gradient) < TOLERANCE


def test_leaving_the_ratios_out_is_biased(case: Case) -> None:
    rewards = jnp.asarray(rewards_along(case.problem, case.trajectories))
    coefficients = without_ratios(rewards, jnp.asarray(case.problem.goal_probabilities)) * rewards.shape[1]
    mixture = case.problem.goal_probabilities @ case.probabilities
    assert largest_difference(case.estimate(mixture, coefficients), case.true_gradient) > 1e-2


def batch_rewards(case: Case, bits: int, pursued: int, lengths: np.ndarray) -> tuple[jax.Array, jax.Array]:
    """Rewards of every goal as the library sees them, and which actions were taken, when all pursue one goal."""
    states = all_bits(bits)
    goals = np.full(len(lengths), pursued)
    episodes = episodes_of(case.trajectories, states, goals, lengths, case.table)
    rewards, _ = rewards_of_goals(BitFlipping(bits), episodes, all_goals(case.problem, states))
    return rewards, episodes.taken


@pytest.mark.parametrize("bits", [2, 3])
def test_full_horizon_with_each_goal_cut_at_its_first_achievement_is_exact(bits: int) -> None:
    case = bit_flipping_case(bits)
    lengths = np.full(len(case.trajectories.actions), bits)
    for pursued in range(2**bits):
        rewards, taken = batch_rewards(case, bits, pursued, lengths)
        estimate = per_decision_estimate(case, pursued, rewards, taken)
        assert largest_difference(estimate, case.true_gradient) < TOLERANCE


def test_ending_at_the_pursued_goal_is_biased() -> None:
    """As published: what would have followed the pursued goal is lost, and with it reward under other goals."""
    case = bit_flipping_case(2)
    estimates = []
    for pursued, goal_probability in enumerate(case.problem.goal_probabilities):
        goals = np.full(len(case.trajectories.actions), pursued)
        rewards, taken = batch_rewards(case, 2, pursued, lengths_until_end(case.problem, case.trajectories, goals))
        estimate = per_decision_estimate(case, pursued, rewards, taken)
        estimates.append(jax.tree.map(lambda leaf, p=goal_probability: p * leaf, estimate))
    error = largest_difference(jax.tree.map(lambda *leaves: sum(leaves), *estimates), case.true_gradient)
    assert 3e-3 < error < 1


def test_ending_at_the_pursued_goal_does_not_bias_the_goal_conditional_estimator() -> None:
    case = bit_flipping_case(2)
    coefficients = []
    for pursued in range(4):
        goals = np.full(len(case.trajectories.actions), pursued)
        rewards, _ = batch_rewards(case, 2, pursued, lengths_until_end(case.problem, case.trajectories, goals))
        coefficients.append(goal_conditional(rewards[pursued]) * len(goals))
    assert largest_difference(sum_over_goals(case, coefficients), case.true_gradient) < TOLERANCE


class Census(NamedTuple):
    """A batch in which every (goal, trajectory) occurs exactly as often as its probability says.

    What is consistent (exact in the limit of large batches) must be exact on such a batch.
    """

    case: Case
    pursued: np.ndarray
    """[episode] number of the goal"""

    def ratios_and_rewards(self, lengths: np.ndarray) -> tuple[jax.Array, jax.Array, jax.Array]:
        states = all_bits(2)
        episodes = episodes_of(self.case.trajectories, states, self.pursued, lengths, self.case.table)
        rewards, _ = rewards_of_goals(BitFlipping(2), episodes, all_goals(self.case.problem, states))
        log_probabilities = action_log_probabilities(self.case.trajectories, self.case.table)
        log_ratios = cumulative_log_ratios(log_probabilities, episodes.log_probabilities, episodes.taken)
        return log_ratios, rewards, episodes.taken

    def gradient(self, coefficients: jax.Array) -> Any:
        return self.case.estimate(jnp.ones(len(self.pursued)), coefficients)


def census() -> Census:
    """2 bits with action probabilities in quarters: trajectories in sixteenths, so sixteen copies of each goal."""
    problem = deterministic_problem(BitFlipping(2), all_bits(2))
    quarters = np.random.default_rng(5).choice([1, 2, 3], size=(4, 4))
    logits = jnp.log(jnp.stack([quarters, 4 - quarters], axis=2) / 4)
    once = all_trajectories(problem)
    copies = np.rint(16 * trajectory_probabilities(once, softmax_table(logits))).astype(int)
    assert np.all(copies.sum(axis=1) == 16)
    numbers = np.concatenate([np.repeat(np.arange(len(once.actions)), row) for row in copies])
    trajectories = Trajectories(*(part[numbers] for part in once))
    return Census(Case(problem, softmax_table, logits, trajectories), np.repeat(np.arange(4), 16))


def test_weighted_per_decision_is_exact_on_a_batch_without_sampling_error() -> None:
    batch = census()
    log_ratios, rewards, taken = batch.ratios_and_rewards(np.full(64, 2))
    probabilities = jnp.asarray(batch.case.problem.goal_probabilities)
    coefficients = weighted_per_decision(log_ratios, rewards, probabilities, taken)
    assert largest_difference(batch.gradient(coefficients), batch.case.true_gradient) < TOLERANCE


def test_weighted_baseline_vanishes_on_a_batch_without_sampling_error() -> None:
    batch = census()
    log_ratios, _, taken = batch.ratios_and_rewards(np.full(64, 2))
    table = np.random.default_rng(2).normal(size=(4, 2, 4))
    baselines = jnp.asarray(table[:, np.arange(2)[None], batch.case.trajectories.states[:, :-1]])
    coefficients = weighted_baseline(log_ratios, baselines, jnp.full(4, 0.25), taken)
    assert float(jnp.max(jnp.abs(coefficients))) > 1e-3
    assert largest_component(batch.gradient(coefficients)) < TOLERANCE


def test_carrying_the_ratio_of_ended_episodes_keeps_the_normaliser_at_the_batch_size() -> None:
    batch = census()
    lengths = lengths_until_end(batch.case.problem, batch.case.trajectories, batch.pursued)
    assert len(set(lengths)) > 1
    log_ratios, _, taken = batch.ratios_and_rewards(lengths)
    carried = normalised_ratios(log_ratios, taken, "carry")
    np.testing.assert_allclose(carried, jnp.where(taken[None], jnp.exp(log_ratios) / 64, 0), rtol=1e-12)
    dropped = normalised_ratios(log_ratios, taken, "drop")
    assert float(jnp.max(jnp.abs(dropped - carried))) > 1e-3


def test_a_batch_mean_of_two_episodes_is_unbiased() -> None:
    """Every possible batch of two 2-bit episodes with its probability: the division by the batch size is right."""
    case = bit_flipping_case(2)
    rewards = rewards_along(case.problem, case.trajectories)
    log_probabilities = action_log_probabilities(case.trajectories, case.table)
    goal_probabilities = jnp.asarray(case.problem.goal_probabilities)

    def coefficients(pursued: jax.Array, numbers: jax.Array) -> jax.Array:
        behaviour = log_probabilities[pursued, numbers]
        taken = jnp.ones(behaviour.shape, bool)
        log_ratios = cumulative_log_ratios(log_probabilities[:, numbers], behaviour, taken)
        return per_decision(log_ratios, jnp.asarray(rewards)[:, numbers], goal_probabilities)

    count = len(case.trajectories.actions)
    episodes = np.array(list(itertools.product(range(4), range(count))))
    batches = np.array(list(itertools.product(range(len(episodes)), repeat=2)))
    pursued, numbers = episodes[batches, 0], episodes[batches, 1]
    chances = goal_probabilities[pursued] * case.probabilities[pursued, numbers]
    weighted = jnp.prod(chances, axis=1)[:, None, None, None] * jax.vmap(coefficients)(pursued, numbers)
    totals = jnp.zeros((4, count, 2)).at[:, numbers].add(jnp.moveaxis(weighted, 0, 1))
    assert largest_difference(case.estimate(jnp.ones(count), totals), case.true_gradient) < TOLERANCE
