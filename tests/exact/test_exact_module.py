"""Exact returns, values and gradients: against finite differences, sampling, and answers known otherwise."""

from functools import cache
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, Key
from reference.compilation import quick_jit

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.finite import FiniteProblem, check_problem
from hindsight_rl.environments.grid_world import GridWorld
from hindsight_rl.environments.registry import make
from hindsight_rl.exact import (
    best_return,
    exact_gradient,
    exact_values,
    expected_return,
    finite_problem,
    optimal_return,
    policy_table,
    state_distributions,
)
from hindsight_rl.networks.policy import Policy
from hindsight_rl.rollout.compiled import collect

SLIPPERY = GridWorld("S..\n.#.\n...", slip=0.3, horizon=6)


def sharp_policy(environment: BitFlipping | GridWorld, hidden: int = 5, scale: float = 1.0) -> Policy:
    """A small policy far from uniform."""
    problem = environment.finite_problem()
    size, generator = problem.observations.shape[1], np.random.default_rng(0)
    policy = Policy(size, size, environment.action_count, (hidden,), jax.random.key(0))
    return jax.tree.map(lambda leaf: generator.normal(size=leaf.shape, scale=scale), policy)


@pytest.mark.parametrize("environment", [BitFlipping(3), SLIPPERY], ids=["bits", "grid"])
def test_the_exact_gradient_agrees_with_finite_differences(environment: BitFlipping | GridWorld) -> None:
    problem, policy = finite_problem(environment), sharp_policy(environment)
    _, gradient = exact_gradient(policy, problem)
    generator, step = np.random.default_rng(1), 1e-5
    with jax.enable_x64(True):
        compiled = quick_jit(lambda table: expected_return(table, problem))
        for _ in range(5):
            direction = jax.tree.map(lambda leaf: generator.normal(size=leaf.shape), policy)
            ends = []
            for sign in (1, -1):
                moved = jax.tree.map(lambda leaf, way, s=sign: leaf + s * step * way, policy, direction)
                ends.append(float(compiled(policy_table(moved, problem))))
            parts = jax.tree.map(lambda slope, way: float(np.sum(slope * way)), gradient, direction)
            expected = sum(jax.tree.leaves(parts))
            assert abs(expected) > 1e-3
            assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "best"), [("bit-flipping-8", 4.9921875), ("empty-room", 21.0 + 11 / 12), ("four-rooms", 18.841)]
)
def test_best_possible_returns(name: str, best: float) -> None:
    assert optimal_return(finite_problem(make(name))) == pytest.approx(best, abs=1e-3)


class MostlyZeros(BitFlipping):
    """Each bit of a goal is one with probability a quarter."""

    def sample_goal(self, key: Key[Array, ""]) -> Float[Array, " bits"]:
        return jax.random.bernoulli(key, 0.25, (self.bits,)).astype(jnp.float32)

    def goal_probability(self, goal: Float[Array, " bits"]) -> Float[Array, ""]:
        return jnp.prod(jnp.where(goal == 1, 0.25, 0.75))


class Halting(MostlyZeros):
    """Only the first bit can be toggled, so no table of bit flipping holds."""

    def step(self, state: Float[Array, " bits"], action: Array, key: Key[Array, ""]) -> Float[Array, " bits"]:
        return super().step(state, jnp.zeros_like(action), key)

    def finite_problem(self) -> FiniteProblem:
        raise HindsightError("There are no tables.")


def best_of_mostly_zeros(bits: int) -> float:
    """E[horizon - ones] in closed form; the start, which is drawn with probability 0.75^bits, takes two actions."""
    return bits + 1 - bits / 4 - 2 * 0.75**bits


@pytest.mark.parametrize("bits", [2, 8, 11])
def test_the_best_return_heeds_how_goals_are_drawn(bits: int) -> None:
    environment = MostlyZeros(bits)  # type: ignore[call-arg]
    assert best_return(environment) == pytest.approx(best_of_mostly_zeros(bits), rel=1e-5)
    assert abs(best_of_mostly_zeros(bits) - cast(float, best_return(BitFlipping(bits)))) > 0.1
    if bits <= 8:
        assert optimal_return(finite_problem(environment)) == pytest.approx(best_of_mostly_zeros(bits), rel=1e-5)


def test_the_best_return_is_unknown_under_other_rules_and_for_too_many_goals() -> None:
    assert best_return(Halting(4)) is None  # type: ignore[call-arg]
    assert best_return(MostlyZeros(20)) is None  # type: ignore[call-arg]
    assert best_return(BitFlipping(64)) == 33.0
    assert best_return(BitFlipping(1)) == optimal_return(finite_problem(BitFlipping(1))) == 0.5


def test_values_returns_and_distributions_fit_together() -> None:
    problem, policy = finite_problem(SLIPPERY), sharp_policy(SLIPPERY)
    table = policy_table(policy, problem)
    value, _ = exact_gradient(policy, problem)
    found = exact_values(table, problem)
    assert problem.start_probabilities @ found.values[0] @ problem.goal_probabilities == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(np.sum(table[None] * found.advantages, axis=3), 0, atol=1e-10)
    assert np.max(np.abs(found.advantages)) > 0.1
    with jax.enable_x64(True):
        present = np.asarray(state_distributions(jnp.asarray(table), problem))
    # The floor of 1e-12 under every probability lets a row sum to a little more than one.
    assert np.all(np.diff(present.sum(axis=1), axis=0) <= 1e-10)
    np.testing.assert_allclose(present[0].sum(axis=0), 1)


@cache
def four_rooms_policy() -> Policy:
    return jax.tree.map(jnp.float32, sharp_policy(make("four-rooms"), hidden=16, scale=0.3))


def test_exact_agrees_with_sampling_on_four_rooms() -> None:
    """20,000 episodes with a fixed seed; the tolerance is four standard errors."""
    environment, policy = make("four-rooms"), four_rooms_policy()
    expected, _ = exact_gradient(policy, finite_problem(environment))

    def explore(observations: jax.Array, goals: jax.Array, time: jax.Array, key: jax.Array) -> tuple[Any, ...]:
        table = policy.log_probabilities(observations, goals)
        actions = jnp.argmax(table + jax.random.gumbel(key, table.shape), axis=1)
        return actions, jnp.take_along_axis(table, actions[:, None], axis=1)[:, 0]

    episodes = jax.jit(lambda key: collect(environment, explore, 20_000, key))(jax.random.key(1))
    final = np.asarray(episodes.achieved_goals)[np.arange(20_000), np.asarray(episodes.lengths)]
    reached = np.all(final == np.asarray(episodes.pursued_goals), axis=1)
    returns = np.where(reached, environment.horizon - np.asarray(episodes.lengths), 0)
    error = returns.std() / np.sqrt(len(returns))
    assert expected > 1
    assert abs(returns.mean() - expected) < 4 * error


def test_tables_agree_with_the_steps_of_a_slippery_grid() -> None:
    """Each state and action 4,000 times; the tolerance is five standard errors of a frequency."""
    problem = finite_problem(SLIPPERY)
    cells = jnp.asarray(problem.observations, jnp.int32)
    keys = jax.random.split(jax.random.key(2), 4000)
    every = jax.vmap(jax.vmap(jax.vmap(SLIPPERY.step, (None, None, 0)), (None, 0, None)), (0, None, None))
    following = np.asarray(jax.jit(every)(cells, jnp.arange(4), keys))
    arrived = np.all(following[:, :, :, None] == np.asarray(cells)[None, None, None], axis=4).mean(axis=2)
    np.testing.assert_allclose(arrived, problem.transition_probabilities[0], atol=5 * 0.5 / np.sqrt(4000))


def test_an_environment_without_tables_is_named() -> None:
    with pytest.raises(HindsightError, match="str has no method finite_problem"):
        finite_problem("four-rooms")


def test_tables_that_would_not_fit_are_refused() -> None:
    with pytest.raises(HindsightError, match="at most 10 bits"):
        finite_problem(BitFlipping(16))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("goal_probabilities", np.full(4, 0.3), "goal_probabilities must hold probabilities that sum to one"),
        ("start_probabilities", np.array([2.0, -1.0, 0.0, 0.0]), "start_probabilities must hold probabilities"),
        ("transition_probabilities", np.ones((1, 4, 2, 4)), "transition_probabilities must hold probabilities"),
        ("transition_probabilities", np.ones((4, 2, 4)), "transition_probabilities must have shape"),
        ("rewards", np.ones((2, 4, 3)), "rewards must have shape"),
        ("reached", np.ones((4, 3), bool), "reached must have shape"),
    ],
)
def test_a_wrong_table_is_named(name: str, value: np.ndarray, message: str) -> None:
    problem: FiniteProblem = BitFlipping(2).finite_problem()
    with pytest.raises(HindsightError, match=message):
        check_problem(problem._replace(**{name: value}))


def test_a_policy_of_the_wrong_shape_is_named() -> None:
    with pytest.raises(HindsightError, match=r"policy must have the axes \[state, goal, action\] = \(4, 4, 2\)"):
        exact_values(np.ones((4, 4, 3)) / 3, finite_problem(BitFlipping(2)))


def test_tables_that_would_fill_the_memory_are_refused_before_they_are_made() -> None:
    """A room of 110 cells a side can be trained on; only the line of the best return is left out of its curve."""
    room = make("empty-room-110")
    with pytest.raises(HindsightError, match=r"12100 states and 12099 goals over 220 time steps would take 2..\.. GiB"):
        finite_problem(room)
    assert best_return(room) is None
    assert best_return(make("empty-room")) is not None
