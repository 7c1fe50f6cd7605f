"""The learned baseline: its values where the methods need them, and how it learns."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from hindsight_rl.agents import pairs as pairwise
from hindsight_rl.agents.active_goals import PLAIN, Lessons, own_rewards
from hindsight_rl.agents.distinct import distinct_rows
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.goals import GoalSet
from hindsight_rl.environments.interface import Task
from hindsight_rl.networks.value import Value


def values_under_goals(
    baseline: Value, episodes: Episodes, goals: GoalSet, wanted: Bool[Array, "goal episode time"]
) -> Float[Array, "goal episode time"]:
    """b_t(s[i, t], g) where wanted, computed once for each distinct state and time; zero elsewhere."""
    batch_size, times = episodes.actions.shape[:2]
    clock = jnp.tile(jnp.arange(times, dtype=jnp.float32), batch_size)
    observations = episodes.observations[:, :-1].reshape(batch_size * times, -1)
    moments = distinct_rows(
        jnp.concatenate([observations, clock[:, None]], axis=1), episodes.taken.ravel(), batch_size * times
    )
    decisions = wanted.reshape(len(goals.present), -1).T
    pairs = pairwise.select(jnp.zeros_like(decisions).at[moments.index].max(decisions))
    flat_goals = goals.goals.reshape(len(goals.present), -1)

    def value(row: Array, goal: Array) -> Array:
        return baseline(moments.rows[row, :-1], flat_goals[goal], moments.rows[row, -1])[:, None]

    table = pairwise.evaluate(value, pairs, 1)
    return jnp.where(wanted, table[pairs.numbers[moments.index], 0].T.reshape(-1, batch_size, times), 0)


def temporal_difference_gradient(task: Task, baseline: Value, episodes: Episodes, lessons: Lessons = PLAIN) -> Value:
    """The gradient of the mean squared one-step temporal difference error of the pursued goals.

    After the last decision of an episode the target is the reward alone.
    """
    rewards, decides = own_rewards(task, episodes, lessons)
    goes_on = jnp.pad(decides[:, 1:], ((0, 0), (0, 1)))

    def loss(baseline: Value) -> Float[Array, ""]:
        values = pursued_values(baseline, episodes)
        targets = rewards + jnp.where(goes_on, jax.lax.stop_gradient(values[:, 1:]), 0)
        errors = jnp.where(decides, targets - values[:, :-1], 0)
        return jnp.sum(errors**2) / jnp.maximum(jnp.sum(decides), 1)

    return jax.grad(loss)(baseline)


def pursued_values(baseline: Value, episodes: Episodes) -> Float[Array, "episode state"]:
    """b_t(s[i, t], g[i]) at every state."""
    batch_size, states = episodes.observations.shape[:2]
    observations = episodes.observations.reshape(batch_size * states, -1)
    goals = jnp.repeat(episodes.pursued_goals.reshape(batch_size, -1), states, axis=0)
    clock = jnp.tile(jnp.arange(states, dtype=jnp.float32), batch_size)
    return baseline(observations, goals, clock).reshape(batch_size, states)
