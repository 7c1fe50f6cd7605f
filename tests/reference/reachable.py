"""All that can happen in a small environment, found by trying everything."""

import jax
import jax.numpy as jnp
import numpy as np
from reference.compilation import quick_jit

from hindsight_rl.environments.interface import Environment

CHUNK = 64
KEYS = 8
"""Random outcomes tried of each reset and step; enough that every intended move happens at least once."""


def reachable_states(environment: Environment) -> np.ndarray:
    """Every state (an array each) that some actions can lead to, in the order of discovery."""
    keys = jax.random.split(jax.random.key(0), KEYS)
    actions = jnp.arange(environment.action_count)
    step = jax.vmap(environment.step, in_axes=(None, None, 0))
    step = jax.vmap(jax.vmap(step, in_axes=(None, 0, None)), in_axes=(0, None, None))
    step = quick_jit(step)
    first = np.asarray(quick_jit(jax.vmap(environment.reset))(jax.random.split(jax.random.key(1), 256)))
    found = {tuple(state.ravel()): state for state in first}
    frontier = list(found.values())
    while frontier:
        chunk, frontier = frontier[:CHUNK], frontier[CHUNK:]
        padded = np.stack(chunk + [chunk[-1]] * (CHUNK - len(chunk)))
        following = np.asarray(step(jnp.asarray(padded), actions, keys))
        for state in following.reshape(-1, *padded.shape[1:]):
            if tuple(state.ravel()) not in found:
                found[tuple(state.ravel())] = state
                frontier.append(state)
    return np.stack(list(found.values()))


def distinct(rows: np.ndarray) -> np.ndarray:
    """The distinct rows."""
    return np.unique(rows.reshape(len(rows), -1), axis=0).reshape(-1, *rows.shape[1:])
