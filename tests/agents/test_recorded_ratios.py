"""The recorded likelihood ratios: every ratio that multiplied a reward is counted once, in its bin and at its time."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference import loops, plain_agent
from reference.compilation import quick_jit
from reference.example_episodes import ENVIRONMENTS, example_episodes, example_policy, example_value
from reference.methods import METHODS, learning_rates

from hindsight_rl.agents.active_goals import active_goals, rewards_of_goals
from hindsight_rl.agents.interface import Agent
from hindsight_rl.agents.options import HindsightOptions, PolicyOptions
from hindsight_rl.agents.policy_gradient import (
    OPTIMISER,
    RATIO_BINS,
    PolicyGradientState,
    count_active_ratios,
    policy_gradient_agent,
)
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.rollout.compiled import collect

BITS = BitFlipping(3)
RATES = learning_rates(1e-2, 1e-2)
SHAPE = (3, 2, 4)
COUNT = quick_jit(count_active_ratios)


def plain_counts(ratios: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """By plain loops."""
    counts = np.zeros((ratios.shape[2], RATIO_BINS), int)
    for goal, episode, time in np.ndindex(ratios.shape):
        if rewards[goal, episode, time] != 0:
            counts[time, min(int(np.floor(ratios[goal, episode, time] * RATIO_BINS)), RATIO_BINS - 1)] += 1
    return counts


@given(
    arrays(np.float32, SHAPE, elements=st.floats(0, 1, width=32) | st.integers(0, 32).map(lambda edge: edge / 32)),
    arrays(np.float32, SHAPE, elements=st.sampled_from([0.0, -1.0, 1e-30, 3.0])),
)
@settings(max_examples=200)
def test_counts_are_those_of_plain_loops(ratios: np.ndarray, rewards: np.ndarray) -> None:
    counts = COUNT(ratios, rewards)
    np.testing.assert_array_equal(counts, plain_counts(ratios, rewards))


@pytest.mark.parametrize(("ratio", "place"), [(0.0, 0), (0.03, 0), (1 / 32, 1), (0.999, 31), (1.0, 31)])
def test_bins_are_equal_and_the_last_includes_one(ratio: float, place: int) -> None:
    counts = np.asarray(COUNT(jnp.full((1, 1, 2), ratio), jnp.array([[[0.0, 5.0]]])))
    assert counts.shape == (2, RATIO_BINS)
    assert counts.sum() == 1
    assert counts[1, place] == 1


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize(("method", "ended"), [("hpg", "drop"), ("hpg", "carry"), ("hpg+b", "drop")])
def test_an_update_counts_the_ratios_of_its_episodes(method: str, ended: str) -> None:
    """Against loops over goal, episode and time, from the policy's probabilities on."""
    environment, policy = ENVIRONMENTS["3 bits"], example_policy("3 bits")
    episodes = example_episodes("3 bits", "goal")
    known = plain_agent.plain(episodes)
    goals = plain_agent.reached_goals(environment, known)
    probabilities = plain_agent.action_probabilities(policy, known, goals)
    ratios = loops.likelihood_ratios(probabilities, np.exp(known.log_probabilities), known.lengths)
    weights = loops.normalised_ratios(ratios, known.lengths, ended)
    expected = plain_counts(weights, plain_agent.rewards_of_goals(environment.horizon, known, goals).rewards)
    assert expected.sum() > 10
    assert np.count_nonzero(expected.sum(axis=0)) > 3

    baseline = example_value("3 bits") if METHODS[method].values else None
    before = jnp.full(expected.shape, 7, jnp.int32)
    state = PolicyGradientState(
        policy, OPTIMISER.init(policy), baseline, OPTIMISER.init(baseline) if baseline else None, before
    )
    agent = policy_gradient_agent(environment, METHODS[method], HindsightOptions(hidden_layers=(5,), ended=ended))
    updated, _, _ = quick_jit(agent.update)(state, episodes, RATES, jax.random.key(0))
    np.testing.assert_array_equal(updated.ratio_counts - before, expected)


def train(agent: Agent, batch_size: int, cap: int | None, batches: int = 6) -> tuple[PolicyGradientState, np.ndarray]:
    """The state after some updates, and how many hindsight rewards other than zero there were at each time."""

    def batch(state: PolicyGradientState, key: jax.Array) -> tuple[PolicyGradientState, jax.Array]:
        episode_key, update_key = jax.random.split(key)
        episodes: Episodes = collect(BITS, functools.partial(agent.explore, state), batch_size, episode_key)
        goals = active_goals(BITS, episodes, update_key, HindsightOptions(max_active_goals=cap))
        rewards, _ = rewards_of_goals(BITS, episodes, goals)
        return agent.update(state, episodes, RATES, update_key)[0], jnp.sum(rewards != 0, axis=(0, 1))

    advance = quick_jit(batch)
    state = agent.init(jax.random.key(3))
    total = np.zeros(BITS.horizon - 1, int)
    for key in jax.random.split(jax.random.key(4), batches):
        state, rewarded = advance(state, key)
        total += np.asarray(rewarded)
    return state, total


@pytest.mark.parametrize(("method", "cap"), [("hpg", None), ("hpg", 1), ("hpg+b", None)])
def test_every_reward_in_hindsight_has_its_ratio_counted(method: str, cap: int | None) -> None:
    agent = policy_gradient_agent(BITS, METHODS[method], HindsightOptions(hidden_layers=(6,), max_active_goals=cap))
    state, rewarded = train(agent, 8, cap)
    counts = np.asarray(agent.records(state)["ratios"])
    np.testing.assert_array_equal(counts.sum(axis=1), rewarded)
    assert rewarded.min() > 0
    assert counts[:, :-1].sum() > 0


def test_a_batch_of_one_episode_has_ratios_of_one() -> None:
    agent = policy_gradient_agent(BITS, METHODS["hpg"], HindsightOptions(hidden_layers=(6,)))
    state, rewarded = train(agent, 1, None)
    counts = np.asarray(agent.records(state)["ratios"])
    np.testing.assert_array_equal(counts[:, -1], rewarded)
    assert counts[:, :-1].sum() == 0
    assert rewarded.sum() > 0


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if not method.ratios])
def test_methods_without_ratios_record_none(method: str) -> None:
    agent = policy_gradient_agent(BITS, METHODS[method], PolicyOptions(hidden_layers=(6,)))
    state = agent.init(jax.random.key(0))
    assert state.ratio_counts is None
    assert agent.records(state) == {}
