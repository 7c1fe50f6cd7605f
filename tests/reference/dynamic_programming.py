"""Best possible returns of problems in which each action leads to one state, or slips to that of a random action."""

import jax
import jax.numpy as jnp
import numpy as np
from reference.compilation import quick_jit

from hindsight_rl.environments.interface import Environment


def table_of_moves(environment: Environment, states: np.ndarray) -> np.ndarray:
    """[state, action] the number of the state that follows, in an environment that does not slip."""
    step = jax.vmap(jax.vmap(environment.step, in_axes=(None, 0, None)), in_axes=(0, None, None))
    actions = jnp.arange(environment.action_count)
    following = np.asarray(quick_jit(step)(jnp.asarray(states), actions, jax.random.key(0)))
    position = {tuple(state): number for number, state in enumerate(states)}
    return np.array([[position[tuple(state)] for state in row] for row in following])


def best_returns(moves: np.ndarray, goals: np.ndarray, slip: float, horizon: int) -> np.ndarray:
    """[goal, state] the largest expected return from a first state, for a policy that may depend on time.

    Reaching the goal after `time` actions is worth `horizon - time`, and ends the episode.
    """
    own = goals[:, None] == np.arange(len(moves))[None]
    values = np.zeros((len(goals), len(moves)))
    for time in reversed(range(1, horizon)):
        after_arrival = np.where(own, horizon - time, values)
        of_moves = after_arrival[:, moves]
        of_actions = (1 - slip) * of_moves + slip * of_moves.mean(axis=2, keepdims=True)
        values = of_actions.max(axis=2)
    return values
