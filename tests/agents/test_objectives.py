"""Objectives of the surrogate against plain loops, own goals without an array over pairs of episodes, and pictures."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.compilation import quick_jit
from reference.example_episodes import ENVIRONMENTS, example_episodes, example_policy
from reference.methods import METHODS, learning_rates
from reference.screens import CORRIDOR, Screen, random_walks

from hindsight_rl.agents.active_goals import active_goals, pursued_goals
from hindsight_rl.agents.interface import CAUSES
from hindsight_rl.agents.options import HindsightBaselineOptions
from hindsight_rl.agents.policy_gradient import policy_gradient_agent
from hindsight_rl.agents.surrogate import LINEAR, Objective, clipped, encode_states, surrogate_gradient
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.goals import GoalSet
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.networks.layers import with_statistics
from hindsight_rl.networks.policy import Policy
from hindsight_rl.networks.value import Value

OBJECTIVES = {"linear": LINEAR, "clipped": clipped(0.2)}


def plain_objective(name: str, now: jax.Array, before: jax.Array, coefficient: jax.Array) -> jax.Array:
    """Of one sample, as it is written in papers."""
    if name == "linear":
        return coefficient * now
    ratio = jnp.exp(now - before)
    return jnp.minimum(ratio * coefficient, jnp.clip(ratio, 0.8, 1.2) * coefficient)


def plain_gradient(
    name: str, policy: Policy, older: Policy, episodes: Episodes, goals: Any, coefficients: Any
) -> Policy:
    """A row for every single (goal, episode, time)."""
    goal, episode, time = np.array(list(np.ndindex(coefficients.shape))).T
    observations = np.asarray(episodes.observations)[episode, time]
    actions = np.asarray(episodes.actions)[episode, time]

    def total(policy: Policy) -> jax.Array:
        now, before = (
            one.log_probabilities(observations, goals[goal])[np.arange(len(goal)), actions] for one in (policy, older)
        )
        return jnp.sum(plain_objective(name, now, before, coefficients.ravel()))

    return quick_jit(jax.grad(total))(policy)


def log_probabilities(policy: Policy, episodes: Episodes, goals: np.ndarray) -> jax.Array:
    rows = episodes.observations[:, :-1].reshape(episodes.actions.size, -1)
    tables = jnp.stack([policy.log_probabilities(rows, jnp.tile(goal[None], (len(rows), 1))) for goal in goals])
    return jnp.take_along_axis(tables, episodes.actions.reshape(1, -1, 1), axis=2).reshape(-1, *episodes.actions.shape)


@cache
def example() -> tuple[Policy, Policy, Episodes, GoalSet]:
    """A policy and an older one, between which some ratios are clipped on either side."""
    policy, episodes = example_policy("3 bits"), example_episodes("3 bits", "goal")
    generator = np.random.default_rng(2)
    older = jax.tree.map(lambda leaf: leaf + 0.6 * generator.normal(size=leaf.shape), policy)
    return policy, older, episodes, active_goals(ENVIRONMENTS["3 bits"], episodes, jax.random.key(0))


def assert_same(found: Policy, expected: Policy) -> None:
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)
        assert np.any(other)


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_over_reached_goals_is_that_of_a_plain_loop(name: str) -> None:
    policy, older, episodes, goals = example()
    before = log_probabilities(older, episodes, goals.goals)
    ratios = np.exp(log_probabilities(policy, episodes, goals.goals) - before)
    assert ratios.min() < 0.8
    assert ratios.max() > 1.2
    shape = (len(goals.goals), *episodes.actions.shape)
    coefficients = np.random.default_rng(3).normal(size=shape) * np.asarray(episodes.taken)[None]
    coefficients *= np.asarray(goals.present)[:, None, None]
    found = gradient(OBJECTIVES[name], policy, episodes, goals, coefficients, before)
    assert_same(found, plain_gradient(name, policy, older, episodes, np.asarray(goals.goals), coefficients))


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_over_own_goals_is_that_of_a_plain_loop(name: str) -> None:
    policy, older, episodes, _ = example()
    goals = pursued_goals(ENVIRONMENTS["3 bits"], episodes)
    own = np.arange(len(episodes.lengths))
    before = log_probabilities(older, episodes, goals.goals)[own, own]
    coefficients = np.random.default_rng(4).normal(size=episodes.actions.shape) * np.asarray(episodes.taken)
    found = gradient(OBJECTIVES[name], policy, episodes, goals, coefficients, before)
    whole = np.eye(len(own))[:, :, None] * coefficients[None]
    assert_same(found, plain_gradient(name, policy, older, episodes, np.asarray(goals.goals), whole))


def gradient(objective: Objective, policy: Policy, episodes: Episodes, goals: GoalSet, *arrays: Any) -> Policy:
    def found(policy: Policy) -> Policy:
        states = encode_states(ENVIRONMENTS["3 bits"], policy, episodes)
        return surrogate_gradient(policy, episodes, states, goals, arrays[0], objective, arrays[1])

    return quick_jit(found)(policy)


@pytest.mark.parametrize("method", ["gcpg", "gcpg+b"])
def test_no_array_over_pairs_of_episodes_is_made_for_own_goals(method: str) -> None:
    """Of 16,384 episodes one would take 26 GB; nothing here has more than a few numbers for each action and unit."""
    episodes, bits = 16384, 24
    agent = policy_gradient_agent(BitFlipping(bits), METHODS[method], HindsightBaselineOptions(hidden_layers=(8,)))
    shapes = [(episodes, bits + 1, bits)] * 2 + [(episodes, bits), (episodes, bits), (episodes,), (episodes, bits)]
    kinds = [jnp.float32, jnp.float32, jnp.int32, jnp.float32, jnp.int32, jnp.float32]
    batch = Episodes(*(jax.ShapeDtypeStruct(shape, kind) for shape, kind in zip(shapes, kinds, strict=True)))
    state = jax.eval_shape(agent.init, jax.random.key(0))
    program = jax.make_jaxpr(agent.update)(state, batch, learning_rates(1e-3), jax.random.key(0))
    assert largest(program.jaxpr) <= 8 * episodes * (bits + 1) * bits


def largest(jaxpr: Any) -> int:
    """The size of the largest array in a program."""
    sizes = [var.aval.size for equation in jaxpr.eqns for var in equation.outvars if hasattr(var.aval, "size")]
    for equation in jaxpr.eqns:
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")):
            inner = getattr(value, "jaxpr", value)
            sizes += [largest(inner)] if hasattr(inner, "eqns") else []
    return max(sizes, default=0)


SCREEN = Screen(**{**CORRIDOR, "goals": (2, 3, 5, 6)}, shape=(36, 36, 2), noise=True)


@pytest.mark.parametrize("method", ["gcpg+b", "hpg+b"])
def test_a_baseline_learns_from_pictures(method: str) -> None:
    agent = policy_gradient_agent(SCREEN, METHODS[method], HindsightBaselineOptions(hidden_layers=(6, 5)))
    state = quick_jit(agent.init)(jax.random.key(0))
    assert state.baseline.trunk is not None
    after, cause, _ = quick_jit(agent.update)(state, poisonless(), learning_rates(1e-2, 1e-2), jax.random.key(1))
    assert CAUSES[int(cause)] == ""
    for model in ("policy", "baseline"):
        for new, old in zip(*(jax.tree.leaves(getattr(one, model)) for one in (after, state)), strict=True):
            assert np.any(new != old)


def poisonless() -> Episodes:
    """Walks whose padding can be computed with, as that of real rollouts."""
    walks = random_walks(SCREEN, 6, 0)
    return walks._replace(
        actions=jnp.minimum(walks.actions, 1),
        achieved_goals=jnp.nan_to_num(walks.achieved_goals),
        log_probabilities=jnp.full(walks.actions.shape, jnp.log(0.5)),
    )


def test_a_normalised_value_sees_what_its_statistics_say() -> None:
    with jax.enable_x64(False):
        episodes = jax.tree.map(jnp.asarray, walk_of_bits())
    value = with_statistics(Value(3, 3, (6,), jax.random.key(0), normalise=True), episodes)
    assert value.normalisers is not None
    ours = value.normalisers
    assert float(ours[0].count) == 6
    rows, goals, times = episodes.observations[:, 0], episodes.pursued_goals, jnp.zeros(2)
    inputs = jnp.concatenate([ours[0](rows), ours[1](goals), times[:, None]], axis=1)
    np.testing.assert_allclose(value(rows, goals, times), value.network(inputs)[:, 0], rtol=1e-5)


def test_the_baseline_sees_inputs_as_they_are_also_where_the_policy_is_normalised() -> None:
    """As in checkpoints that were written before values could be normalised."""
    options = HindsightBaselineOptions(hidden_layers=(6,), normalise=True)
    state = quick_jit(policy_gradient_agent(BitFlipping(3), METHODS["hpg+b"], options).init)(jax.random.key(0))
    assert state.baseline.normalisers is None
    assert state.policy.normalisers is not None


def walk_of_bits() -> Episodes:
    """Two episodes of three actions each."""
    states = np.array([[[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]], [[0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]]])
    bits = states.astype(np.float32)
    actions = np.array([[0, 1, 2], [1, 1, 2]])
    return Episodes(bits, bits, actions, bits[:, 2], np.array([3, 3]), np.full((2, 3), np.log(1 / 3), np.float32))
