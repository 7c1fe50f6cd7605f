"""Pairs of episode and goal, and what each says about the policy and the critic."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from hindsight_rl.agents.episode_buffer import EpisodeBuffer, draw_slots
from hindsight_rl.agents.hppo_options import HPPOOptions, PPOOptions
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.interface import Task
from hindsight_rl.estimators.off_policy import earlier_ratio_weights, truncated_ratios, truncated_targets
from hindsight_rl.networks.actor_critic import Actor, Critic, Inputs


class Pairs(NamedTuple):
    """Episodes, each seen under one goal."""

    slots: Int[Array, " pair"]
    """Where the episodes are kept."""
    goals: Shaped[Array, "pair *goal"]


class Course(NamedTuple):
    """How the episodes went under the goals."""

    rewards: Float[Array, "pair time"]
    """Of the state that each action led to, scaled; zero where no decision was made."""
    decides: Bool[Array, "pair time"]
    """Actions taken before the goal was reached, which ends an episode under it."""
    ends: Bool[Array, "pair time"]
    """Actions after which no value follows: that which reached the goal, and the last before the horizon."""


class Samples(NamedTuple):
    """All decisions of the drawn pairs, in rows; the numbers are constants for the steps that learn from them."""

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


def draw_pairs(options: PPOOptions, buffer: EpisodeBuffer, key: Key[Array, ""]) -> Pairs:
    """Episodes drawn uniformly, each with its own goal or, in hindsight, one achieved later or of another episode.

    Pursued goals of other episodes are draws from p(g), whatever the goals are like: nothing need be known of p(g), and
    an episode's actions say nothing about them, so that slips of the environment bias nothing.
    """
    slot_key, kind_key, other_key, time_key = jax.random.split(key, 4)
    slots = draw_slots(buffer, options.pairs, slot_key)
    episodes = buffer.episodes
    own = episodes.pursued_goals[slots]
    if not isinstance(options, HPPOOptions):
        return Pairs(slots, own)
    achieved = episodes.achieved_goals[slots, _later_times(episodes.lengths[slots], time_key)]
    fresh = episodes.pursued_goals[draw_slots(buffer, options.pairs, other_key)]
    lots = jax.random.uniform(kind_key, slots.shape).reshape(-1, *[1] * (own.ndim - 1))
    goals = jnp.where(lots < options.achieved_share + options.own_share, own, fresh)
    return Pairs(slots, jnp.where(lots < options.achieved_share, achieved, goals))


def _later_times(lengths: Int[Array, " pair"], key: Key[Array, ""]) -> Int[Array, " pair"]:
    """The time of a state after a decision that is drawn uniformly."""
    now, later = jax.random.uniform(key, (2, *lengths.shape))
    time = jnp.floor(now * lengths).astype(jnp.int32)
    return jnp.minimum(time + 1 + jnp.floor(later * (lengths - time)).astype(jnp.int32), lengths)


def course_of(task: Task, options: PPOOptions, episodes: Episodes, goals: Shaped[Array, "pair *goal"]) -> Course:
    """Rewards and decisions of episodes, each under the goal beside it; none where the first state reaches it."""
    reached = jax.vmap(jax.vmap(task.reached, (0, None)))(episodes.achieved_goals, goals)
    before = jnp.cumsum(reached, axis=1)[:, :-1] > 0
    decides = episodes.taken & ~before
    times = jnp.arange(1, task.horizon)
    rewards = jax.vmap(jax.vmap(task.reward, (0, None, 0)), (0, 0, None))(episodes.achieved_goals[:, 1:], goals, times)
    scale = options.reward_scale or float(task.horizon)
    rewards = jnp.where(decides, (rewards + options.reward_offset) / scale, 0)
    return Course(rewards, decides, reached[:, 1:] | (times == task.horizon - 1)[None])


class Networks(NamedTuple):
    """The networks that look at the drawn pairs."""

    actor: Actor
    target: Critic
    inputs: Inputs


def samples_of(
    task: Task, options: PPOOptions, buffer: EpisodeBuffer, pairs: Pairs, networks: Networks
) -> tuple[Samples, Float[Array, "pair time"]]:
    """What the pairs say, and the truncated ratios that went into it."""
    episodes: Episodes = jax.tree.map(lambda leaf: leaf[pairs.slots], buffer.episodes)
    course = course_of(task, options, episodes, pairs.goals)
    count, times = course.decides.shape
    goals = jnp.repeat(pairs.goals[:, None], times + 1, axis=1)
    observations, inputs = networks.inputs(_merge(episodes.observations), _merge(goals))
    clock = jnp.tile(jnp.arange(times + 1) / times, count)
    values = networks.target(observations, inputs, clock).reshape(count, times + 1)

    def acting(rows: Array) -> Array:
        return _merge(rows.reshape(count, times + 1, *rows.shape[1:])[:, :-1])

    rows = acting(observations), acting(inputs)
    actions, behaviour = _merge(episodes.actions), episodes.log_probabilities
    old = networks.actor(*rows)
    log_ratios = networks.actor.head.log_probability(old, actions).reshape(count, times) - behaviour
    targets = truncated_targets(
        log_ratios,
        course.rewards,
        values,
        course.decides,
        course.ends,
        rho_bar=options.ratio_limit,
        c_bar=options.trace_limit,
        trace=options.trace,
    )
    ratios = truncated_ratios(log_ratios, options.ratio_limit)
    weights = ratios * earlier_ratio_weights(log_ratios, course.decides, options.ratio_power)
    squares = jnp.sum(targets.advantages**2) / jnp.maximum(jnp.sum(course.decides), 1)
    samples = Samples(
        slots=jnp.repeat(pairs.slots, times),
        times=jnp.tile(jnp.arange(times), count),
        goals=_merge(goals[:, :-1]),
        values=targets.values.ravel(),
        advantages=targets.advantages.ravel() / (jnp.sqrt(squares) + SMALLEST_ADVANTAGE),
        weights=weights.ravel(),
        old=old,
        decides=course.decides.ravel(),
    )
    return samples, ratios


SMALLEST_ADVANTAGE = 1e-3
"""Added to the root mean square that advantages are divided by: what is next to nothing is not blown up."""


def _merge(array: Array) -> Array:
    """The first two axes as one."""
    return array.reshape(-1, *array.shape[2:])
