"""The exact gradient of the expected return with respect to the parameters of a policy."""

from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hindsight_rl.environments.finite import FiniteProblem
from hindsight_rl.exact.returns import expected_return

TILE = 1024
"""Pairs of state and goal that go through the network at once."""


class LogPolicy(Protocol):
    """A policy network: log-probabilities of all actions for rows of observations and goals; a pytree of arrays."""

    def log_probabilities(self, observations: Array, goals: Array) -> Array:
        """log p(a | s, g) for each row."""
        ...


AnyPolicy = TypeVar("AnyPolicy", bound=LogPolicy)


def policy_table(policy: LogPolicy, problem: FiniteProblem) -> Float[np.ndarray, "state goal action"]:
    """p(a | s, g) for every state and goal, in float64."""
    with jax.enable_x64(True):
        return np.asarray(_compiled_table(_double(policy), *_features(problem)))


def exact_gradient(policy: AnyPolicy, problem: FiniteProblem) -> tuple[float, AnyPolicy]:
    """eta and its gradient in float64, the gradient shaped like the policy.

    The propagation is differentiated with respect to the table of probabilities, and the table, tile by tile, with
    respect to the parameters.
    """
    with jax.enable_x64(True):
        value, gradient = _compiled_gradient(_double(policy), problem)
        return float(value), jax.tree.map(np.asarray, gradient)


@jax.jit
def _compiled_table(policy: Any, observations: Array, goals: Array) -> Array:
    return _table(policy, observations, goals)


@jax.jit
def _compiled_gradient(policy: Any, problem: FiniteProblem) -> tuple[Array, Any]:
    observations, goals = _features(problem)
    table = _table(policy, observations, goals)
    value, slope = jax.value_and_grad(expected_return)(table, problem)
    rows, columns, real = _tiles(len(observations), len(goals))

    def add(total: Any, tile: tuple[Array, Array, Array]) -> tuple[Any, None]:
        state, goal, counts = tile
        weights = jnp.where(counts[:, None], slope[state, goal], 0)

        def surrogate(policy: Any) -> Array:
            return jnp.sum(weights * jnp.exp(policy.log_probabilities(observations[state], goals[goal])))

        return jax.tree.map(jnp.add, total, jax.grad(surrogate)(policy)), None

    zero = jax.tree.map(jnp.zeros_like, policy)
    return value, jax.lax.scan(add, zero, (rows, columns, real))[0]


def _table(policy: Any, observations: Array, goals: Array) -> Array:
    rows, columns, _ = _tiles(len(observations), len(goals))

    def evaluate(tile: tuple[Array, Array]) -> Array:
        return jnp.exp(policy.log_probabilities(observations[tile[0]], goals[tile[1]]))

    probabilities = jax.lax.map(evaluate, (rows, columns))
    flat = probabilities.reshape(-1, probabilities.shape[-1])[: len(observations) * len(goals)]
    return flat.reshape(len(observations), len(goals), -1)


def _tiles(states: int, goals: int) -> tuple[Array, Array, Array]:
    """States and goals of all pairs in tiles, the last one padded, and which entries are no padding."""
    tile = min(TILE, states * goals)
    cells = jnp.arange(-(-states * goals // tile) * tile).reshape(-1, tile)
    real = cells < states * goals
    cells = jnp.where(real, cells, 0)
    return cells // goals, cells % goals, real


def _features(problem: FiniteProblem) -> tuple[Array, Array]:
    return jnp.asarray(problem.observations), jnp.asarray(problem.goals)


def _double(policy: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), policy)
