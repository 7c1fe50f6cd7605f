"""Pairs of episode and goal, and what each says about the policy and the critic."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from hindsight_rl.agents.episode_buffer import EpisodeBuffer, draw_slots
from hindsight_rl.agents.hppo_options import CANDIDATES, HPPOOptions, PPOOptions, Work
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.interface import Task
from hindsight_rl.estimators.off_policy import (
    Targets,
    action_value_targets,
    earlier_ratio_weights,
    truncated_ratios,
    truncated_targets,
)
from hindsight_rl.networks.actor_critic import Actor, Critic, Inputs


class Pairs(NamedTuple):
    """Episodes, each seen under one goal."""

    slots: Int[Array, " pair"]
    """Where the episodes are kept."""
    goals: Shaped[Array, "pair *goal"]
    left: Int[Array, " pair"]
    """The time of a state that reached the goal: a pair begins when it is reached no more. -1: at the first state."""


class Course(NamedTuple):
    """How the episodes went under the goals."""

    rewards: Float[Array, "pair time"]
    """Of the state that each action led to, scaled and counted from the pace; zero where no decision was made."""
    decides: Bool[Array, "pair time"]
    """Actions taken before the goal was reached, which ends an episode under it."""
    ends: Bool[Array, "pair time"]
    """Actions after which no value follows: that which reached the goal, and the last before the horizon."""


class Samples(NamedTuple):
    """All decisions of the drawn pairs, in rows; the numbers are constants for the steps that learn from them.

    States come one after another, and the goals that go with a state side by side.
    """

    slots: Int[Array, " row"]
    times: Int[Array, " row"]
    goals: Shaped[Array, "row *goal"]
    values: Float[Array, " row"]
    """What the critic is to say."""
    advantages: Float[Array, " row"]
    """With a mean square of one over the decisions."""
    weights: Float[Array, " row"]
    """Truncated ratios of the policy and mu, and of earlier ratios where that is wanted."""
    old: Float[Array, "row output"]
    """The distributions of actions when the pairs were drawn."""
    decides: Bool[Array, " row"]
    """Rows that are no decisions are padding."""


def choices_of(task: Task) -> int:
    """The actions that there are to choose from; 0 if they are vectors."""
    return 0 if task.continuous else task.action_count


def work_of(task: Task, options: PPOOptions) -> Work:
    """What is done with a batch of a task's episodes."""
    return options.work(choices_of(task), task.horizon, task.shows_pictures)


def draw_pairs(task: Task, options: PPOOptions, buffer: EpisodeBuffer, key: Key[Array, ""]) -> Pairs:
    """Episodes drawn uniformly, each with its own goal or, in hindsight, one achieved later or of another episode.

    Pursued goals of other episodes are draws from p(g), whatever the goals are like: nothing need be known of p(g), and
    an episode's actions say nothing about them, so that slips of the environment bias nothing.
    """
    slot_key, kind_key, other_key, later_key = jax.random.split(key, 4)
    work = work_of(task, options)
    count = work.pairs
    slots = jnp.repeat(draw_slots(buffer, count // work.goals, slot_key), work.goals)
    pursued = buffer.episodes.pursued_goals
    if not isinstance(options, HPPOOptions):
        return Pairs(slots, pursued[slots], from_the_first(slots))
    fresh = pursued[draw_slots(buffer, count, other_key)]
    lots = jax.random.uniform(kind_key, slots.shape)
    kind = jnp.searchsorted(
        jnp.cumsum(jnp.array([options.achieved_share, options.own_share, options.earlier_share])), lots, side="right"
    )
    own = None if work.goals == 1 else slots
    kinds = (
        _achieved_later(task, count, buffer, later_key, own),
        Pairs(slots, pursued[slots], from_the_first(slots)),
        _achieved_earlier(task, count, buffer, jax.random.fold_in(later_key, 1), own),
        Pairs(slots, fresh, from_the_first(slots)),
    )
    return jax.tree.map(lambda *leaves: jnp.stack(leaves)[kind, jnp.arange(count)], *kinds)


def from_the_first(slots: Int[Array, " pair"]) -> Int[Array, " pair"]:
    """For pairs that begin at the first state."""
    return jnp.full(slots.shape, -1, jnp.int32)


def _achieved_later(
    task: Task, count: int, buffer: EpisodeBuffer, key: Key[Array, ""], own: Int[Array, " pair"] | None
) -> Pairs:
    """Episodes with goals that they achieved; only if there are too few others, such as their first state reaches."""
    slot_key, time_key = jax.random.split(key)
    episodes = buffer.episodes
    slots = _candidates(buffer, count, slot_key, own)
    goals = episodes.achieved_goals[slots, _later_times(episodes.lengths[slots], time_key)]
    at_once = jax.vmap(task.reached)(episodes.achieved_goals[slots, 0], goals)
    chosen = _chosen(at_once, count, own)
    return Pairs(slots[chosen], goals[chosen], from_the_first(chosen))


def _achieved_earlier(
    task: Task, count: int, buffer: EpisodeBuffer, key: Key[Array, ""], own: Int[Array, " pair"] | None
) -> Pairs:
    """Episodes from where they left a goal that they had achieved; as far as there are such, not to come back."""
    slot_key, time_key = jax.random.split(key)
    episodes = buffer.episodes
    slots = _candidates(buffer, count, slot_key, own)
    lengths = episodes.lengths[slots]
    times = jnp.floor(jax.random.uniform(time_key, lengths.shape) * lengths).astype(jnp.int32)
    goals = episodes.achieved_goals[slots, times]
    stays = jax.vmap(task.reached)(episodes.achieved_goals[slots, lengths], goals)
    chosen = _chosen(stays, count, own)
    return Pairs(slots[chosen], goals[chosen], times[chosen])


def _candidates(
    buffer: EpisodeBuffer, count: int, key: Key[Array, ""], own: Int[Array, " pair"] | None
) -> Int[Array, " candidate"]:
    """Episodes from which so many are chosen: any, or each pair's own as often."""
    return draw_slots(buffer, CANDIDATES * count, key) if own is None else jnp.tile(own, CANDIDATES)


def _chosen(poor: Bool[Array, " candidate"], count: int, own: Int[Array, " pair"] | None) -> Int[Array, " pair"]:
    """The candidates that are not poor, or of each pair's own the first that is not, as far as there are such."""
    if own is None:
        return jnp.argsort(poor, stable=True)[:count]
    return jnp.argmin(poor.reshape(CANDIDATES, count), axis=0) * count + jnp.arange(count)


def _later_times(lengths: Int[Array, " pair"], key: Key[Array, ""]) -> Int[Array, " pair"]:
    """The time of a state after a decision that is drawn uniformly."""
    now, later = jax.random.uniform(key, (2, *lengths.shape))
    time = jnp.floor(now * lengths).astype(jnp.int32)
    return jnp.minimum(time + 1 + jnp.floor(later * (lengths - time)).astype(jnp.int32), lengths)


def course_of(
    task: Task,
    options: PPOOptions,
    episodes: Episodes,
    goals: Shaped[Array, "pair *goal"],
    pace: Float[Array, ""] | float = 0.0,
    left: Int[Array, " pair"] | None = None,
) -> Course:
    """Rewards and decisions of episodes, each under the goal beside it; none where the first state reaches it.

    Where an episode `left` its goal, decisions begin with the first later state that does not reach it.

    Rewards are counted from `pace`, a reward for each step, up to the horizon: whoever is done early gets minus the
    pace for each step that is left. That shifts the value at a time by a constant, and so changes no advantage of the
    true values; but a fresh critic, which is nearly 0, then knows what episodes bring that reach nothing. Otherwise
    rewards of -1 and 0 would first of all make every action look bad that was ever tried.
    """
    reached = jax.vmap(jax.vmap(task.reached, (0, None)))(episodes.achieved_goals, goals)
    begun = jnp.ones_like(reached)
    if left is not None:
        away = (jnp.arange(task.horizon)[None] > left[:, None]) & ~reached
        begun = (left < 0)[:, None] | (jnp.cumsum(away, axis=1) > 0)
    before = jnp.cumsum(reached & begun, axis=1)[:, :-1] > 0
    decides = episodes.taken & begun[:, :-1] & ~before
    times = jnp.arange(1, task.horizon)
    rewards = jax.vmap(jax.vmap(task.reward, (0, None, 0)), (0, 0, None))(episodes.achieved_goals[:, 1:], goals, times)
    scale = options.reward_scale or float(task.horizon)
    steps = jnp.where(reached[:, 1:], task.horizon - times[None], 1)
    rewards = jnp.where(decides, (rewards + (options.reward_offset or 0.0)) / scale - pace * steps, 0)
    return Course(rewards, decides, reached[:, 1:] | (times == task.horizon - 1)[None])


def mean_reward(task: Task, options: PPOOptions, episodes: Episodes) -> Float[Array, ""]:
    """The scaled reward of a step under the goals that were pursued."""
    course = course_of(task, options, episodes, episodes.pursued_goals)
    return (jnp.sum(course.rewards) / jnp.maximum(jnp.sum(course.decides), 1)).astype(jnp.zeros(()).dtype)


class Networks(NamedTuple):
    """The networks that look at the drawn pairs."""

    actor: Actor
    target: Critic
    inputs: Inputs
    pace: Float[Array, ""] | float = 0.0
    """What rewards are counted from."""


def samples_of(
    task: Task, options: PPOOptions, buffer: EpisodeBuffer, pairs: Pairs, networks: Networks
) -> tuple[Samples, Float[Array, "pair time"]]:
    """What the pairs say, and the truncated ratios that went into it."""
    episodes: Episodes = jax.tree.map(lambda leaf: leaf[pairs.slots], buffer.episodes)
    course = course_of(task, options, episodes, pairs.goals, networks.pace, pairs.left)
    times, together = course.decides.shape[1], work_of(task, options).goals

    def seen(part: slice) -> tuple[Array, Array]:
        """States at some of the times, and under each goal."""
        observations = buffer.episodes.observations[pairs.slots[::together], part]
        goals = jnp.repeat(pairs.goals[:, None], observations.shape[1], axis=1)
        return networks.inputs(_merge(observations), _by_state(goals, together))

    def by_pair(rows: Array) -> Array:
        split = rows.reshape(len(pairs.slots) // together, -1, together, *rows.shape[1:])
        return _merge(split.swapaxes(1, 2))

    clock = jnp.tile(jnp.repeat(jnp.arange(times + 1) / times, together), len(pairs.slots) // together)
    values = by_pair(networks.target(*seen(slice(None)), clock))
    actions, behaviour = _by_state(episodes.actions, together), episodes.log_probabilities
    old = networks.actor(*seen(slice(0, times)))
    log_ratios = by_pair(networks.actor.head.log_probability(old, actions)) - behaviour
    if networks.target.of_actions:
        last = networks.actor(*seen(slice(times, None)))
        targets = _of_actions(options, course, values, episodes.actions, log_ratios, by_pair(old), by_pair(last)[:, 0])
    else:
        levels = {"rho_bar": options.ratio_limit, "c_bar": options.trace_limit, "trace": options.trace}
        targets = truncated_targets(log_ratios, course.rewards, values, course.decides, course.ends, **levels)
    ratios = truncated_ratios(log_ratios, options.ratio_limit)
    weights = ratios * earlier_ratio_weights(log_ratios, course.decides, options.ratio_power)
    squares = jnp.sum(targets.advantages**2) / jnp.maximum(jnp.sum(course.decides), 1)
    advantages = targets.advantages / (jnp.sqrt(squares) + SMALLEST_ADVANTAGE)
    whole = Samples(
        slots=jnp.repeat(pairs.slots[:, None], times, axis=1),
        times=jnp.tile(jnp.arange(times), (len(pairs.slots), 1)),
        goals=jnp.repeat(pairs.goals[:, None], times, axis=1),
        values=targets.values,
        advantages=advantages,
        weights=weights,
        old=by_pair(old),
        decides=course.decides,
    )
    return jax.tree.map(lambda leaf: _by_state(leaf, together), whole), ratios


def _of_actions(
    options: PPOOptions,
    course: Course,
    values: Float[Array, "pair state action"],
    actions: Int[Array, "pair time"],
    log_ratios: Float[Array, "pair time"],
    old: Float[Array, "pair time action"],
    last: Float[Array, "pair action"],
) -> Targets:
    """Targets of a critic of actions; the log-probabilities of all actions, at last states too, weigh its values."""
    logs = jnp.concatenate([old, last[:, None]], axis=1)
    expected = jnp.sum(jnp.exp(logs) * values, axis=2)
    taken = jnp.take_along_axis(values[:, :-1], actions[:, :, None], axis=2)[:, :, 0]
    return action_value_targets(
        log_ratios,
        course.rewards,
        taken,
        expected,
        course.decides,
        course.ends,
        c_bar=options.trace_limit,
        trace=options.trace,
    )


SMALLEST_ADVANTAGE = 1e-3
"""Added to the root mean square that advantages are divided by: what is next to nothing is not blown up."""


def _by_state(array: Shaped[Array, "pair time *rest"], together: int) -> Shaped[Array, "row *rest"]:
    """State after state, with pairs of the same episode, so many `together`, side by side."""
    split = array.reshape(-1, together, *array.shape[1:])
    return _merge(_merge(split.swapaxes(1, 2)))


def _merge(array: Array) -> Array:
    """The first two axes as one."""
    return array.reshape(-1, *array.shape[2:])
