"""The hindsight estimators against plain loops, their reduction to the goal-conditional ones, and extreme ratios."""

from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference import loops
from scipy.special import softmax

from hindsight_rl import estimators
from hindsight_rl.core.errors import HindsightError

cumulative_log_ratios = jax.jit(estimators.cumulative_log_ratios)
normalised_ratios = jax.jit(estimators.normalised_ratios, static_argnames="ended")
weighted_per_decision = jax.jit(estimators.weighted_per_decision, static_argnames="ended")
weighted_baseline = jax.jit(estimators.weighted_baseline, static_argnames="ended")
per_decision = jax.jit(estimators.per_decision)
without_ratios = jax.jit(estimators.without_ratios)
goal_conditional = jax.jit(estimators.goal_conditional)

SHAPES = [(1, 1, 1), (2, 3, 4), (4, 5, 6)]
"""Goals, episodes, times. A few only: each shape compiles anew."""


class Batch(NamedTuple):
    """What an estimator is given, before logarithms."""

    probabilities: np.ndarray
    """[goal, episode, time] of the action taken"""
    behaviour: np.ndarray
    """[episode, time]"""
    lengths: np.ndarray
    rewards: np.ndarray
    baselines: np.ndarray
    goal_probabilities: np.ndarray

    @property
    def taken(self) -> np.ndarray:
        return np.arange(self.behaviour.shape[1])[None] < self.lengths[:, None]

    @property
    def log_ratios(self) -> np.ndarray:
        return cumulative_log_ratios(np.log(self.probabilities), np.log(self.behaviour), self.taken)

    @property
    def ratios(self) -> np.ndarray:
        return loops.likelihood_ratios(self.probabilities, self.behaviour, self.lengths)


def rewards_of(goals: np.ndarray, achieved: np.ndarray, lengths: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """[goal, episode, time] a reward where an episode first reaches a goal."""
    rewards = np.zeros(sizes.shape)
    for goal, episode in np.ndindex(sizes.shape[:2]):
        for time in range(lengths[episode]):
            if achieved[episode, time] == goals[goal]:
                rewards[goal, episode, time] = sizes[goal, episode, time]
                break
    return rewards


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Episodes of unequal lengths that reach few goals: goals repeat, and are reached by several at different times."""
    shape = goals, episodes, times = draw(st.sampled_from(SHAPES))
    probability = st.floats(1e-4, 1.0)
    number = st.floats(-8.0, 8.0)
    lengths = draw(arrays(np.int64, episodes, elements=st.integers(1, times)))
    sizes = draw(arrays(np.float64, shape, elements=number))
    achieved = draw(arrays(np.int64, (episodes, times), elements=st.integers(0, 3)))
    named = draw(arrays(np.int64, goals, elements=st.integers(0, 3)))
    taken = np.arange(times)[None] < lengths[:, None]
    rewarded_throughout = draw(st.booleans())
    return Batch(
        probabilities=draw(arrays(np.float64, shape, elements=probability)),
        behaviour=draw(arrays(np.float64, (episodes, times), elements=probability)),
        lengths=lengths,
        rewards=sizes * taken[None] if rewarded_throughout else rewards_of(named, achieved, lengths, sizes),
        baselines=draw(arrays(np.float64, shape, elements=number)),
        goal_probabilities=draw(arrays(np.float64, goals, elements=st.floats(0.0, 1.0))),
    )


@given(batch=batches(), ended=st.sampled_from(["drop", "carry"]))
def test_weighted_estimators_equal_plain_loops(batch: Batch, ended: str) -> None:
    with jax.enable_x64(True):
        weights = normalised_ratios(batch.log_ratios, batch.taken, ended=ended)
        coefficients = weighted_per_decision(
            batch.log_ratios, batch.rewards, batch.goal_probabilities, batch.taken, ended=ended
        )
        subtracted = weighted_baseline(
            batch.log_ratios, batch.baselines, batch.goal_probabilities, batch.taken, ended=ended
        )
    close = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-10)
    ratios, lengths, probabilities = batch.ratios, batch.lengths, batch.goal_probabilities
    close(weights, loops.normalised_ratios(ratios, lengths, ended))
    close(coefficients, loops.weighted_per_decision(ratios, batch.rewards, probabilities, lengths, ended))
    close(subtracted, loops.weighted_baseline(ratios, batch.baselines, probabilities, lengths, ended))


@pytest.mark.parametrize("ended", ["drop", "carry"])
@pytest.mark.parametrize("floor", [1e-12, 0.3])
def test_a_floor_is_added_to_every_ratio(ended: Literal["drop", "carry"], floor: float) -> None:
    """Ratios around the floor, and an episode that ends early."""
    generator, lengths = np.random.default_rng(0), np.array([4, 2, 4])
    ratios = floor * np.exp(generator.normal(scale=4.0, size=(2, 3, 4)))
    ratios[:, 1, 2:] = ratios[:, 1, 1:2]
    taken = np.arange(4)[None] < lengths[:, None]
    with jax.enable_x64(True):
        weights = np.asarray(estimators.normalised_ratios(np.log(ratios), taken, ended, floor))
    np.testing.assert_allclose(weights, loops.normalised_ratios(ratios, lengths, ended, floor), rtol=1e-9)
    assert np.max(np.abs(weights - loops.normalised_ratios(ratios, lengths, ended))) > 0.1


def test_a_floor_evens_out_vanishing_ratios_and_no_others() -> None:
    log_ratios = np.array([[[-70.0], [-90.0], [-200.0]], [[2.0], [0.0], [-1.0]]], np.float32)
    taken = np.ones((3, 1), bool)
    without = np.asarray(estimators.normalised_ratios(log_ratios, taken))
    weights = np.asarray(estimators.normalised_ratios(log_ratios, taken, floor=1e-12))
    np.testing.assert_allclose(without[0, :, 0], [1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(weights[0, :, 0], 1 / 3, rtol=1e-6)
    np.testing.assert_allclose(weights[1], without[1], rtol=1e-6)
    with pytest.raises(HindsightError, match=r"floor must be a number of at least zero, not -0\.1"):
        estimators.normalised_ratios(log_ratios, taken, floor=-0.1)


@given(batch=batches())
def test_unweighted_estimators_equal_plain_loops(batch: Batch) -> None:
    with jax.enable_x64(True):
        log_ratios = np.asarray(batch.log_ratios)
        coefficients = per_decision(log_ratios, batch.rewards, batch.goal_probabilities)
        plain = without_ratios(batch.rewards, batch.goal_probabilities)
        own = goal_conditional(batch.rewards[0])
    np.testing.assert_allclose(np.exp(log_ratios), batch.ratios, rtol=1e-9)
    expected = loops.per_decision(batch.ratios, batch.rewards, batch.goal_probabilities)
    # Rewards of either sign cancel in the sums, so the tolerance follows the size of the terms.
    largest_term = np.max(batch.ratios) * np.max(np.abs(batch.rewards), initial=0)
    np.testing.assert_allclose(coefficients, expected, rtol=1e-9, atol=1e-10 * (1 + largest_term))
    ones = np.ones(batch.ratios.shape)
    expected = loops.per_decision(ones, batch.rewards, batch.goal_probabilities)
    np.testing.assert_allclose(plain, expected, rtol=1e-9, atol=1e-10)
    expected = loops.rewards_to_go(batch.rewards[0]) / batch.rewards.shape[1]
    np.testing.assert_allclose(own, expected, rtol=1e-9, atol=1e-10)


@given(batch=batches(), ended=st.sampled_from(["drop", "carry"]), goal=st.integers(0, 3))
def test_with_the_pursued_goal_alone_every_hindsight_estimator_is_goal_conditional(
    batch: Batch, ended: str, goal: int
) -> None:
    """All ratios are one; with p(g) = 1 and the full horizon nothing but a batch mean is left."""
    rewards = batch.rewards[goal % len(batch.rewards)]
    taken = np.ones(rewards.shape, bool)
    with jax.enable_x64(True):
        log_ratios = cumulative_log_ratios(np.log(batch.behaviour)[None], np.log(batch.behaviour), taken)
        expected = np.asarray(goal_conditional(rewards))[None]
        found = [
            weighted_per_decision(log_ratios, rewards[None], np.ones(1), taken, ended=ended),
            per_decision(log_ratios, rewards[None], np.ones(1)),
            without_ratios(rewards[None], np.ones(1)),
        ]
    for coefficients in found:
        np.testing.assert_allclose(coefficients, expected, rtol=1e-12, atol=1e-12)


@given(batch=batches())
def test_ended_episodes_leave_the_average_to_those_that_go_on_when_dropped_and_keep_their_share_when_carried(
    batch: Batch,
) -> None:
    """With ratios of one, a weight is one over the number of live episodes (drop), or of all episodes (carry)."""
    live = batch.taken.sum(axis=0)
    zeros = np.zeros((1, *batch.taken.shape))
    dropped = np.asarray(normalised_ratios(zeros, batch.taken, ended="drop"))[0]
    carried = np.asarray(normalised_ratios(zeros, batch.taken, ended="carry"))[0]
    np.testing.assert_allclose(dropped, np.where(batch.taken, 1 / np.maximum(live, 1)[None], 0), rtol=1e-6)
    np.testing.assert_allclose(carried, np.where(batch.taken, 1 / len(batch.taken), 0), rtol=1e-6)


def extreme_log_ratios(generator: np.random.Generator, growth: float, dtype: type) -> np.ndarray:
    """Random walks over 200 steps of up to 700 k each, far beyond what any float can hold once exponentiated."""
    steps = generator.uniform(-1, 1, size=(4, 5, 200)) * 700 * growth
    walks = np.cumsum(steps, axis=2)
    walks[0] = np.linspace(-700 * growth, 700 * growth, 5)[:, None]
    walks[1, 2, 50:] = -np.inf
    walks[2, :, 150:] = -np.inf
    return walks.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("growth", [0.001, 1, 50])
@pytest.mark.parametrize("ended", ["drop", "carry"])
def test_extreme_ratios_neither_overflow_nor_vanish(dtype: type[np.floating[Any]], growth: float, ended: str) -> None:
    generator = np.random.default_rng(11)
    log_ratios = extreme_log_ratios(generator, growth, dtype)
    lengths = np.array([200, 180, 120, 60, 1])
    taken = np.arange(200)[None] < lengths[:, None]
    rewards = generator.normal(size=log_ratios.shape).astype(dtype)
    probabilities = np.full(4, 0.25, dtype)
    with jax.enable_x64(dtype == np.float64):
        weights = np.asarray(normalised_ratios(log_ratios, taken, ended=ended))
        coefficients = np.asarray(weighted_per_decision(log_ratios, rewards, probabilities, taken, ended=ended))
        subtracted = np.asarray(weighted_baseline(log_ratios, rewards, probabilities, taken, ended=ended))
    assert weights.dtype == coefficients.dtype == subtracted.dtype == dtype
    assert np.all(np.isfinite(coefficients))
    assert np.all(np.isfinite(subtracted))
    assert np.all((weights >= 0) & (weights <= 1))
    assert np.all(weights[:, ~taken] == 0)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    counted = np.where(taken[None], log_ratios, -np.inf) if ended == "drop" else log_ratios
    some = np.any(np.isfinite(counted), axis=1, keepdims=True)
    expected = softmax(np.where(some, counted, 0).astype(float), axis=1) * some * taken[None]
    np.testing.assert_allclose(weights, expected, rtol=tolerance, atol=tolerance)
    if ended == "drop":
        np.testing.assert_allclose(weights.sum(axis=1), some[:, 0], rtol=tolerance, atol=tolerance)


def test_a_time_without_any_live_episode_has_no_weights() -> None:
    taken = np.array([[True, False], [True, False]])
    weights = np.asarray(normalised_ratios(np.zeros((1, 2, 2)), taken, ended="drop"))
    np.testing.assert_array_equal(weights, [[[0.5, 0.0], [0.5, 0.0]]])


def test_a_ratio_that_is_not_a_number_is_not_taken_for_zero() -> None:
    """Zero weights would hide a broken policy from the check that the gradient is finite."""
    log_ratios = np.array([[[np.nan], [0.0]]])
    weights = np.asarray(normalised_ratios(log_ratios, np.ones((2, 1), bool), ended="drop"))
    assert np.all(np.isnan(weights))


def test_a_ratio_too_large_for_a_float_matters_only_where_there_is_a_reward() -> None:
    log_ratios = np.array([[[0.0, 800.0]]])
    coefficients = per_decision(log_ratios, np.array([[[3.0, 0.0]]]), np.ones(1))
    np.testing.assert_array_equal(coefficients, [[[3.0, 0.0]]])


def test_the_ratio_of_a_step_includes_its_own_action_but_not_the_next() -> None:
    log_probabilities = np.log(np.array([[[0.5, 0.2, 0.9]]]))
    behaviour = np.log(np.array([[0.25, 0.4, 0.3]]))
    log_ratios = cumulative_log_ratios(log_probabilities, behaviour, np.array([[True, True, False]]))
    np.testing.assert_allclose(np.exp(log_ratios), [[[2.0, 1.0, 1.0]]], rtol=1e-5)


def test_effective_sample_size_lies_between_one_and_the_episodes_that_count() -> None:
    """All weight on one episode, equal weights, and an ended episode that counts only when carried."""
    log_ratios = np.log(np.array([[[1.0, 1.0], [1.0, 1e30], [1.0, 1.0]], [[1.0, 1.0]] * 3]))
    taken = np.array([[True, True], [True, True], [True, False]])
    dropped = estimators.effective_sample_size(log_ratios, taken)
    np.testing.assert_allclose(dropped, [[3, 1], [3, 2]], rtol=1e-6)
    carried = estimators.effective_sample_size(log_ratios, taken, "carry")
    np.testing.assert_allclose(carried, [[3, 1], [3, 3]], rtol=1e-6)
