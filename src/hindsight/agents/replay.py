"""The replay buffer: whole episodes, each with a list of the transitions that it offers, original and in hindsight.

A transition is a reference into its episode: which action, and which goal. So every observation is stored once,
whatever the number of goals that it is replayed under.
"""

import functools
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from hindsight.core.episodes import Episodes
from hindsight.core.errors import HindsightError, unknown
from hindsight.environments.interface import Environment

Strategy = Literal["final", "future", "episode"]

SPARE = 2
"""Slots for that many times the episodes of full length that fit: episodes that reach their goal are shorter."""

PURSUED = -1
"""Stands for the pursued goal where a relabelled one would have the time of the action that achieved it."""


class ReplayOptions(NamedTuple):
    """The part of the settings that a replay agent needs; the defaults are the paper's (appendix E.3.7)."""

    relabel: bool = False
    """Adds hindsight transitions, as hindsight experience replay does."""
    strategy: Strategy = "final"
    """Which achieved goals of the episode a transition is relabelled with. final: the last one. future: drawn from those
    achieved by this action or a later one. episode: drawn from all of them."""
    relabelled_goals: int = 1
    """Goals that each transition is relabelled with; 4 is customary with `future`, and `final` has only 1 to offer."""
    capacity: int = 10**6
    """The most transitions in the buffer, hindsight transitions included."""
    epsilon: float = 0.2
    """The probability with which an exploring agent takes a uniformly random action."""
    discount: float = 0.98
    """What the next value counts for in the target."""
    gradient_steps: int = 40
    """Minibatches in each cycle."""
    minibatch_size: int = 128
    """Transitions in each minibatch."""
    hidden_layers: tuple[int, ...] = (256, 256)
    """Width of each hidden layer of the network."""
    episode_limit: int | None = None
    """Episodes that the agent will ever see, where that is known: no memory is set aside for more."""

    @property
    def goals_per_transition(self) -> int:
        """The goals that one action may be replayed under: the pursued one, and the relabelled ones."""
        return 1 + (self.relabelled_goals if self.relabel else 0)


class Replay(NamedTuple):
    """A ring of episodes with T - 1 actions each, padded, in the types that the environment gives.

    It holds the newest episodes whose transitions, original and hindsight ones together, number at most the capacity.
    An episode enters, leaves and is overwritten as a whole. The last observation is not kept: nothing follows the last
    action, so nothing ever looks at it.
    """

    observations: Shaped[Array, "slot time *features"]
    """What the agent saw before each action."""
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


def check_options(environment: Environment, options: ReplayOptions) -> None:
    """Refuse what cannot work, with a sentence that says why."""
    if options.strategy not in get_args(Strategy):
        raise unknown("relabelling strategy", str(options.strategy), get_args(Strategy))
    for name in ("relabelled_goals", "capacity", "gradient_steps", "minibatch_size"):
        _require_positive_integer(name, getattr(options, name))
    if options.episode_limit is not None:
        _require_positive_integer("episode_limit", options.episode_limit)
    if not 0 <= options.epsilon <= 1:
        raise HindsightError(f"epsilon is a probability between 0 and 1, not {options.epsilon}.")
    if not 0 < options.discount <= 1:
        raise HindsightError(f"discount must be above 0 and at most 1, not {options.discount}.")
    if options.relabel and options.strategy == "final" and options.relabelled_goals != 1:
        raise HindsightError(
            f"An episode has one final goal, so the strategy 'final' takes relabelled_goals 1, "
            f"not {options.relabelled_goals}."
        )
    most = _most_transitions(environment, options)
    if options.capacity < most:
        raise HindsightError(
            f"The replay buffer must hold at least one episode, which can have {most} transitions here, "
            f"but capacity is {options.capacity}."
        )
    if options.minibatch_size > options.capacity:
        raise HindsightError(
            f"A minibatch of {options.minibatch_size} transitions is more than the replay buffer can ever hold: "
            f"minibatch_size must be at most capacity, which is {options.capacity}."
        )


def empty_replay(environment: Environment, options: ReplayOptions) -> Replay:
    """A buffer without any episode."""
    observation, goal = shapes_of(environment)
    actions, most = environment.horizon - 1, _most_transitions(environment, options)
    slots = SPARE * options.capacity // most
    if options.episode_limit is not None:
        slots = min(slots, options.episode_limit)
    return Replay(
        observations=jnp.zeros((slots, actions, *observation.shape), observation.dtype),
        arrivals=jnp.zeros((slots, actions, *goal.shape), goal.dtype),
        actions=jnp.zeros((slots, actions), jnp.int32),
        pursued_goals=jnp.zeros((slots, *goal.shape), goal.dtype),
        lengths=jnp.zeros(slots, jnp.int32),
        times=jnp.zeros((slots, most), jnp.int32),
        goals=jnp.zeros((slots, most), jnp.int32),
        counts=jnp.zeros(slots, jnp.int32),
        next_slot=jnp.int32(0),
    )


def add_episodes(
    environment: Environment,
    options: ReplayOptions,
    replay: Replay,
    episodes: Episodes,
    lots: Float[Array, "episode time relabelled"],
) -> Replay:
    """The buffer with a batch of episodes in the place of its oldest ones; the lots decide which goals are drawn.

    Goals are drawn once, when an episode enters, as hindsight experience replay has it.
    """
    slots = replay.counts.shape[0]
    # A batch that is larger than the ring would meet itself in it: of such a batch only the newest are kept.
    episodes, lots = jax.tree.map(lambda leaf: leaf[-slots:], (episodes, lots))
    arrivals = episodes.achieved_goals[:, 1:]
    list_all = jax.vmap(functools.partial(list_transitions, environment, options))
    times, goals, counts = list_all(arrivals, episodes.pursued_goals, episodes.lengths, lots)
    places = (replay.next_slot + jnp.arange(counts.shape[0])) % slots
    added = Replay(
        observations=episodes.observations[:, :-1],
        arrivals=arrivals,
        actions=episodes.actions,
        pursued_goals=episodes.pursued_goals,
        lengths=episodes.lengths,
        times=times,
        goals=goals,
        counts=counts,
        next_slot=(places[-1] + 1) % slots,
    )
    written = jax.tree.map(
        lambda old, new: old.at[places].set(new.astype(old.dtype), unique_indices=True), replay[:-1], added[:-1]
    )
    return Replay(*written, added.next_slot.astype(jnp.int32))


def list_transitions(
    environment: Environment,
    options: ReplayOptions,
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
    decisions = jax.vmap(lambda goal: _decisions(environment, goal, arrivals, length))(arrivals)
    times = jnp.arange(len(arrivals))
    goals, listed = [jnp.full_like(times, PURSUED)], [times < _decisions(environment, pursued_goal, arrivals, length)]
    if options.relabel:
        candidates = _candidates(options.strategy, decisions, length)
        numbers = jnp.floor(lots * jnp.sum(candidates, axis=1)[:, None]).astype(jnp.int32)
        drawn = jnp.argmax(jnp.cumsum(candidates, axis=1)[:, None, :] > numbers[:, :, None], axis=2)
        still_open = jnp.any(candidates, axis=1)[:, None] & (times[:, None] < decisions[drawn])
        goals, listed = goals + list(drawn.T), listed + list(still_open.T)
    all_times, all_goals, all_listed = (jnp.concatenate(parts) for parts in ([times] * len(goals), goals, listed))
    # False sorts first, so that those listed stand in front, in their order.
    order = jnp.argsort(~all_listed, stable=True)
    return all_times[order], all_goals[order], jnp.sum(all_listed)


def _decisions(environment: Environment, goal: Array, arrivals: Array, length: Array) -> Int[Array, ""]:
    """How many actions of an episode were taken before it was over under a goal."""
    reached = jax.vmap(environment.reached, in_axes=(0, None))(arrivals, goal)
    first = jnp.where(jnp.any(reached), jnp.argmax(reached) + 1, len(arrivals))
    return jnp.minimum(first, length)


def _candidates(strategy: Strategy, decisions: Array, length: Array) -> Bool[Array, "time arrival"]:
    """Which arrivals a transition's goals are drawn from.

    `future` draws from the later ones that are still to be reached for the first time. `episode` draws from all, of
    which those reached before the action are then of no use: such a transition has fewer goals than it drew.
    """
    times, arrivals = jnp.arange(len(decisions))[:, None], jnp.arange(len(decisions))[None]
    if strategy == "final":
        return jnp.broadcast_to(arrivals == length - 1, (len(decisions), len(decisions)))
    if strategy == "future":
        return (arrivals >= times) & (arrivals < length) & (times < decisions[None])
    return jnp.broadcast_to(arrivals < length, (len(decisions), len(decisions)))


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


def look_up(environment: Environment, replay: Replay, where: Directory, numbers: Int[Array, " row"]) -> Transitions:
    """The transitions with these numbers, all below the directory's size."""
    slots = replay.counts.shape[0]
    age = jnp.searchsorted(where.ends, numbers, side="right")
    slot = (replay.next_slot - 1 - age) % slots
    place = numbers - where.ends[age] + replay.counts[slot]
    time, goal_time = replay.times[slot, place], replay.goals[slot, place]
    relabelled = (goal_time != PURSUED).reshape(-1, *[1] * (replay.pursued_goals.ndim - 1))
    goals = jnp.where(relabelled, replay.arrivals[slot, goal_time], replay.pursued_goals[slot])
    arrivals = replay.arrivals[slot, time]
    # Beyond the last action of an episode nothing follows, whether the goal was reached or the horizon: as the time is
    # an input of the network, the value of the last action is its reward, and no value beyond it exists to be learned.
    last = time + 1 == replay.lengths[slot]
    return Transitions(
        observations=replay.observations[slot, time],
        actions=replay.actions[slot, time],
        goals=goals,
        times=time,
        rewards=jax.vmap(environment.reward)(arrivals, goals, time + 1),
        next_observations=replay.observations[slot, jnp.where(last, time, time + 1)],
        terminal=jax.vmap(environment.reached)(arrivals, goals) | last,
    )


def shapes_of(environment: Environment) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    """Shape and type of an observation and of a goal."""
    state = jax.eval_shape(environment.reset, jax.random.key(0))
    return jax.eval_shape(environment.observe, state), jax.eval_shape(environment.achieved_goal, state)


def _most_transitions(environment: Environment, options: ReplayOptions) -> int:
    """The transitions of an episode that lasts to the horizon, under all of its goals."""
    return (environment.horizon - 1) * options.goals_per_transition


def _require_positive_integer(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise HindsightError(f"{name} must be a whole number of at least 1, not {value}.")
