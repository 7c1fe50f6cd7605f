"""Hand-made walks in a corridor, and a replay buffer that holds them."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from reference.compilation import quick_jit
from reference.probes import Corridor

from hindsight_rl.agents.replay import Replay, Transitions, add_episodes, directory, empty_replay, look_up
from hindsight_rl.agents.replay_options import DQNOptions, HEROptions, goals_per_transition
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.interface import Environment

WALK = Corridor(cells=9, start=4, goals=(0, 8), moves=(-1, 1), horizon=5)  # type: ignore[call-arg]
"""Up to four actions."""
NEVER = 8.0
"""A goal of that corridor too far away for the walks below."""
FINAL = HEROptions(replay_capacity=64)


def walks(*cells: list[float], goals: float | list[float] = NEVER) -> Episodes:
    """Episodes that visit the given cells; what comes after their end is poison."""
    states = WALK.horizon
    padded = np.full((len(cells), states, 1), np.nan, np.float32)
    actions = np.full((len(cells), states - 1), 99)
    for episode, visited in enumerate(cells):
        padded[episode, : len(visited), 0] = visited
        actions[episode, : len(visited) - 1] = np.diff(visited) > 0
    return Episodes(
        observations=jnp.asarray(padded),
        achieved_goals=jnp.asarray(padded),
        actions=jnp.asarray(actions),
        pursued_goals=jnp.broadcast_to(jnp.array(goals, jnp.float32).reshape(-1, 1), (len(cells), 1)),
        lengths=jnp.array([len(visited) - 1 for visited in cells]),
        log_probabilities=jnp.zeros(actions.shape),
    )


@cache
def programs(environment: Environment, options: DQNOptions) -> tuple[Any, Any]:
    """Adding to a buffer, and looking everything up."""
    add = quick_jit(lambda replay, episodes, lots: add_episodes(environment, options, replay, episodes, lots))

    def read(replay: Replay) -> tuple[Transitions, jax.Array]:
        where = directory(replay, options.replay_capacity)
        return look_up(environment, options, replay, where, jnp.arange(options.replay_capacity)), where.size

    return add, quick_jit(read)


def lots_for(episodes: Episodes, options: DQNOptions, seed: int) -> np.ndarray:
    shape = (*episodes.actions.shape, goals_per_transition(options) - 1)
    return np.random.default_rng(seed).uniform(size=shape).astype(np.float32)


def filled(options: DQNOptions, *batches: Episodes, environment: Environment = WALK, seed: int = 0) -> Replay:
    replay = empty_replay(environment, options)
    for number, episodes in enumerate(batches):
        lots = lots_for(episodes, options, seed + number)
        replay = programs(environment, options)[0](replay, episodes, lots)
    return replay


def content(options: DQNOptions, replay: Replay, environment: Environment = WALK) -> Transitions:
    """All transitions in the buffer."""
    transitions, size = programs(environment, options)[1](replay)
    return Transitions(*(np.asarray(leaf)[: int(size)] for leaf in transitions))


def rows(transitions: Transitions) -> list[tuple[float, ...]]:
    """(goal, time, cell, reward, terminal) of transitions in the corridor, sorted."""
    columns = [transitions.goals[:, 0], transitions.times, transitions.observations[:, 0]]
    columns += [transitions.rewards, transitions.terminal]
    return sorted(zip(*(np.asarray(column).tolist() for column in columns), strict=True))


def of_goal(goal: float, transitions: Transitions) -> list[tuple[float, ...]]:
    return [row[1:] for row in rows(transitions) if row[0] == goal]
