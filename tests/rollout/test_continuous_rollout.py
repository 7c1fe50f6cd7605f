"""Compiled environments with continuous actions, states that are trees, and rewards of other forms."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.compilation import quick_jit
from reference.drift import Drift
from reference.linear_policy import linear_policy

from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.contract import check_environment
from hindsight_rl.rollout.compiled import collect, play
from hindsight_rl.rollout.trace import trace

DRIFT = Drift(wind=0.0)
POLICY = linear_policy(DRIFT, seed=2, scale=0.5)
BATCH = 64


@cache
def episodes(episodes_end: str) -> Episodes:
    found = quick_jit(lambda key: collect(DRIFT, POLICY.explore, BATCH, key, episodes_end))(jax.random.key(4))
    return jax.tree.map(np.asarray, found)


def test_actions_have_an_axis_for_their_numbers() -> None:
    found = episodes("horizon")
    assert found.actions.shape == (BATCH, 5, 2)
    assert found.actions.dtype == np.float32
    assert found.log_probabilities.shape == (BATCH, 5)
    assert found.observations.shape == (BATCH, 6, 3)
    assert found.taken.all()


def test_places_follow_from_the_actions() -> None:
    found = episodes("horizon")
    moves = np.clip(found.actions, -1, 1)
    assert np.any(moves != found.actions)
    expected = found.achieved_goals[:, :1] + np.cumsum(moves, axis=1)
    np.testing.assert_allclose(found.achieved_goals[:, 1:], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found.observations[..., 2], np.tile(np.arange(6), (BATCH, 1)))


def test_densities_are_those_of_the_policy() -> None:
    found = episodes("horizon")
    rows = found.observations[:, :-1].reshape(BATCH * 5, 3)
    means = np.asarray(POLICY.outputs(rows, np.repeat(found.pursued_goals, 5, axis=0)), np.float64)
    noise = found.actions.reshape(BATCH * 5, 2) - means
    expected = -0.5 * np.sum(noise**2 + np.log(2 * np.pi), axis=1)
    np.testing.assert_allclose(found.log_probabilities.ravel(), expected, rtol=1e-4, atol=1e-4)


def test_coming_near_the_goal_ends_an_episode() -> None:
    found = episodes("goal")
    distances = np.linalg.norm(found.achieved_goals[:, 1:] - found.pursued_goals[:, None], axis=2)
    reached = distances < 0.5
    expected = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, 5)
    np.testing.assert_array_equal(found.lengths, expected)
    assert len(set(expected)) > 2


@pytest.mark.parametrize("form", ["price", "distance"])
def test_greedy_returns_equal_a_plain_loop(form: str) -> None:
    """Play and collect begin alike from the same key, which is how the plain loop knows starts and goals."""
    environment = Drift(wind=0.0, reward_form=form)
    key = jax.random.key(9)
    outcomes = quick_jit(lambda k: play(environment, POLICY.exploit, 20, k))(key)
    begun = quick_jit(lambda k: collect(environment, POLICY.explore, 20, k))(key)
    for episode in range(20):
        place, goal = np.asarray(begun.achieved_goals[episode, 0]), np.asarray(begun.pursued_goals[episode])
        total, reached = 0.0, False
        for time in range(5):
            observation = np.append(place, time)[None]
            place = place + np.clip(np.asarray(POLICY.exploit(observation, goal[None], time))[0], -1, 1)
            distance = float(np.linalg.norm(place - goal))
            total += -distance if form == "distance" else -float(distance >= 0.5)
            if reached := bool(distance < 0.5):
                break
        assert float(outcomes.returns[episode]) == pytest.approx(total, rel=1e-4)
        assert bool(outcomes.successes[episode]) == reached
    assert 0 < np.mean(outcomes.successes) < 1


def test_a_trace_takes_vectors() -> None:
    class One:
        def act(self, observation: jax.Array, goal: jax.Array, time: jax.Array) -> jax.Array:
            return POLICY.exploit(observation[None], goal[None], time)[0]

    found = trace(DRIFT, One(), jax.random.key(1))
    assert 2 <= len(found.states) <= 6
    assert " to " in DRIFT.render(found.states[-1], found.goal)
    assert all(state["place"].shape == (2,) for state in found.states)
    assert jnp.isfinite(found.total_return)


@pytest.mark.parametrize("form", ["price", "distance"])
def test_it_keeps_to_the_contract(form: str) -> None:
    assert [one for one in check_environment(Drift(reward_form=form)) if not one.passed] == []
