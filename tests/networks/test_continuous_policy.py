"""Continuous actions: densities, draws, and the same surrogate gradient as plain differentiation; normalisation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from reference.methods import METHODS, learning_rates
from scipy import stats

from hindsight_rl.agents.options import PolicyOptions
from hindsight_rl.agents.policy_gradient import policy_gradient_agent
from hindsight_rl.agents.surrogate import encode_states, log_probabilities_under_goals, surrogate_gradient
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.goals import GoalSet
from hindsight_rl.environments.interface import Task
from hindsight_rl.networks.heads import FIRST_DEVIATION
from hindsight_rl.networks.normaliser import Normaliser
from hindsight_rl.networks.perceptron import scaled_uniform
from hindsight_rl.networks.policy import Policy


class Reach(Task):
    """A point in the plane with three observed numbers and two-dimensional actions."""

    horizon: int = 5
    action_count: int = 2

    @property
    def continuous(self) -> bool:
        return True

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (3,)

    @property
    def observation_type(self) -> str:
        return "float32"

    @property
    def goal_shape(self) -> tuple[int, ...]:
        return (2,)

    @property
    def goal_count(self) -> int:
        return 1

    @property
    def state_limit(self) -> int | None:
        return None

    def goal_probability(self, goal: Array) -> Array:
        return jnp.float32(1)

    def reached(self, achieved: Array, goal: Array) -> Array:
        return jnp.sum((achieved - goal) ** 2) < 0.25

    def reward(self, achieved: Array, goal: Array, time: Array) -> Array:
        return jnp.where(self.reached(achieved, goal), 0.0, -1.0)


def continuous_policy(normalise: bool = False) -> Policy:
    return Policy(3, 2, 2, (8,), jax.random.key(0), scaled_uniform, continuous=True, normalise=normalise)


def random_episodes(policy: Policy) -> Episodes:
    generator = np.random.default_rng(0)
    observations = generator.normal(size=(4, 5, 3)).astype(np.float32)
    goals = generator.normal(size=(4, 2)).astype(np.float32)
    actions = generator.normal(size=(4, 4, 2)).astype(np.float32)
    repeated = jnp.repeat(jnp.asarray(goals), 4, axis=0)
    tables = policy.distributions(policy.encode(observations[:, :-1].reshape(16, 3)), repeated)
    densities = policy.head.log_probability(tables, jnp.asarray(actions.reshape(16, 2))).reshape(4, 4)
    achieved = observations[:, :, :2]
    lengths = np.array([4, 2, 4, 1])
    return Episodes(*map(jnp.asarray, (observations, achieved, actions, goals, lengths, densities)))


def test_density_is_that_of_a_normal_distribution() -> None:
    policy = continuous_policy()
    means = np.array([[0.1, -0.4], [2.0, 0.0]], np.float32)
    actions = np.array([[0.3, 0.2], [-1.0, 0.5]], np.float32)
    expected = stats.norm(means, FIRST_DEVIATION).logpdf(actions).sum(axis=1)
    np.testing.assert_allclose(
        policy.head.log_probability(jnp.asarray(means), jnp.asarray(actions)), expected, rtol=1e-5
    )


def test_draws_have_the_mean_and_deviation_of_the_policy() -> None:
    policy = continuous_policy()
    observations, goals = jnp.ones((20000, 3)), jnp.ones((20000, 2))
    actions, densities = policy.sample(observations, goals, jax.random.key(3))
    mean = policy.act(jnp.ones(3), jnp.ones(2))
    # Four standard errors.
    np.testing.assert_allclose(np.mean(actions, axis=0), mean, atol=4 * FIRST_DEVIATION / np.sqrt(20000))
    np.testing.assert_allclose(np.std(actions, axis=0), FIRST_DEVIATION, rtol=0.02)
    table = policy.distributions(policy.encode(observations), goals)
    np.testing.assert_allclose(densities, policy.head.log_probability(table, actions), rtol=1e-6)


@pytest.mark.parametrize("normalise", [False, True])
def test_gradient_and_ratios_equal_plain_differentiation(normalise: bool) -> None:
    policy = continuous_policy(normalise)
    episodes = random_episodes(policy)
    goals = GoalSet(episodes.pursued_goals[:3], jnp.ones(3), jnp.array([True, True, False]))
    coefficients = jax.random.normal(jax.random.key(5), (3, 4, 4)) * episodes.taken[None] * goals.present[:, None, None]

    def densities(policy: Policy) -> Array:
        encoded = policy.encode(episodes.observations[:, :-1].reshape(16, 3))
        actions = episodes.actions.reshape(16, 2)
        each = [
            policy.head.log_probability(policy.distributions(encoded, jnp.tile(goal, (16, 1))), actions)
            for goal in goals.goals
        ]
        return jnp.stack(each).reshape(3, 4, 4)

    states = encode_states(Reach(), policy, episodes)
    ours = surrogate_gradient(policy, episodes, states, goals, coefficients)
    theirs = jax.grad(lambda policy: jnp.sum(coefficients * densities(policy)))(policy)
    for left, right in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-6)
    horizons = jnp.array([4, 4, 0])
    found = log_probabilities_under_goals(policy, episodes, states, goals, horizons)
    counted = np.asarray(episodes.taken[None] & goals.present[:, None, None])
    np.testing.assert_allclose(np.asarray(found)[counted], np.asarray(densities(policy))[counted], rtol=1e-5, atol=1e-6)


def test_an_update_learns_the_deviation_and_the_statistics() -> None:
    agent = policy_gradient_agent(
        Reach(), METHODS["hpg"], PolicyOptions(hidden_layers=(8,), initial_weights="scaled", normalise=True)
    )
    state = agent.init(jax.random.key(0))
    episodes = random_episodes(state.policy)
    rates = learning_rates(1e-2, 1e-2)
    after, cause, _ = jax.jit(agent.update)(state, episodes, rates, jax.random.key(1))
    assert int(cause) == 0
    assert np.all(np.asarray(after.policy.log_deviation) != np.asarray(state.policy.log_deviation))
    seen = np.asarray(episodes.observations[:, :-1])[np.asarray(episodes.taken)]
    assert float(after.policy.normalisers[0].count) == len(seen)
    np.testing.assert_allclose(after.policy.normalisers[0].mean, seen.mean(axis=0), rtol=1e-4, atol=1e-6)


def test_normaliser_has_the_mean_and_deviation_of_all_that_it_saw() -> None:
    generator = np.random.default_rng(1)
    first, second = generator.normal(3, 2, size=(50, 4)), generator.normal(-1, 0.5, size=(30, 4))
    counted = generator.random(30) < 0.6
    normaliser = Normaliser(4).seen(jnp.asarray(first, jnp.float32), jnp.ones(50, bool))
    normaliser = normaliser.seen(jnp.asarray(second, jnp.float32), jnp.asarray(counted))
    everything = np.concatenate([first, second[counted]])
    np.testing.assert_allclose(normaliser.mean, everything.mean(axis=0), rtol=1e-4)
    expected = np.clip((first - everything.mean(axis=0)) / everything.std(axis=0), -5, 5)
    np.testing.assert_allclose(normaliser(jnp.asarray(first, jnp.float32)), expected, rtol=1e-3, atol=1e-4)
    fresh = Normaliser(4)
    np.testing.assert_array_equal(fresh(jnp.asarray(first, jnp.float32)), first.astype(np.float32))
