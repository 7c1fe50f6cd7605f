"""Continuous actions in the environment's own units: the network's -1 and 1 lie at the bounds."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from jaxtyping import Array
from reference.goal_environments import Line
from scipy import stats

from hindsight_rl.environments.gymnasium.simulator import GymnasiumGoal
from hindsight_rl.environments.gymnasium.task import gymnasium_task
from hindsight_rl.networks.heads import FIRST_DEVIATION
from hindsight_rl.networks.perceptron import scaled_uniform
from hindsight_rl.networks.policy import Policy
from hindsight_rl.rollout.hosted import collect_hosted, open_pool

LOW = (-2.0, 0.5, -np.inf, -np.inf, 1.0, 3.0)
HIGH = (6.0, 1.0, np.inf, 0.25, np.inf, 3.0)
MIDDLE = np.array([2.0, 0.75, 0, 0, 0, 0])
UNIT = np.array([4.0, 0.25, 1, 1, 1, 1])
"""Of components with two bounds, with none, with one, and with two that are the same."""
OBSERVATIONS, GOALS = (jnp.asarray(np.random.default_rng(5).normal(size=(50, size)), jnp.float32) for size in (3, 2))


@pytest.fixture(scope="module")
def policies() -> tuple[Policy, Policy]:
    """The same network for actions with bounds and without; some of its outputs lie beyond -1 and 1."""
    make = functools.partial(Policy, 3, 2, 6, (8,), jax.random.key(0), scaled_uniform, continuous=True)
    bounded, plain = make(bounds=(LOW, HIGH)), make()
    wider = jax.tree.map(lambda leaf: 3 * leaf, plain.network)
    return tuple(eqx.tree_at(lambda one: one.network, policy, wider) for policy in (bounded, plain))


def test_an_output_of_zero_is_the_middle_and_one_is_a_bound(policies: tuple[Policy, Policy]) -> None:
    bounded, plain = (np.asarray(policy.distributions(policy.encode(OBSERVATIONS), GOALS)) for policy in policies)
    np.testing.assert_allclose(bounded, MIDDLE + UNIT * plain, rtol=1e-6, atol=1e-6)
    assert np.abs(plain).max() > 1


def test_greedy_actions_lie_within_the_bounds(policies: tuple[Policy, Policy]) -> None:
    bounded, plain = policies
    outputs = np.asarray(plain.greedy(OBSERVATIONS, GOALS))
    chosen = np.asarray(bounded.greedy(OBSERVATIONS, GOALS))
    np.testing.assert_allclose(chosen, np.clip(MIDDLE + UNIT * outputs, LOW, HIGH), rtol=1e-6, atol=1e-6)
    assert np.any(chosen[:, 0] == LOW[0])
    np.testing.assert_array_equal(bounded.act(OBSERVATIONS[3], GOALS[3]).shape, (6,))


def test_draws_and_densities_are_scaled_alike(policies: tuple[Policy, Policy]) -> None:
    bounded, plain = policies
    actions, densities = bounded.sample(OBSERVATIONS, GOALS, jax.random.key(2))
    small, _ = plain.sample(OBSERVATIONS, GOALS, jax.random.key(2))
    np.testing.assert_allclose(actions, MIDDLE + UNIT * np.asarray(small), rtol=1e-5, atol=1e-5)
    means = np.asarray(bounded.distributions(bounded.encode(OBSERVATIONS), GOALS), np.float64)
    expected = stats.norm(means, FIRST_DEVIATION * UNIT).logpdf(np.asarray(actions, np.float64)).sum(axis=1)
    np.testing.assert_allclose(densities, expected, rtol=1e-4, atol=1e-4)


def test_learning_does_not_depend_on_the_units(policies: tuple[Policy, Policy]) -> None:
    """The gradient of the same actions, told in other units, is the same."""
    bounded, plain = policies
    small, _ = plain.sample(OBSERVATIONS, GOALS, jax.random.key(2))
    actions = jnp.asarray(MIDDLE + UNIT * np.asarray(small), jnp.float32)

    def total(policy: Policy, taken: Array) -> Array:
        weights = jnp.linspace(-1, 1, 50)
        return jnp.sum(
            weights * policy.head.log_probability(policy.distributions(policy.encode(OBSERVATIONS), GOALS), taken)
        )

    ours, theirs = jax.grad(total)(bounded, actions), jax.grad(total)(plain, small)
    for left, right in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-3)


def test_an_environment_is_played_in_its_own_units() -> None:
    """Steps of 2 to 6 along a line: drawn around 4, and what the environment moves by stays within the bounds."""
    from hindsight_rl.training.program import make_program
    from hindsight_rl.training.settings import make_settings

    environment = gymnasium_task(Line(action=spaces.Box(2, 6, (1,), np.float32)), horizon=3)
    assert environment.action_bounds == ((2.0,), (6.0,))
    agent = make_program(environment, make_settings({"method": "hpg", "hidden_layers": (8,)})).agent
    state = agent.init(jax.random.key(0))
    assert state.policy.bounds == ((2.0,), (6.0,))
    with open_pool(environment, 1) as pool:
        explore = functools.partial(jax.jit(agent.explore), state)
        episodes = collect_hosted(environment, pool, explore, 60, jax.random.key(1))
    first = np.asarray(episodes.actions)[:, 0, 0]
    # A fresh network's outputs are about zero; four standard errors.
    assert first.mean() == pytest.approx(4, abs=4 * 2 * FIRST_DEVIATION / np.sqrt(60))
    places = np.asarray(episodes.achieved_goals)[:, :, 0]
    np.testing.assert_allclose(places[:, 1], np.clip(places[:, 0] + np.clip(first, 2, 6), 0, 6), rtol=1e-5)
    assert np.any(first > 6) or np.any(first < 2)


def test_actions_without_bounds_are_passed_on_as_they_are() -> None:
    low, high = np.array([-np.inf, 0], np.float32), np.array([np.inf, 1], np.float32)
    simulator = GymnasiumGoal(Line(action=spaces.Box(low, high)))
    np.testing.assert_array_equal(simulator.actions.decode(np.array([37.5, 37.5])), [37.5, 1])
    assert simulator.actions.bounds == ((-np.inf, 0), (np.inf, 1))
