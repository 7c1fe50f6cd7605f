"""The learned baseline: its values where the methods need them, and how it learns."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from hindsight_rl.agents.active_goals import PLAIN, own_rewards
from hindsight_rl.agents.options import PolicyOptions
from hindsight_rl.core import pairs as pairwise
from hindsight_rl.core.distinct import distinct_rows
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.goals import GoalSet
from hindsight_rl.environments.interface import Task
from hindsight_rl.networks.value import Value


def values_under_goals(
    task: Task, baseline: Value, episodes: Episodes, goals: GoalSet, wanted: Bool[Array, "goal episode time"]
) -> Float[Array, "goal episode time"]:
    """b_t(s[i, t], g) where wanted, computed once for each distinct state and time; zero elsewhere."""
    batch_size, times = episodes.actions.shape[:2]
    clock = jnp.tile(jnp.arange(times, dtype=jnp.float32), batch_size)
    observations = episodes.observations[:, :-1].reshape(batch_size * times, *episodes.observations.shape[2:])
    decisions = wanted.reshape(len(goals.present), -1).T
    if task.shows_pictures:
        index = jnp.arange(batch_size * times)
        encoded = baseline.encode(observations, jnp.any(decisions, axis=1))
    else:
        rows = jnp.concatenate([observations.reshape(batch_size * times, -1), clock[:, None]], axis=1)
        moments = distinct_rows(rows, episodes.taken.ravel(), batch_size * times)
        index, encoded, clock = moments.index, baseline.encode(moments.rows[:, :-1]), moments.rows[:, -1]
    pairs = pairwise.select(jnp.zeros_like(decisions).at[index].max(decisions))
    flat_goals = goals.goals.reshape(len(goals.present), -1)

    def value(row: Array, goal: Array) -> Array:
        return baseline.of(encoded[row], flat_goals[goal], clock[row])[:, None]

    table = pairwise.evaluate(value, pairs, 1)
    return jnp.where(wanted, table[pairs.numbers[index], 0].T.reshape(-1, batch_size, times), 0)


def temporal_difference_gradient(
    task: Task, baseline: Value, episodes: Episodes, options: PolicyOptions = PLAIN
) -> Value:
    """The gradient of the mean squared one-step temporal difference error of the pursued goals.

    After the last decision of an episode the target is the reward alone.
    """
    rewards, decides = own_rewards(task, episodes, options)
    goes_on = jnp.pad(decides[:, 1:], ((0, 0), (0, 1)))

    def loss(baseline: Value) -> Float[Array, ""]:
        values = pursued_values(baseline, episodes)
        targets = rewards + jnp.where(goes_on, jax.lax.stop_gradient(values[:, 1:]), 0)
        errors = jnp.where(decides, targets - values[:, :-1], 0)
        return jnp.sum(errors**2) / jnp.maximum(jnp.sum(decides), 1)

    return jax.grad(loss)(baseline)


def pursued_values(baseline: Value, episodes: Episodes) -> Float[Array, "episode state"]:
    """b_t(s[i, t], g[i]) at every state; of pictures, only where an action was taken."""
    batch_size, states = episodes.observations.shape[:2]
    observations = episodes.observations.reshape(batch_size * states, *episodes.observations.shape[2:])
    goals = jnp.repeat(episodes.pursued_goals.reshape(batch_size, -1), states, axis=0)
    clock = jnp.tile(jnp.arange(states, dtype=jnp.float32), batch_size)
    acted = jnp.pad(episodes.taken, ((0, 0), (0, 1))).ravel()
    return baseline.of(baseline.encode(observations, acted), goals, clock).reshape(batch_size, states)
