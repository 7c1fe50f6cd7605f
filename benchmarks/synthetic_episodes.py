"""Made-up episodes in the shapes of the hosted environments, as a policy that has learned something would play them."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.environments.ms_pacman.game import known_cells

STEP = 0.02
"""How far a block is pushed by an action, in metres, at the most."""
STRAIGHT_ON = 0.8
"""The probability that a walker keeps its direction, where it can."""
MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))


def ms_pacman_episodes(task: HostedTask, count: int, generator: np.random.Generator) -> Episodes:
    """Random pictures, and walks through the cells of the maze."""
    cells = {cell: [] for cell in known_cells().standing}  # type: dict[tuple[int, int], list[tuple[int, int]]]
    for row, column in cells:
        cells[row, column] = [move for move in MOVES if (row + move[0], column + move[1]) in cells]
    places = [cell for cell, moves in cells.items() if moves]
    achieved = np.zeros((count, task.horizon, 2), np.float32)
    for episode in achieved:
        place = places[generator.integers(len(places))]
        move = MOVES[0]
        for state in range(task.horizon):
            episode[state] = place
            if move not in cells[place] or generator.random() > STRAIGHT_ON:
                move = cells[place][generator.integers(len(cells[place]))]
            place = (place[0] + move[0], place[1] + move[1])
    shape = (count, task.horizon, *task.observation_shape)
    return _episodes(task, generator.integers(0, 256, shape, np.uint8), achieved, generator)


def fetch_push_episodes(task: HostedTask, count: int, generator: np.random.Generator) -> Episodes:
    """Random observations, and a block in every episode that is pushed from some time on."""
    states = task.horizon
    begins = generator.integers(0, states // 2, (count, 1, 1))
    steps = STEP * generator.uniform(-0.2, 1, (count, states, 3)) * generator.choice([-1, 1], (count, 1, 3))
    steps = np.where(np.arange(states)[None, :, None] > begins, steps, 0)
    steps[..., 2] = 0
    achieved = (np.array([1.34, 0.75, 0.42]) + np.cumsum(steps, axis=1)).astype(np.float32)
    observations = generator.normal(size=(count, states, *task.observation_shape)).astype(np.float32)
    return _episodes(task, observations, achieved, generator)


def _episodes(
    task: HostedTask, observations: np.ndarray, achieved: np.ndarray, generator: np.random.Generator
) -> Episodes:
    """Every second episode pursued the goal of one of its last states, and ended when it got there."""
    count, actions = len(achieved), task.horizon - 1
    goals = np.roll(achieved[:, -1], 1, axis=0)
    late = generator.integers(actions // 2, actions + 1, count)
    goals[::2] = achieved[np.arange(count), late][::2]
    reach = jax.vmap(jax.vmap(task.reached, in_axes=(0, None)))
    reached = np.array(reach(jnp.asarray(achieved[:, 1:]), jnp.asarray(goals)))
    reached[1::2] = False
    lengths = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, actions)
    chosen = generator.integers(0, task.action_count, (count, actions))
    log_probabilities = np.full((count, actions), -math.log(task.action_count), np.float32)
    arrays = observations, achieved, chosen.astype(np.int32), goals, lengths.astype(np.int32), log_probabilities
    return Episodes(*map(jnp.asarray, arrays))


MAKERS = {"ms-pacman": ms_pacman_episodes, "fetch-push": fetch_push_episodes}


@functools.cache
def batch(task: HostedTask, name: str, count: int = 16) -> Episodes:
    """A batch for the environment of that name, always the same."""
    return MAKERS[name](task, count, np.random.default_rng(0))
