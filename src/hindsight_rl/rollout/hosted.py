"""Whole episodes of a hosted environment: one call of the policy for each time step of all live episodes."""

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from hindsight_rl.core.cores import cores
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.memory import memory
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.rollout.compiled import EpisodesEnd, Outcomes
from hindsight_rl.rollout.crew import Hands
from hindsight_rl.rollout.slots import Layout
from hindsight_rl.rollout.workers import WorkerPool

BYTES_OF_A_WORKER = 30_000_000
"""At least: a process that has imported NumPy and holds a simulator."""
Explore = Callable[[np.ndarray, np.ndarray, np.integer, Key[Array, ""]], tuple[Array, Array]]
"""As for compiled environments, from arrays that come from simulators."""


def layout_of(task: HostedTask) -> Layout:
    """What an episode of the task shows and takes."""
    action_shape = (task.action_count,) if task.continuous else ()
    return Layout(task.observation_shape, task.observation_type, task.goal_shape, action_shape)


def open_pool(
    task: HostedTask,
    slots: int,
    workers: int | Hands | None = None,
    notice: Callable[[str], None] = lambda sentence: None,
) -> WorkerPool:
    """A pool in which so many episodes are played at a time, by so many workers; a process for each core unless given.

    No result depends on their number: it belongs to the machine.
    """
    count = cores() if workers is None else workers
    if isinstance(count, int) and min(count, slots) * BYTES_OF_A_WORKER > memory():
        raise HindsightError(f"{min(count, slots):,} workers need more memory than there is: lower the workers.")
    return WorkerPool(task.source(), layout_of(task), slots, count, notice)


def shapes_of_episodes(task: HostedTask, count: int) -> Episodes:
    """The shapes of so many episodes, as `collect_hosted` returns them."""
    one = _Record(task, 1).episodes()
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((count, *leaf.shape[1:]), leaf.dtype), one)


def episode_seeds(key: Key[Array, ""], episodes: int) -> tuple[np.ndarray, Key[Array, ""]]:
    """Seeds of each episode and of its goal, and the key for its actions: split as for compiled environments."""
    reset_key, goal_key, step_key = jax.random.split(key, 3)
    halves = [np.asarray(jax.random.key_data(jax.random.split(each, episodes))) for each in (reset_key, goal_key)]
    words = np.stack(halves, axis=1).astype(np.uint64)
    return (words[..., 0] << np.uint64(32)) | words[..., 1], step_key


def collect_hosted(
    task: HostedTask,
    pool: WorkerPool,
    explore: Explore,
    batch_size: int,
    key: Key[Array, ""],
    episodes_end: EpisodesEnd = "goal",
) -> Episodes:
    """A batch of episodes, as `collect` makes them of compiled environments. `explore` must be compiled."""
    seeds, step_key = episode_seeds(key, batch_size)
    record = _Record(task, batch_size)
    for start in range(0, batch_size, pool.places):
        episodes = np.arange(start, min(start + pool.places, batch_size))
        _play_together(task, pool, explore, seeds, episodes, step_key, record, episodes_end)
    return record.episodes()


class _Record:
    """Padded arrays into which episodes are written as they are played."""

    def __init__(self, task: HostedTask, episodes: int):
        layout, states = layout_of(task), task.horizon
        action_type = np.float32 if task.continuous else np.int32
        self.observations = np.zeros((episodes, states, *layout.observation_shape), layout.observation_type)
        self.achieved_goals = np.zeros((episodes, states, *layout.goal_shape), np.float32)
        self.actions = np.zeros((episodes, states - 1, *layout.action_shape), action_type)
        self.goals = np.zeros((episodes, *layout.goal_shape), np.float32)
        self.lengths = np.zeros(episodes, np.int32)
        self.log_probabilities = np.zeros((episodes, states - 1), np.float32)

    def episodes(self) -> Episodes:
        arrays = (self.observations, self.achieved_goals, self.actions, self.goals, self.lengths)
        return Episodes(*map(jnp.asarray, (*arrays, self.log_probabilities)))


def _play_together(
    task: HostedTask,
    pool: WorkerPool,
    explore: Explore,
    seeds: np.ndarray,
    episodes: np.ndarray,
    step_key: Key[Array, ""],
    record: _Record,
    episodes_end: EpisodesEnd,
) -> None:
    """Play episodes side by side, one in each slot, from their beginning to the last one's end.

    They form two teams, so that the simulators of one are at work while the policy looks at the other. It is called for
    a team's episodes with a place for every episode, so that each gets the same action as it would among all others.
    Pictures cost more to look at than to make: there one call serves all.
    """
    slots = np.arange(len(episodes))
    pool.begin(slots, seeds[episodes])
    record.goals[episodes] = pool.slots.goals[slots]
    shown = _Shown(record, pool, episodes)
    shown.write(slots, 0)
    action_keys = _action_keys(step_key, task.horizon - 1)

    def act(live: np.ndarray, time: int) -> None:
        """Have the next actions of some episodes taken. With pictures the workers wait meanwhile: keep it short."""
        chosen = explore(record.observations[:, time], record.goals, np.int32(time), action_keys[time])
        actions, log_probabilities = (np.asarray(each)[episodes[live]] for each in chosen)
        pool.ask(live, actions)
        record.actions[episodes[live], time] = actions
        record.log_probabilities[episodes[live], time] = log_probabilities
        record.lengths[episodes[live]] = time + 1

    shares = [slots] if task.shows_pictures else [slots[: len(slots) // 2], slots[len(slots) // 2 :]]
    live = {team: share for team, share in enumerate(shares) if len(share)}
    times = dict.fromkeys(live, 0)
    for team in live:
        act(live[team], 0)
    while live:
        team = pool.answered(live)
        times[team] += 1
        shown.write(live[team], times[team])
        ended = pool.slots.over[slots]
        if episodes_end == "goal":
            ended = ended | reached_now(task, pool.slots.achieved_goals[slots], record.goals[episodes])
        live[team] = live[team][~ended[live[team]]]
        if len(live[team]) and times[team] < task.horizon - 1:
            act(live[team], times[team])
        else:
            del live[team]


class _Shown:
    """Copies what the slots show into the record."""

    def __init__(self, record: _Record, pool: WorkerPool, episodes: np.ndarray):
        self._record, self._pool, self._episodes = record, pool, episodes

    def write(self, slots: np.ndarray, state: int) -> None:
        self._record.observations[self._episodes[slots], state] = self._pool.slots.observations[slots]
        self._record.achieved_goals[self._episodes[slots], state] = self._pool.slots.achieved_goals[slots]


@functools.partial(jax.jit, static_argnums=1)
def _action_keys(step_key: Key[Array, ""], actions: int) -> list[Key[Array, ""]]:
    """The keys for the actions of each time step, as for compiled environments."""
    return [jax.random.split(jax.random.fold_in(step_key, time))[0] for time in range(actions)]


class _Mapped(NamedTuple):
    """Functions of a task, compiled for rows of states and goals."""

    task: HostedTask
    reached: Callable[[np.ndarray, np.ndarray], Array]
    rewards_and_reached: Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[Array, Array]]


_MAPPED: dict[int, _Mapped] = {}
"""The newest ones by the identity of their tasks, which may hold what cannot be hashed."""


def _mapped(task: HostedTask) -> _Mapped:
    if id(task) not in _MAPPED:
        while len(_MAPPED) >= 4:
            del _MAPPED[next(iter(_MAPPED))]
        reached = jax.vmap(task.reached)

        def both(achieved: Array, goals: Array, times: Array) -> tuple[Array, Array]:
            return jax.vmap(task.reward)(achieved, goals, times), reached(achieved, goals)

        _MAPPED[id(task)] = _Mapped(task, jax.jit(reached), jax.jit(both))
    return _MAPPED[id(task)]


def reached_now(task: HostedTask, achieved: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Which of some states reach the goal beside them."""
    reached = np.asarray(_mapped(task).reached(achieved, goals))
    task.raise_fault()
    return reached


def rewards_and_reached(
    task: HostedTask, achieved: np.ndarray, goals: np.ndarray, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The reward of each state under the goal beside it, and whether it reaches that goal."""
    rewards, reached = map(np.asarray, _mapped(task).rewards_and_reached(achieved, goals, times))
    task.raise_fault()
    return rewards, reached


def play_hosted(
    task: HostedTask,
    pool: WorkerPool,
    exploit: Callable[[np.ndarray, np.ndarray, np.ndarray], Array],
    episodes: int,
    key: Key[Array, ""],
    wanted: np.ndarray | None = None,
) -> Outcomes:
    """The returns of greedy episodes; a slot whose episode has ended begins the next one at once.

    Goals are those that simulators draw, unless there is one `wanted` in each episode.
    """
    seeds, _ = episode_seeds(key, episodes)
    # However few of them can be used: the same batch of observations gives the same actions, to the last bit.
    count = len(pool.slots.over)
    waiting = iter(range(episodes))
    playing = np.full(count, -1)
    times = np.zeros(count, np.int32)
    returns, successes = np.zeros(episodes), np.zeros(episodes, bool)
    _refill(pool, playing, times, waiting, seeds, wanted)
    while np.any(playing >= 0):
        now = np.flatnonzero(playing >= 0)
        actions = np.asarray(exploit(pool.slots.observations, pool.slots.goals, times))
        pool.step(now, actions[now])
        times[now] += 1
        # A slot without an episode shows nothing to be rewarded: in its place stands one that has an episode.
        rows = np.where(playing >= 0, np.arange(count), now[0])
        rewards, reached = rewards_and_reached(
            task, pool.slots.achieved_goals[rows], pool.slots.goals[rows], times[rows]
        )
        returns[playing[now]] += rewards[now]
        successes[playing[now]] |= reached[now]
        ended = now[reached[now] | pool.slots.over[now] | (times[now] >= task.horizon - 1)]
        playing[ended] = -1
        _refill(pool, playing, times, waiting, seeds, wanted)
    return Outcomes(jnp.asarray(returns, jnp.float32), jnp.asarray(successes))


def _refill(
    pool: WorkerPool,
    playing: np.ndarray,
    times: np.ndarray,
    waiting: Iterator[int],
    seeds: np.ndarray,
    wanted: np.ndarray | None,
) -> None:
    """Begin the next episodes in the free slots, in their order."""
    begun = []
    for slot in np.flatnonzero(playing[: pool.places] < 0):
        episode = next(waiting, None)
        if episode is None:
            break
        playing[slot], times[slot] = episode, 0
        begun.append(int(slot))
    if begun:
        pool.begin(begun, seeds[playing[begun]])
        if wanted is not None:
            pool.pursue(begun, wanted[playing[begun]])
