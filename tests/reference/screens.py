"""A corridor that shows pictures, compiled and as a task of simulators, and walks in it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from reference.probes import Corridor

from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.environments.simulators import SimulatorSource

CORRIDOR: dict[str, Any] = {"cells": 9, "start": 4, "goals": (0, 8), "moves": (-1, 1), "horizon": 5}


class Screen(Corridor):
    """A corridor that shows a picture for each cell: mostly dark, or noise."""

    shape: tuple[int, int, int] = (6, 7, 3)
    noise: bool = False

    def observe(self, state: jax.Array) -> jax.Array:
        return jnp.asarray(self.pictures)[state[0].astype(jnp.int32)]

    @property
    def pictures(self) -> np.ndarray:
        drawn = np.random.default_rng(7).integers(0, 256, (self.cells, *self.shape), np.uint8)
        return drawn if self.noise else np.where(drawn < 16, drawn, 0).astype(np.uint8)


def random_walks(screen: Screen, episodes: int, seed: int) -> Episodes:
    """Episodes of unequal length; what stands behind their end is poison."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, screen.horizon, episodes)
    moves = generator.integers(0, 2, (episodes, screen.horizon - 1))
    cells = np.cumsum(np.concatenate([np.full((episodes, 1), 4), 2 * moves - 1], axis=1), axis=1)
    ended = np.arange(screen.horizon)[None] > lengths[:, None]
    pictures = np.where(ended[..., None, None, None], 99, screen.pictures[cells]).astype(np.uint8)
    return Episodes(
        observations=jnp.asarray(pictures),
        achieved_goals=jnp.asarray(np.where(ended, np.nan, cells)[..., None], jnp.float32),
        actions=jnp.asarray(np.where(ended[:, 1:], 99, moves), jnp.int32),
        pursued_goals=jnp.asarray(generator.choice([3.0, 5.0, 8.0], (episodes, 1)), jnp.float32),
        lengths=jnp.asarray(lengths, jnp.int32),
        log_probabilities=jnp.zeros((episodes, screen.horizon - 1)),
    )


class ScreenTask(HostedTask):
    """The corridor as a task of simulators; nobody plays it here."""

    compiled: Screen  # type: ignore[misc]
    name: str = "screen"
    observation_type: str = "uint8"
    goal_shape: tuple[int, ...] = (1,)
    action_count: int = 2
    goal_count: int = 2
    horizon: int = CORRIDOR["horizon"]

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return self.compiled.shape

    def source(self, pictures: bool = False) -> SimulatorSource:
        raise NotImplementedError

    def goal_probability(self, goal: jax.Array) -> jax.Array:
        return self.compiled.goal_probability(goal)

    def reached(self, achieved: jax.Array, goal: jax.Array) -> jax.Array:
        return self.compiled.reached(achieved, goal)

    def reward(self, achieved: jax.Array, goal: jax.Array, time: jax.Array) -> jax.Array:
        return self.compiled.reward(achieved, goal, time)
