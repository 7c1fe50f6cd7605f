"""Whole episodes in arrays of a fixed size, as a compiled program needs them: the newest replace the oldest."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.interface import Task

MOST_ADDED = 2**30


class EpisodeBuffer(NamedTuple):
    """Episodes in slots, with the log-probability under which each action was taken."""

    episodes: Episodes
    """One for each slot; observations and goals have the types that the task gives them."""
    added: Int[Array, ""]
    """Episodes put in so far, of thousands of millions whole rings fewer: the next one goes to the slot of that number,
    counted round the ring."""

    @property
    def slots(self) -> int:
        """The most episodes that it holds."""
        return self.episodes.lengths.shape[0]

    @property
    def size(self) -> Int[Array, ""]:
        """The episodes that it holds."""
        return jnp.minimum(self.added, self.slots)


def empty_buffer(task: Task, slots: int) -> EpisodeBuffer:
    """A buffer without any episode."""
    times = task.horizon - 1
    action = (task.action_count,) if task.continuous else ()
    goal_type = jnp.dtype(task.goal_type)
    episodes = Episodes(
        observations=jnp.zeros((slots, times + 1, *task.observation_shape), jnp.dtype(task.observation_type)),
        achieved_goals=jnp.zeros((slots, times + 1, *task.goal_shape), goal_type),
        actions=jnp.zeros((slots, times, *action), jnp.float32 if task.continuous else jnp.int32),
        pursued_goals=jnp.zeros((slots, *task.goal_shape), goal_type),
        lengths=jnp.zeros(slots, jnp.int32),
        log_probabilities=jnp.zeros((slots, times)),
    )
    return EpisodeBuffer(episodes, jnp.int32(0))


def add_episodes(buffer: EpisodeBuffer, episodes: Episodes) -> EpisodeBuffer:
    """The buffer with a batch of episodes in the place of its oldest ones."""
    # Of a batch that is larger than the ring only the newest are kept.
    newest = jax.tree.map(lambda leaf: leaf[-buffer.slots :], episodes)
    skipped = len(episodes.lengths) - len(newest.lengths)
    # Beyond 32 bits the number would be negative, and so would be the episodes held.
    added = jnp.where(buffer.added < MOST_ADDED, buffer.added, buffer.slots + buffer.added % buffer.slots)
    places = (added + skipped + jnp.arange(len(newest.lengths))) % buffer.slots

    def put(old: Array, new: Array) -> Array:
        return old.at[places].set(new.astype(old.dtype), unique_indices=True)

    return EpisodeBuffer(jax.tree.map(put, buffer.episodes, newest), (added + len(episodes.lengths)).astype(jnp.int32))


def draw_slots(buffer: EpisodeBuffer, count: int, key: Key[Array, ""]) -> Int[Array, " pair"]:
    """Slots of episodes drawn uniformly, with replacement, from a buffer that is not empty."""
    return jax.random.randint(key, (count,), 0, buffer.size)
