"""Problems with every trajectory written down, a policy for each, and the exact expectations that follow."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import jax
import numpy as np
from reference.compilation import quick_jit
from reference.enumeration import (
    LogPolicy,
    Problem,
    Trajectories,
    action_log_probabilities,
    all_trajectories,
    deterministic_problem,
    expected_estimate,
    expected_return,
    random_problem,
    rewards_along,
    trajectory_probabilities,
)

from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.networks.policy import Policy


@dataclass(frozen=True, eq=False)
class Case:
    """A problem, a policy for it, and what follows from both."""

    problem: Problem
    log_policy: LogPolicy
    parameters: Any
    trajectories: Trajectories

    @cached_property
    def table(self) -> np.ndarray:
        """[goal, state, action] log-probabilities"""
        return np.asarray(quick_jit(self.log_policy)(self.parameters))

    @cached_property
    def log_probabilities(self) -> np.ndarray:
        """[goal, trajectory, time] of the actions taken"""
        return action_log_probabilities(self.trajectories, self.table)

    @cached_property
    def probabilities(self) -> np.ndarray:
        """[pursued goal, trajectory]"""
        return trajectory_probabilities(self.trajectories, self.table)

    @cached_property
    def rewards(self) -> np.ndarray:
        """[goal, trajectory, time] over the full horizon, each goal cut at its own end"""
        return rewards_along(self.problem, self.trajectories)

    @cached_property
    def true_gradient(self) -> Any:
        return quick_jit(jax.grad(lambda p: expected_return(self.problem, self.log_policy(p))))(self.parameters)

    @cached_property
    def estimate(self) -> Callable[[np.ndarray, np.ndarray], Any]:
        """From weights [trajectory] and coefficients [goal, trajectory, time] to the expected gradient."""
        return quick_jit(partial(expected_estimate, self.log_policy, self.parameters, self.trajectories))


def softmax_table(logits: jax.Array) -> jax.Array:
    return jax.nn.log_softmax(logits, axis=2)


@cache
def random_case() -> Case:
    """Time-varying random transitions, unequal goal probabilities, rewards of either sign at every step."""
    generator = np.random.default_rng(7)
    problem = random_problem(generator, goals=3, states=3, actions=2, times=3)
    return Case(problem, softmax_table, generator.normal(size=(3, 3, 2)), all_trajectories(problem))


def all_bits(bits: int) -> np.ndarray:
    return np.array(list(itertools.product([0.0, 1.0], repeat=bits)))


@cache
def bit_flipping_case(bits: int) -> Case:
    """The real environment and the real network, small and far from uniform."""
    states = all_bits(bits)
    problem = deterministic_problem(BitFlipping(bits), states)

    def log_policy(policy: Policy) -> jax.Array:
        goals, rows = np.repeat(states, len(states), axis=0), np.tile(states, (len(states), 1))
        return policy.log_probabilities(rows, goals).reshape(len(states), len(states), bits)

    generator = np.random.default_rng(bits)
    policy = Policy(bits, bits, bits, (3,), jax.random.key(0))
    policy = jax.tree.map(lambda leaf: generator.normal(size=leaf.shape), policy)
    return Case(problem, log_policy, policy, all_trajectories(problem))


def sum_over_goals(case: Case, coefficients_of_goal: list[np.ndarray]) -> Any:
    """The expectation of a goal-conditional estimator: each goal pursued with its probability, and taught alone."""
    estimates = []
    for goal, coefficients in enumerate(coefficients_of_goal):
        alone = np.zeros(case.rewards.shape)
        alone[goal] = coefficients
        estimates.append(case.estimate(case.problem.goal_probabilities[goal] * case.probabilities[goal], alone))
    return jax.tree.map(lambda *leaves: sum(np.asarray(leaf) for leaf in leaves), *estimates)
