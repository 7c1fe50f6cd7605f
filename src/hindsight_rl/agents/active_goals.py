"""Active goals: the goals that an episode reached, whatever it set out for."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hindsight_rl.agents.options import HindsightOptions, PolicyOptions
from hindsight_rl.core.distinct import distinct_rows
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.goals import GoalSet
from hindsight_rl.environments.interface import Task

PLAIN = HindsightOptions()


def active_goals(task: Task, episodes: Episodes, key: Key[Array, ""], options: HindsightOptions = PLAIN) -> GoalSet:
    """The distinct goals with p(g) > 0 that the episodes of a batch reached, pooled.

    With `max_active_goals`, each episode puts forward that many of its own, drawn uniformly without replacement.
    """
    cap = options.max_active_goals
    batch_size, times = episodes.actions.shape[:2]
    achieved = episodes.achieved_goals[:, 1:]
    probabilities = jax.vmap(jax.vmap(task.goal_probability))(achieved)
    chosen = episodes.taken & (probabilities > 0)
    if options.skip_reached:
        chosen &= ~jax.vmap(jax.vmap(task.reached, in_axes=(None, 0)))(episodes.achieved_goals[:, 0], achieved)
    if cap is not None and cap < times:
        chosen = _draw(achieved, chosen, cap, key)
    limit = _limit(task, batch_size, times if cap is None else min(cap, times))
    pooled = distinct_rows(achieved.reshape(batch_size * times, -1), chosen.ravel(), limit)
    goals = pooled.rows.reshape(limit, *achieved.shape[2:])
    probabilities = jnp.where(pooled.present, jax.vmap(task.goal_probability)(goals), 0)
    if options.share_places:
        probabilities /= _goals_in_reach(task, goals, pooled.present)
    return GoalSet(goals, probabilities, pooled.present)


def pursued_goals(task: Task, episodes: Episodes) -> GoalSet:
    """The pursued goal of each episode, as a goal set with one goal for each episode."""
    goals = episodes.pursued_goals
    return GoalSet(goals, jax.vmap(task.goal_probability)(goals), jnp.ones(goals.shape[0], bool))


def rewards_of_goals(
    task: Task, episodes: Episodes, goals: GoalSet, options: PolicyOptions = PLAIN
) -> tuple[Float[Array, "goal episode time"], Bool[Array, "goal episode time"]]:
    """The reward of each action under each goal, and which actions are decisions under that goal.

    Under a goal an episode is over once it has reached it: later actions bring no reward, and are no decisions.
    """

    def under_goal(goal: Array) -> tuple[Array, Array]:
        of_episode = functools.partial(_rewards, task, options, goal)
        return jax.vmap(of_episode)(episodes.achieved_goals, episodes.taken)

    rewards, decides = jax.vmap(under_goal)(goals.goals)
    present = goals.present[:, None, None]
    return jnp.where(present, rewards, 0), decides & present


def own_rewards(
    task: Task, episodes: Episodes, options: PolicyOptions = PLAIN
) -> tuple[Float[Array, "episode time"], Bool[Array, "episode time"]]:
    """The same for each episode under the goal that it pursued."""
    of_episodes = jax.vmap(functools.partial(_rewards, task, options))
    return of_episodes(episodes.pursued_goals, episodes.achieved_goals, episodes.taken)


def _rewards(task: Task, options: PolicyOptions, goal: Array, achieved: Array, taken: Array) -> tuple[Array, Array]:
    """Rewards and decisions of one episode under one goal."""
    times = jnp.arange(1, len(taken) + 1)
    reached = jax.vmap(task.reached, in_axes=(0, None))(achieved[1:], goal)
    rewards = jax.vmap(task.reward, in_axes=(0, None, 0))(achieved[1:], goal, times)
    first = jnp.where(jnp.any(reached), jnp.argmax(reached) + 1, len(taken))
    decides = taken & (times <= first)
    if options.skip_reached:
        decides &= ~task.reached(achieved[0], goal)
    return jnp.where(decides, rewards + options.reward_offset, 0), decides


def _draw(achieved: Array, chosen: Array, cap: int, key: Key[Array, ""]) -> Bool[Array, "episode time"]:
    """A uniformly random choice of `cap` distinct goals in each episode, each marked where it first occurs."""
    episodes, times = chosen.shape
    flat = achieved.reshape(episodes, times, -1)
    same = jnp.all(flat[:, :, None] == flat[:, None, :], axis=-1) & chosen[:, None, :]
    earlier = jnp.tril(jnp.ones((times, times), bool), k=-1)
    fresh = chosen & ~jnp.any(same & earlier[None], axis=2)
    lots = jnp.where(fresh, jax.random.uniform(key, fresh.shape), -1)
    # By position, not by value: two lots may be equal.
    drawn = jax.lax.top_k(lots, cap)[1]
    return fresh & jnp.any(jax.nn.one_hot(drawn, times, dtype=bool), axis=1)


def _goals_in_reach(
    task: Task, goals: Float[Array, "goal *shape"], present: Bool[Array, " goal"]
) -> Int[Array, " goal"]:
    """How many of the goals reach each of them, itself among them.

    Where a goal is reached by itself alone, as among bits and cells, that is 1. In a continuum a sum over goals stands
    for an integral, and those achieved lie close together where many episodes pass. Sharing the weight of a place, of
    the size that `reached` gives it, among the goals in it makes all places count the same.
    """
    reach = jax.vmap(jax.vmap(task.reached, in_axes=(0, None)), in_axes=(None, 0))(goals, goals)
    return jnp.maximum(jnp.sum(reach & present[None, :], axis=1), 1)


def _limit(task: Task, batch_size: int, per_episode: int) -> int:
    most = batch_size * per_episode
    return most if task.state_limit is None else min(most, task.state_limit)
