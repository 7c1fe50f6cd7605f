"""Acting, what a broken update is blamed on, the scale of hindsight, and long episodes of a saturated policy."""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.compilation import quick_jit
from reference.methods import METHODS, learning_rates
from reference.random_weights import random_weights
from scipy.stats import chisquare

from hindsight_rl.agents.active_goals import pursued_goals
from hindsight_rl.agents.interface import CAUSES, Agent
from hindsight_rl.agents.options import HindsightBaselineOptions, PolicyOptions, UnweightedOptions
from hindsight_rl.agents.policy_gradient import (
    PolicyGradientState,
    policy_gradient_agent,
    training_coefficients,
)
from hindsight_rl.agents.surrogate import encode_states
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.goals import GoalSet
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.grid_world import GridWorld
from hindsight_rl.estimators.table import ESTIMATORS
from hindsight_rl.networks.policy import Policy

BITS = BitFlipping(3)


def make_agent(method: str, environment: Any = BITS) -> Agent:
    return policy_gradient_agent(environment, METHODS[method], PolicyOptions(hidden_layers=(6,)))


def random_state(agent: Agent, scale: float = 1.0) -> PolicyGradientState:
    """A state with large random weights, and optimisers that have seen nothing."""
    state = random_weights(agent.init, 0, scale)
    fresh = jax.tree.map(
        lambda leaf: np.zeros(leaf.shape, leaf.dtype), (state.policy_optimiser, state.baseline_optimiser)
    )
    return state._replace(policy_optimiser=fresh[0], baseline_optimiser=fresh[1])


def random_episodes(environment: Any, policy: Policy, batch_size: int) -> Episodes:
    """Uniformly random actions in a deterministic environment, with the log-probabilities that a policy gives them."""
    times = environment.horizon - 1
    drawn = np.random.default_rng(1).integers(0, environment.action_count, size=(batch_size, times))
    key = jax.random.key(0)

    def walk(actions: jax.Array, goal_key: jax.Array) -> tuple[Any, ...]:
        def step(state: Any, action: jax.Array) -> tuple[Any, jax.Array]:
            following = environment.step(state, action, key)
            return following, environment.observe(following)

        first = environment.reset(key)
        rest: jax.Array
        _, rest = jax.lax.scan(step, first, actions)
        observations = jnp.concatenate([environment.observe(first)[None], rest])
        goal = environment.sample_goal(goal_key)
        table = policy.log_probabilities(observations[:-1], jnp.tile(goal[None], (times, 1)))
        return observations, goal, jnp.take_along_axis(table, actions[:, None], axis=1)[:, 0]

    walks = quick_jit(jax.vmap(walk))(drawn, jax.random.split(key, batch_size))
    observations, goals, log_probabilities = walks
    lengths = jnp.full(batch_size, times)
    return Episodes(observations, observations, jnp.asarray(drawn), goals, lengths, log_probabilities)


@cache
def episodes_of_bits() -> Episodes:
    """Eight episodes on 3 bits; every method's random state has the same policy."""
    return random_episodes(BITS, random_state(make_agent("gcpg")).policy, 8)


def test_the_agent_begins_with_a_baseline_only_where_the_method_has_one() -> None:
    for name, method in METHODS.items():
        state = jax.eval_shape(make_agent(name).init, jax.random.key(0))
        assert (state.baseline is not None) == method.values == (state.baseline_optimiser is not None)
        assert [weight.shape for weight in state.policy.network.weights] == [(6, 6), (6, 3)]


def test_exploring_draws_each_action_with_its_probability() -> None:
    """Chi-square over 6000 draws with a fixed key; the log-probabilities are those of the actions drawn."""
    agent = make_agent("hpg")
    state = random_state(agent)
    observations, goals = jnp.tile(jnp.array([[1.0, 0, 1]]), (6000, 1)), jnp.tile(jnp.array([[0.0, 0, 1]]), (6000, 1))
    actions, log_probabilities = quick_jit(agent.explore)(state, observations, goals, 0, jax.random.key(1))
    table = np.asarray(state.policy.log_probabilities(observations[:1], goals[:1]))[0]
    assert np.exp(table).min() > 0.01
    counts = np.bincount(actions, minlength=3)
    assert chisquare(counts, np.exp(table.astype(float)) / np.exp(table.astype(float)).sum() * 6000).pvalue > 1e-3
    np.testing.assert_allclose(log_probabilities, table[np.asarray(actions)], rtol=1e-5)


def test_exploiting_takes_the_best_action_as_the_policy_does() -> None:
    agent = make_agent("gcpg")
    state = random_state(agent)
    generator = np.random.default_rng(5)
    observations, goals = generator.normal(size=(2, 20, 3)).astype(np.float32)
    actions = np.asarray(quick_jit(agent.exploit)(state, observations, goals, 0))
    policy = agent.policy(state)
    act = quick_jit(jax.vmap(lambda observation, goal: policy.act(observation, goal)))
    np.testing.assert_array_equal(actions, act(observations, goals))
    np.testing.assert_array_equal(actions, np.argmax(policy.log_probabilities(observations, goals), axis=1))
    assert len(set(actions)) > 1


class Broken(NamedTuple):
    """An update that can be broken in several ways, compiled once."""

    state: PolicyGradientState
    episodes: Episodes
    update: Any

    def cause(self, state: PolicyGradientState, rate: float = 1e-3) -> str:
        rates = learning_rates(rate, 1e-3)
        return CAUSES[int(self.update(state, self.episodes, rates, jax.random.key(0))[1])]


@cache
def breakable() -> Broken:
    agent = make_agent("gcpg+b")
    state = random_state(agent)
    return Broken(state, episodes_of_bits(), quick_jit(agent.update))


def test_a_good_update_has_no_cause() -> None:
    assert breakable().cause(breakable().state) == ""


def test_a_policy_that_is_not_finite_is_blamed_on_its_gradient() -> None:
    state = breakable().state
    broken = eqx.tree_at(lambda s: s.policy.network.biases[-1], state, np.full(3, np.nan, np.float32))
    assert breakable().cause(broken) == "the policy gradient is not finite"


def test_a_baseline_that_overflows_is_blamed_on_a_gradient() -> None:
    """Its values are part of the policy's coefficients too, which are looked at first."""
    state = breakable().state
    broken = eqx.tree_at(lambda s: s.baseline.network.biases[-1], state, np.full(1, np.inf, np.float32))
    assert breakable().cause(broken) == "the policy gradient is not finite"
    large = eqx.tree_at(lambda s: s.baseline.network.biases[-1], state, np.full(1, 3e38, np.float32))
    large = eqx.tree_at(lambda s: s.baseline.network.weights[-1], large, np.full((6, 1), 3e38, np.float32))
    assert "gradient is not finite" in breakable().cause(large)


def test_a_step_to_infinity_is_blamed_on_the_parameters() -> None:
    assert breakable().cause(breakable().state, rate=np.inf) == "a parameter is not finite"


def one_goal(environment: BitFlipping, goal: jax.Array) -> GoalSet:
    return GoalSet(goal[None], environment.goal_probability(goal)[None], jnp.ones(1, bool))


@pytest.mark.parametrize("ended", ["drop", "carry"])
def test_hindsight_about_the_pursued_goal_alone_is_goal_conditional(ended: str) -> None:
    """All episodes pursue one goal: ratios are one, and what is left is GCPG with the published batch mean on top."""
    agent = make_agent("hpg")
    state = random_state(agent)
    episodes = episodes_of_bits()
    goal = jnp.array([1.0, 0.0, 0.0])
    rows, goals = episodes.observations[:, :-1].reshape(24, 3), jnp.tile(goal[None], (24, 1))
    table = state.policy.log_probabilities(rows, goals)
    own = jnp.take_along_axis(table, episodes.actions.reshape(24, 1), axis=1).reshape(8, 3)
    episodes = episodes._replace(pursued_goals=jnp.tile(goal[None], (8, 1)), log_probabilities=own)

    @quick_jit
    def both(episodes: Episodes) -> tuple[jax.Array, jax.Array]:
        states = encode_states(BITS, state.policy, episodes)
        options, chosen = HindsightBaselineOptions(ended=ended), one_goal(BITS, goal)
        hindsight, _ = training_coefficients(BITS, METHODS["hpg"], options, state, episodes, states, chosen)
        pursued = pursued_goals(BITS, episodes)
        own, _ = training_coefficients(BITS, METHODS["gcpg"], options, state, episodes, states, pursued)
        return hindsight[0], own

    hindsight, goal_conditional = both(episodes)
    assert np.max(goal_conditional) > 0
    np.testing.assert_allclose(hindsight, goal_conditional / 8, rtol=1e-5, atol=1e-7)


def test_two_hundred_steps_of_a_saturated_policy_stay_finite() -> None:
    """Ratios of 1e12 and 1e-12 multiply over 199 actions, up to 1e2388 and down: beyond any float."""
    corridor = GridWorld("S....", horizon=200)
    agent = make_agent("hpg+b", corridor)
    state = random_state(agent)
    state = eqx.tree_at(lambda s: s.policy.network.weights[-1], state, replace_fn=lambda weight: 300 * weight)
    episodes = random_episodes(corridor, state.policy, 4)
    assert float(jnp.min(episodes.log_probabilities)) < -27
    assert float(jnp.min(jnp.sum(episodes.log_probabilities, axis=1))) < -1000
    rates = learning_rates(1e-3, 1e-3)
    after, cause, _ = quick_jit(agent.update)(state, episodes, rates, jax.random.key(0))
    assert CAUSES[int(cause)] == ""
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(after))
    moved = jax.tree.map(lambda a, b: float(np.max(np.abs(a - b))), after.policy, state.policy)
    assert max(jax.tree.leaves(moved)) > 0


@pytest.mark.parametrize("bits", [30, 40])
def test_hindsight_takes_any_number_of_bits(bits: int) -> None:
    environment = BitFlipping(bits)
    agent = make_agent("hpg", environment)
    state = jax.eval_shape(agent.init, jax.random.key(0))
    shapes = [(2, bits + 1, bits), (2, bits + 1, bits), (2, bits), (2, bits), (2,), (2, bits)]
    types = [jnp.float32, jnp.float32, jnp.int32, jnp.float32, jnp.int32, jnp.float32]
    episodes = Episodes(*(jax.ShapeDtypeStruct(shape, kind) for shape, kind in zip(shapes, types, strict=True)))
    rates = learning_rates(1e-3, 1e-3)
    updated, _, _ = jax.eval_shape(agent.update, state, episodes, rates, jax.random.key(0))
    assert jax.tree.structure(updated) == jax.tree.structure(state)  # type: ignore[operator]


def test_a_cap_draws_fewer_goals_and_so_another_gradient() -> None:
    gradients = []
    for cap in (None, 1):
        agent = policy_gradient_agent(
            BITS, METHODS["hpg-no-ratios"], UnweightedOptions(hidden_layers=(6,), max_active_goals=cap)
        )
        state = random_state(agent)
        rates = learning_rates(1e-3, 1e-3)
        after, _, _ = quick_jit(agent.update)(state, episodes_of_bits(), rates, jax.random.key(0))
        gradients.append(np.asarray(after.policy_optimiser.mu.network.weights[0]))
    assert np.max(np.abs(gradients[0] - gradients[1])) > 1e-3


def shapes_in(program: Any) -> Iterator[tuple[int, ...]]:
    """The shape of every intermediate result of a traced program, inner programs included."""
    for equation in program.eqns:
        yield from (result.aval.shape for result in equation.outvars)
        for inner in jax.tree.leaves(equation.params, is_leaf=lambda leaf: hasattr(leaf, "eqns")):
            inner = getattr(inner, "jaxpr", inner)
            yield from shapes_in(inner) if hasattr(inner, "eqns") else ()


@pytest.mark.parametrize(("method", "squares"), [("gcpg", False), ("gcpg+b", False), ("hpg", True)])
def test_pursued_goals_need_no_memory_for_pairs_of_episodes(method: str, squares: bool) -> None:
    """Nothing is as large as the number of episodes squared, which active goals times episodes are."""
    batch_size, agent = 257, make_agent(method, BitFlipping(9))
    state = jax.eval_shape(agent.init, jax.random.key(0))
    observations = jax.ShapeDtypeStruct((batch_size, 10, 9), jnp.float32)
    numbers = jax.ShapeDtypeStruct((batch_size, 9), jnp.float32)
    episodes = Episodes(
        observations,
        observations,
        jax.ShapeDtypeStruct(numbers.shape, jnp.int32),
        numbers,
        jax.ShapeDtypeStruct((batch_size,), jnp.int32),
        numbers,
    )
    rates = dict.fromkeys(("learning_rate", "baseline_learning_rate"), jax.ShapeDtypeStruct((), jnp.float32))
    program = jax.make_jaxpr(agent.update)(state, episodes, rates, jax.random.key(0))
    largest = max(int(np.prod(shape)) for shape in shapes_in(program.jaxpr))
    assert (largest >= batch_size**2) == squares


def test_an_estimator_over_all_goals_cannot_be_trained_with() -> None:
    with pytest.raises(HindsightError, match=r"'Thm B\.1, baseline V, all goals' sums over all goals"):
        policy_gradient_agent(BITS, ESTIMATORS["per-decision+v"], PolicyOptions())


def test_three_dimensional_numbers_are_no_picture() -> None:
    """A grid with depth is laid out flat, as any other vector of numbers; only bytes are pictures."""

    class Deep(BitFlipping):
        def observe(self, state: jax.Array) -> jax.Array:
            return jnp.broadcast_to(state[None, :, None], (1, 3, 2)).astype(jnp.float32)

    agent = policy_gradient_agent(Deep(3), METHODS["hpg"], PolicyOptions(hidden_layers=(6,)))  # type: ignore[call-arg]
    state = agent.init(jax.random.key(0))
    assert state.policy.trunk is None
    assert state.policy.network.weights[0].shape == (6 + 3, 6)
