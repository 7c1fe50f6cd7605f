"""The replay buffer: whole episodes, each with a list of the transitions that it offers, original and in hindsight.

A transition is a reference into its episode: which action, and which goal. So every observation is stored once,
whatever the number of goals that it is replayed under.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from hindsight_rl.agents.replay_options import DQNOptions, HEROptions, Relabelling, most_transitions
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.interface import Task

SPARE = 2
"""Memory for that many times the episodes of full length that the capacity holds, as many episodes are shorter."""

PURSUED = -1
"""Stands for the pursued goal where a relabelled one would have the time of the action that achieved it."""


class Replay(NamedTuple):
    """A ring of episodes with T - 1 actions each, padded, in the types that the environment gives.

    It holds the newest episodes whose transitions, original and hindsight ones together, number at most the capacity,
    as far as there are slots for them. An episode enters, leaves and is overwritten as a whole. The last observation is
    kept only where values beyond the horizon count: else nothing follows the last action, and nothing looks at it.
    """

    observations: Shaped[Array, "slot time *features"]
    """What the agent saw before each action, and after the last one where that counts."""
    arrivals: Shaped[Array, "slot time *goal"]
    """The goal that was achieved after each action."""
    actions: Int[Array, "slot time"]
    pursued_goals: Shaped[Array, "slot *goal"]
    lengths: Int[Array, " slot"]
    """The number of actions taken."""
    times: Int[Array, "slot transition"]
    """Of each transition on the episode's list, which action it is about; the list is padded behind `counts`."""
    goals: Int[Array, "slot transition"]
    """Which goal it is about: the one that arrived after the action of that number, or PURSUED."""
    counts: Int[Array, " slot"]
    """Transitions on the list; 0 in a slot that was never used."""
    next_slot: Int[Array, ""]
    """The slot to be overwritten next; the one before it holds the newest episode."""


class Transitions(NamedTuple):
    """Single decisions under one goal each."""

    observations: Shaped[Array, "row *features"]
    actions: Int[Array, " row"]
    goals: Shaped[Array, "row *goal"]
    times: Int[Array, " row"]
    """Actions taken before this one."""
    rewards: Float[Array, " row"]
    """The reward of the state after the action, under the goal."""
    next_observations: Shaped[Array, "row *features"]
    """What follows, where something does."""
    terminal: Bool[Array, " row"]
    """Whether the episode of this goal is over after the action, so that no further value counts."""


def empty_replay(environment: Task, options: DQNOptions, place: jax.ShapeDtypeStruct | None = None) -> Replay:
    """A buffer without any episode. Where observations are kept elsewhere, `place` says what stands for one here."""
    observation, goal = shapes_of(environment)
    observation = place or observation
    actions, most = environment.horizon - 1, most_transitions(options, environment.horizon)
    slots = SPARE * options.replay_capacity // most
    if options.episode_limit is not None:
        slots = min(slots, options.episode_limit)
    return Replay(
        observations=jnp.zeros((slots, actions + options.beyond_horizon, *observation.shape), observation.dtype),
        arrivals=jnp.zeros((slots, actions, *goal.shape), goal.dtype),
        actions=jnp.zeros((slots, actions), jnp.int32),
        pursued_goals=jnp.zeros((slots, *goal.shape), goal.dtype),
        lengths=jnp.zeros(slots, jnp.int32),
        times=jnp.zeros((slots, most), jnp.int32),
        goals=jnp.zeros((slots, most), jnp.int32),
        counts=jnp.zeros(slots, jnp.int32),
        next_slot=jnp.int32(0),
    )


def with_more_slots(replay: Replay, empty: Replay) -> Replay:
    """The same episodes in a buffer with at least as many slots: it goes on as if it had always had them.

    A buffer with fewer slots than its capacity has one for each episode of its run, so none was ever overwritten.
    """
    slots, more = len(replay.counts), len(empty.counts)
    if slots == more:
        return replay
    full = np.asarray(replay.lengths)[-1] > 0
    padded = jax.tree.map(lambda old, new: _padded(old, new.shape), replay, empty)
    return padded._replace(next_slot=np.int32(slots if full else replay.next_slot))


def _padded(values: Array | np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    padded = np.zeros(shape, values.dtype)
    padded[tuple(slice(size) for size in values.shape)] = values
    return padded


def add_episodes(
    environment: Task,
    options: DQNOptions,
    replay: Replay,
    episodes: Episodes,
    lots: Float[Array, "episode time relabelled"],
) -> Replay:
    """The buffer with a batch of episodes in the place of its oldest ones; the lots decide which goals are drawn.

    Goals are drawn once, when an episode enters, as hindsight experience replay has it; `redraw_goals` draws others
    when a transition is replayed.
    """
    slots = replay.counts.shape[0]
    # A batch that is larger than the ring would meet itself in it: of such a batch only the newest are kept.
    episodes, lots = jax.tree.map(lambda leaf: leaf[-slots:], (episodes, lots))
    arrivals = episodes.achieved_goals[:, 1:]
    list_all = jax.vmap(functools.partial(list_transitions, environment, options))
    times, goals, counts = list_all(arrivals, episodes.pursued_goals, episodes.lengths, lots)
    places = (replay.next_slot + jnp.arange(counts.shape[0])) % slots

    def put(old: Array, new: Array) -> Array:
        return old.at[places].set(new.astype(old.dtype), unique_indices=True)

    return Replay(
        observations=put(replay.observations, episodes.observations[:, : replay.observations.shape[1]]),
        arrivals=put(replay.arrivals, arrivals),
        actions=put(replay.actions, episodes.actions),
        pursued_goals=put(replay.pursued_goals, episodes.pursued_goals),
        lengths=put(replay.lengths, episodes.lengths),
        times=put(replay.times, times),
        goals=put(replay.goals, goals),
        counts=put(replay.counts, counts),
        next_slot=((places[-1] + 1) % slots).astype(jnp.int32),
    )


def list_transitions(
    environment: Task,
    options: DQNOptions,
    arrivals: Shaped[Array, "time *goal"],
    pursued_goal: Shaped[Array, "*goal"],
    length: Int[Array, ""],
    lots: Float[Array, "time relabelled"],
) -> tuple[Int[Array, " transition"], Int[Array, " transition"], Int[Array, ""]]:
    """The transitions of one episode: the times of their actions, their goals, and how many there are.

    Under any goal an episode is over once it has first reached it, as it is under the pursued goal: what the agent did
    afterwards were no decisions under that goal, and they are not listed. (So `final` lists fewer hindsight transitions
    when the agent was where it ended before.) Only arrivals count, since nothing is rewarded at the first state: where
    that is a goal as well, leaving it and coming back is a way to be learned. A goal that is never asked for, such as a
    start cell, teaches like any other.
    """
    decisions = _decisions(environment, pursued_goal, arrivals, length)
    goals = jnp.full((len(arrivals), 1), PURSUED)
    listed = jnp.arange(len(arrivals))[:, None] < decisions
    if isinstance(options, HEROptions):
        drawn, useful = _draw_goals(environment, options.relabelling, arrivals, length, lots)
        goals, listed = jnp.concatenate([goals, drawn], axis=1), jnp.concatenate([listed, useful], axis=1)
    # False sorts first, so that those listed stand in front, in their order.
    order = jnp.argsort(~listed.ravel(), stable=True)
    return order // goals.shape[1], goals.ravel()[order], jnp.sum(listed)


def _draw_goals(
    environment: Task,
    strategy: Relabelling,
    arrivals: Shaped[Array, "time *goal"],
    length: Int[Array, ""],
    lots: Float[Array, "time relabelled"],
) -> tuple[Int[Array, "time relabelled"], Bool[Array, "time relabelled"]]:
    """For each action the arrivals whose goals it is relabelled with, and whether it was a decision under them.

    `future` draws from the later arrivals that were still to be reached for the first time. `episode` draws from all,
    and a goal that was reached before the action is of no use: such a transition has fewer goals than it drew.
    """
    decisions = jax.vmap(lambda goal: _decisions(environment, goal, arrivals, length))(arrivals)
    times, others = jnp.arange(len(arrivals))[:, None], jnp.arange(len(arrivals))[None]
    candidates = jnp.broadcast_to(others < length, (len(arrivals), len(arrivals)))
    if strategy == "final":
        candidates &= others == length - 1
    if strategy == "future":
        candidates &= (others >= times) & (times < decisions[None])
    numbers = jnp.floor(lots * jnp.sum(candidates, axis=1)[:, None]).astype(jnp.int32)
    # Where there is no candidate this draws the first arrival, under which only the first action was a decision.
    drawn = jnp.argmax(jnp.cumsum(candidates, axis=1)[:, None] > numbers[:, :, None], axis=2)
    return drawn, times < decisions[drawn]


def _redrawn(
    environment: Task,
    strategy: Relabelling,
    arrivals: Shaped[Array, "time *goal"],
    length: Int[Array, ""],
    time: Int[Array, ""],
    lot: Float[Array, ""],
) -> Int[Array, ""]:
    """The arrival whose goal an action is relabelled with this time: one under which it was a decision.

    A relabelled transition is on its episode's list because there is one.
    """
    decisions = jax.vmap(lambda goal: _decisions(environment, goal, arrivals, length))(arrivals)
    others = jnp.arange(len(arrivals))
    candidates = (others < length) & (time < decisions)
    if strategy == "future":
        candidates &= others >= time
    number = jnp.floor(lot * jnp.sum(candidates)).astype(jnp.int32)
    return jnp.argmax(jnp.cumsum(candidates) > number)


def _decisions(environment: Task, goal: Array, arrivals: Array, length: Array) -> Int[Array, ""]:
    """How many actions of an episode were taken before it was over under a goal."""
    reached = jax.vmap(environment.reached, in_axes=(0, None))(arrivals, goal)
    first = jnp.where(jnp.any(reached), jnp.argmax(reached) + 1, len(arrivals))
    return jnp.minimum(first, length)


class Directory(NamedTuple):
    """Where the transitions of a buffer are, counted from the newest episode backwards."""

    ends: Int[Array, " slot"]
    """The number of transitions in each episode and all newer ones."""
    size: Int[Array, ""]
    """Transitions in the buffer: those of as many whole episodes as the capacity allows."""


def directory(replay: Replay, capacity: int) -> Directory:
    """Count the transitions of a buffer."""
    ends = jnp.cumsum(jnp.flip(jnp.roll(replay.counts, -replay.next_slot)))
    return Directory(ends, jnp.max(jnp.where(ends <= capacity, ends, 0)))


def look_up(
    environment: Task,
    options: DQNOptions,
    replay: Replay,
    where: Directory,
    numbers: Int[Array, " row"],
    lots: Float[Array, " row"] | None = None,
) -> Transitions:
    """The transitions with these numbers, all below the directory's size; lots redraw the relabelled goals."""
    slots = replay.counts.shape[0]
    age = jnp.searchsorted(where.ends, numbers, side="right")
    slot = (replay.next_slot - 1 - age) % slots
    place = numbers - where.ends[age] + replay.counts[slot]
    time, goal_time = replay.times[slot, place], replay.goals[slot, place]
    if lots is not None and isinstance(options, HEROptions):
        redraw = jax.vmap(functools.partial(_redrawn, environment, options.relabelling))
        redrawn = redraw(replay.arrivals[slot], replay.lengths[slot], time, lots)
        goal_time = jnp.where(goal_time == PURSUED, PURSUED, redrawn)
    relabelled = (goal_time != PURSUED).reshape(-1, *[1] * (replay.pursued_goals.ndim - 1))
    goals = jnp.where(relabelled, replay.arrivals[slot, goal_time], replay.pursued_goals[slot])
    arrivals = replay.arrivals[slot, time]
    # Beyond the last action of an episode nothing follows, whether the goal was reached or the horizon: as the time is
    # an input of the network, the value of the last action is its reward, and no value beyond it exists to be learned.
    last = time + 1 == replay.lengths[slot]
    if options.beyond_horizon:
        last &= time + 1 < environment.horizon - 1
    return Transitions(
        observations=replay.observations[slot, time],
        actions=replay.actions[slot, time],
        goals=goals,
        times=time,
        rewards=jax.vmap(environment.reward)(arrivals, goals, time + 1) + options.reward_offset,
        next_observations=replay.observations[slot, jnp.where(last, time, time + 1)],
        terminal=jax.vmap(environment.reached)(arrivals, goals) | last,
    )


def draw(environment: Task, options: DQNOptions, replay: Replay, count: int, key: Key[Array, ""]) -> Transitions:
    """Transitions drawn uniformly, with replacement, from a buffer that is not empty."""
    where = directory(replay, options.replay_capacity)
    numbers = jax.random.randint(key, (count,), 0, where.size)
    if not (isinstance(options, HEROptions) and options.redraw_goals):
        return look_up(environment, options, replay, where, numbers)
    lots = jax.random.uniform(jax.random.fold_in(key, 1), (count,))
    return look_up(environment, options, replay, where, numbers, lots)


def shapes_of(environment: Task) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    """Shape and type of an observation and of a goal."""
    observation = jax.ShapeDtypeStruct(environment.observation_shape, jnp.dtype(environment.observation_type))
    return observation, jax.ShapeDtypeStruct(environment.goal_shape, jnp.dtype(environment.goal_type))
