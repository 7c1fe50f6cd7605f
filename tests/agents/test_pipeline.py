"""The compiled pipeline of the policy-gradient agents against plain loops over (goal, episode, time)."""

from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import optax
import pytest
from reference import plain_agent
from reference.compilation import quick_jit
from reference.example_episodes import ENVIRONMENTS, example_episodes, example_policy, example_value
from reference.methods import METHODS

from hindsight_rl.agents.active_goals import active_goals, pursued_goals, rewards_of_goals
from hindsight_rl.agents.baseline import temporal_difference_gradient
from hindsight_rl.agents.options import HindsightBaselineOptions, PolicyOptions
from hindsight_rl.agents.policy_gradient import (
    OPTIMISER,
    PolicyGradientState,
    policy_gradient_agent,
    training_coefficients,
)
from hindsight_rl.agents.surrogate import encode_states, surrogate_gradient
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.goals import GoalSet
from hindsight_rl.core.pairs import significant

pytestmark = pytest.mark.usefixtures("double_precision")

KEY = 0


class Found(NamedTuple):
    """Every stage of the pipeline."""

    goals: GoalSet
    rewards: jax.Array
    decides: jax.Array
    coefficients: jax.Array
    gradient: Any


def agent_state(environment: str, method: str) -> PolicyGradientState:
    policy = example_policy(environment)
    if not METHODS[method].values:
        return PolicyGradientState(policy, OPTIMISER.init(policy), None, None)
    baseline = example_value(environment)
    return PolicyGradientState(policy, OPTIMISER.init(policy), baseline, OPTIMISER.init(baseline))


def pipeline(
    name: str, method: str, ended: str, state: PolicyGradientState, episodes: Episodes, floor: float = 0.0
) -> Found:
    environment = ENVIRONMENTS[name]
    states = encode_states(environment, state.policy, episodes)
    own = METHODS[method].goals == "pursued"
    goals = pursued_goals(environment, episodes) if own else active_goals(environment, episodes, jax.random.key(KEY))
    options = HindsightBaselineOptions(ended=ended, normaliser_floor=floor)
    coefficients, _ = training_coefficients(environment, METHODS[method], options, state, episodes, states, goals)
    gradient = surrogate_gradient(state.policy, episodes, states, goals, coefficients)
    return Found(goals, *rewards_of_goals(environment, episodes, goals), coefficients, gradient)


class Expected(NamedTuple):
    """What plain loops find."""

    goals: np.ndarray
    rewards: plain_agent.Rewards
    coefficients: np.ndarray
    gradient: Any


def plain_pipeline(
    name: str, method: str, ended: str, state: PolicyGradientState, episodes: Episodes, floor: float = 0.0
) -> Expected:
    environment, known = ENVIRONMENTS[name], plain_agent.plain(episodes)
    if METHODS[method].goals == "pursued":
        goals = known.pursued_goals
        coefficients = plain_agent.pursued_coefficients(environment, state.baseline, known)
    else:
        goals = plain_agent.reached_goals(environment, known)
        if METHODS[method].ratios:
            coefficients = plain_agent.hindsight_coefficients(
                environment, state.policy, state.baseline, known, goals, ended, floor
            )
        else:
            coefficients = plain_agent.coefficients_without_ratios(environment, known, goals)
    gradient = plain_agent.surrogate_gradient(state.policy, known, goals, coefficients)
    return Expected(goals, plain_agent.rewards_of_goals(environment.horizon, known, goals), coefficients, gradient)


def assert_same_tree(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    largest = max(float(np.max(np.abs(leaf))) for leaf in jax.tree.leaves(expected))
    assert largest > 1e-4, "an empty gradient would prove nothing"
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * largest), found, expected
    )


CASES = [
    ("3 bits", "gcpg", "goal", "drop"),
    ("3 bits", "hpg", "goal", "drop"),
    ("3 bits", "hpg+b", "goal", "carry"),
    ("4 bits", "hpg", "horizon", "drop"),
    ("4 bits", "hpg+b", "goal", "drop"),
    ("slippery ring", "gcpg+b", "horizon", "drop"),
    ("slippery ring", "hpg", "goal", "carry"),
    ("slippery ring", "hpg+b", "horizon", "drop"),
    ("slippery ring", "hpg-no-ratios", "goal", "drop"),
    ("four rooms", "gcpg+b", "goal", "drop"),
    ("four rooms", "hpg", "goal", "drop"),
    ("four rooms", "hpg+b", "goal", "drop"),
]


@pytest.mark.parametrize(("name", "method", "episodes_end", "ended"), CASES, ids=[", ".join(case) for case in CASES])
def test_every_stage_equals_plain_loops(name: str, method: str, episodes_end: str, ended: str) -> None:
    state, episodes = agent_state(name, method), example_episodes(name, episodes_end)
    found = quick_jit(lambda s, e: pipeline(name, method, ended, s, e))(state, episodes)
    expected = plain_pipeline(name, method, ended, state, episodes)
    present = np.asarray(found.goals.present)
    goals = np.asarray(found.goals.goals)[present]
    np.testing.assert_array_equal(goals, expected.goals)
    np.testing.assert_allclose(np.asarray(found.goals.probabilities)[~present], 0)
    np.testing.assert_array_equal(np.asarray(found.rewards)[present], expected.rewards.rewards)
    np.testing.assert_array_equal(np.asarray(found.decides)[present], expected.rewards.decides)
    # Without ratios nothing lifts the environment's float32 to float64.
    tolerance = 1e-9 if found.coefficients.dtype == np.float64 else 1e-6
    coefficients = np.asarray(found.coefficients)
    if METHODS[method].goals == "pursued":
        coefficients = np.eye(len(present))[:, :, None] * coefficients[None]
    np.testing.assert_allclose(coefficients[present], expected.coefficients, rtol=tolerance, atol=1e-11)
    np.testing.assert_array_equal(coefficients[~present], 0)
    assert_same_tree(found.gradient, expected.gradient, tolerance)


def test_pairs_that_are_left_out_are_not_missed() -> None:
    """A policy so sure of itself that a quarter of the pairs is left out: with all of them it is the same gradient."""
    state, episodes = agent_state("4 bits", "hpg+b"), example_episodes("4 bits", "goal")
    state = eqx.tree_at(lambda s: s.policy.network.weights[-1], state, replace_fn=lambda weights: 80 * weights)
    found = quick_jit(lambda s, e: pipeline("4 bits", "hpg+b", "drop", s, e))(state, episodes)
    expected = plain_pipeline("4 bits", "hpg+b", "drop", state, episodes)
    assert np.all(expected.coefficients[expected.rewards.decides] != 0)
    assert np.mean(significant(found.coefficients)[found.decides]) < 0.8
    assert_same_tree(found.gradient, expected.gradient)


def test_the_published_floor_reaches_ratios_and_baseline_alike() -> None:
    """With a policy so sure of itself that ratios vanish, the floor gives weight to what had none."""
    state, episodes = agent_state("4 bits", "hpg+b"), example_episodes("4 bits", "goal")
    state = eqx.tree_at(lambda s: s.policy.network.weights[-1], state, replace_fn=lambda weights: 80 * weights)
    found = quick_jit(lambda s, e: pipeline("4 bits", "hpg+b", "drop", s, e, 1e-2))(state, episodes)
    expected = plain_pipeline("4 bits", "hpg+b", "drop", state, episodes, 1e-2)
    assert_same_tree(found.gradient, expected.gradient)
    without = plain_pipeline("4 bits", "hpg+b", "drop", state, episodes)
    assert np.max(np.abs(without.coefficients - expected.coefficients)) > 0.1 * np.max(np.abs(expected.coefficients))


@pytest.mark.parametrize("name", ["3 bits", "four rooms"])
def test_temporal_difference_gradient_equals_a_plain_loop(name: str) -> None:
    episodes, environment = example_episodes(name, "goal"), ENVIRONMENTS[name]
    found = quick_jit(lambda b, e: temporal_difference_gradient(environment, b, e))(example_value(name), episodes)
    expected = plain_agent.temporal_difference_gradient(
        environment.horizon, example_value(name), plain_agent.plain(episodes)
    )
    assert_same_tree(found, expected)


def test_temporal_difference_gradient_stops_at_the_goal_over_the_full_horizon() -> None:
    """The coefficients count no reward after the first arrival, so the value that is subtracted should not either."""
    episodes, environment = example_episodes("slippery ring", "horizon"), ENVIRONMENTS["slippery ring"]
    value = example_value("slippery ring")
    found = quick_jit(lambda b, e: temporal_difference_gradient(environment, b, e))(value, episodes)
    expected = plain_agent.temporal_difference_gradient(environment.horizon, value, plain_agent.plain(episodes))
    assert_same_tree(found, expected)


@cache
def updated(method: str) -> tuple[PolicyGradientState, int]:
    """One update on 3 bits, with rates of 0.5 for the policy and 0.25 for the baseline."""
    agent = policy_gradient_agent(ENVIRONMENTS["3 bits"], METHODS[method], PolicyOptions(hidden_layers=(5,)))
    rates = {"learning_rate": np.float64(0.5), "baseline_learning_rate": np.float64(0.25)}
    state, episodes = agent_state("3 bits", method), example_episodes("3 bits", "goal")
    # One of them with all the optimisation that users get.
    compile_update = jax.jit if method == "hpg+b" else quick_jit
    state, cause, _ = compile_update(agent.update)(state, episodes, rates, jax.random.key(KEY))
    return state, int(cause)


@pytest.mark.parametrize("method", ["gcpg", "hpg+b"])
def test_an_update_climbs_the_policy_gradient_with_adam(method: str) -> None:
    before, episodes = agent_state("3 bits", method), example_episodes("3 bits", "goal")
    after, cause = updated(method)
    gradient = plain_pipeline("3 bits", method, "drop", before, episodes).gradient
    assert cause == 0
    optimiser = optax.adam(0.5)
    ascent, _ = optimiser.update(jax.tree.map(lambda leaf: -leaf, gradient), optimiser.init(before.policy))
    assert_same_tree(after.policy, optax.apply_updates(before.policy, ascent), tolerance=1e-6)
    assert_same_tree(jax.tree.map(lambda leaf: leaf / 0.1, after.policy_optimiser.mu), gradient)


def test_an_update_descends_the_error_of_the_baseline_with_adam() -> None:
    before, episodes = agent_state("3 bits", "hpg+b"), example_episodes("3 bits", "goal")
    after, _ = updated("hpg+b")
    horizon = ENVIRONMENTS["3 bits"].horizon
    gradient = plain_agent.temporal_difference_gradient(horizon, before.baseline, plain_agent.plain(episodes))
    optimiser = optax.adam(0.25)
    descent, _ = optimiser.update(gradient, optimiser.init(before.baseline))
    assert_same_tree(after.baseline, optax.apply_updates(before.baseline, descent), tolerance=1e-6)
