"""Facts of the bit flipping environment."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.dynamic_programming import best_returns, table_of_moves

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.registry import make


def all_bits(bits: int) -> np.ndarray:
    return np.array(list(itertools.product([0.0, 1.0], repeat=bits)), dtype=np.float32)


@pytest.mark.parametrize("bits", [1, 8, 16, 64])
def test_sizes(bits: int) -> None:
    environment = BitFlipping(bits)
    assert environment.horizon == bits + 1
    assert environment.action_count == bits
    assert environment.goal_count == environment.state_limit == 2**bits


def test_an_action_toggles_its_own_bit() -> None:
    environment, key = BitFlipping(3), jax.random.key(0)
    step = jax.jit(environment.step)
    for state in all_bits(3):
        for action in range(3):
            expected = state.copy()
            expected[action] = 1 - expected[action]
            np.testing.assert_array_equal(step(jnp.asarray(state), action, key), expected)


def test_episodes_start_from_zeros() -> None:
    for seed in range(3):
        np.testing.assert_array_equal(BitFlipping(5).reset(jax.random.key(seed)), np.zeros(5))


def test_the_start_is_a_goal_too() -> None:
    np.testing.assert_allclose(BitFlipping(4).goal_probability(jnp.zeros(4)), 1 / 16)


def test_best_possible_return_of_8_bits() -> None:
    """4.992: a goal with k ones takes k actions, and the start takes two."""
    states = all_bits(8)
    moves = table_of_moves(BitFlipping(8), states)
    returns = best_returns(moves, np.arange(256), slip=0, horizon=9)[:, 0]
    ones = states.sum(axis=1)
    np.testing.assert_array_equal(returns, 9 - np.where(ones == 0, 2, ones))
    assert round(returns.mean(), 3) == 4.992


def test_best_possible_return_of_16_bits() -> None:
    environment = make("bit-flipping-16")
    goals = np.array([[1.0] * ones + [0.0] * (16 - ones) for ones in range(17)])
    shortest = [max(ones, 1) if ones else 2 for ones in range(17)]
    rewards = [environment.reward(goal, goal, time) for goal, time in zip(goals, shortest, strict=True)]
    weights = [math.comb(16, ones) / 2**16 for ones in range(17)]
    assert round(float(np.dot(weights, rewards)), 3) == 9.000


def test_picture() -> None:
    assert BitFlipping(3).render(np.array([0.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0])) == "011\n110"


@pytest.mark.parametrize("bits", [0, -3, 121])
def test_impossible_sizes_are_refused(bits: int) -> None:
    with pytest.raises(HindsightError, match=f"1 to 120 bits, not {bits}"):
        BitFlipping(bits)
