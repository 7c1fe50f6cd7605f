"""Bit flipping: start from all zeros, toggle one bit at a time, reach a given string of bits."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.finite import FiniteProblem, remaining_time_rewards
from hindsight_rl.environments.interface import Environment, remaining_time_reward

Bits = Float[Array, " bits"]

MOST_BITS = 120
"""The probability of one of more strings would be too small for single precision."""


class BitFlipping(Environment):
    """The paper's bit flipping environment with `bits` bits: as many actions, and a horizon of one more.

    Every string of bits is a goal, the start included (which then takes two actions: away and back).
    """

    bits: int
    horizon: int
    action_count: int

    def __init__(self, bits: int = 8):
        if not 1 <= bits <= MOST_BITS:
            raise HindsightError(f"bit-flipping takes 1 to {MOST_BITS} bits, not {bits}.")
        self.bits = bits
        self.horizon = bits + 1
        self.action_count = bits

    @property
    def goal_count(self) -> int:
        return 2**self.bits

    @property
    def state_limit(self) -> int | None:
        return 2**self.bits

    def reset(self, key: Key[Array, ""]) -> Bits:
        return jnp.zeros(self.bits)

    def step(self, state: Bits, action: Int[Array, ""], key: Key[Array, ""]) -> Bits:
        return jnp.where(jnp.arange(self.bits) == action, 1 - state, state)

    def observe(self, state: Bits) -> Bits:
        return state

    def achieved_goal(self, state: Bits) -> Bits:
        return state

    def sample_goal(self, key: Key[Array, ""]) -> Bits:
        return jax.random.bernoulli(key, shape=(self.bits,)).astype(jnp.float32)

    def goal_probability(self, goal: Bits) -> Float[Array, ""]:
        return jnp.float32(2.0**-self.bits)

    def reached(self, achieved: Bits, goal: Bits) -> Bool[Array, ""]:
        return jnp.all(achieved == goal)

    def reward(self, achieved: Bits, goal: Bits, time: Int[Array, ""]) -> Float[Array, ""]:
        return remaining_time_reward(self.reached(achieved, goal), time, self.horizon)

    def finite_problem(self) -> FiniteProblem:
        """All states and goals as tables; up to 10 bits, as the tables grow with the square of the states."""
        if self.bits > 10:
            raise HindsightError(f"The tables of {self.bits} bits would be too large; at most 10 bits fit.")
        states = np.array(list(itertools.product((0.0, 1.0), repeat=self.bits)))
        numbers = np.arange(len(states))
        transitions = np.zeros((1, len(states), self.bits, len(states)))
        for bit in range(self.bits):
            transitions[0, numbers, bit, numbers ^ (1 << (self.bits - 1 - bit))] = 1
        reached = np.eye(len(states), dtype=bool)
        probabilities = np.asarray(jax.vmap(self.goal_probability)(jnp.asarray(states, jnp.float32)), np.float64)
        return FiniteProblem(
            observations=states,
            goals=states,
            start_probabilities=(numbers == 0).astype(np.float64),
            transition_probabilities=transitions,
            goal_probabilities=probabilities / probabilities.sum(),
            rewards=remaining_time_rewards(reached, self.horizon),
            reached=reached,
        )

    def render(self, state: Bits, goal: Bits) -> str:
        """The bits above, the goal below."""
        return "\n".join("".join(str(int(bit)) for bit in row) for row in (state, goal))
