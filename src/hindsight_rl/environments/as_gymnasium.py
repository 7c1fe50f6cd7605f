"""The way back: compiled environments as Gymnasium goal environments, for other libraries to learn in.

    import gymnasium, hindsight_rl.environments.as_gymnasium

    environment = gymnasium.make("hindsight/FourRooms-v0")

Importing this module registers the names below. An environment keeps the contract of gymnasium-robotics' `GoalEnv`:
`compute_reward`, `compute_terminated` and `compute_truncated` take one pair of goals or many.

The reward for reaching a goal is the remaining number of time steps plus one, so two goals do not decide it: the info
must say how many actions were taken. `step` puts that number into its info as `time`, and `compute_reward` reads it
there: from one dictionary, with one number or one for each pair, or from a sequence of dictionaries, one for each pair.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.extras import import_gymnasium
from hindsight_rl.environments.grid_world import GridWorld
from hindsight_rl.environments.interface import Environment
from hindsight_rl.environments.registry import make_compiled

import_gymnasium()  # Says in a sentence what is missing.
import gymnasium  # noqa: E402

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "hindsight/BitFlipping8-v0": "bit-flipping-8",
        "hindsight/BitFlipping16-v0": "bit-flipping-16",
        "hindsight/EmptyRoom-v0": "empty-room",
        "hindsight/FourRooms-v0": "four-rooms",
    }
)
"""Gymnasium's name of each registered environment, and ours."""

Info = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class GoalEnvironment(gymnasium.Env):
    """A compiled environment with Gymnasium's interface; reaching the desired goal terminates an episode."""

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012  (Gymnasium's own form)

    def __init__(self, environment: Environment | str, render_mode: str | None = None):
        self._environment = make_compiled(environment) if isinstance(environment, str) else environment
        self.render_mode = render_mode
        self.action_space = gymnasium.spaces.Discrete(self._environment.action_count)
        observation, goal = _spaces(self._environment)
        self._goal_shape = goal.shape
        self.observation_space = gymnasium.spaces.Dict(observation=observation, achieved_goal=goal, desired_goal=goal)
        self._begin = jax.jit(self._environment.reset)
        self._draw_goal = jax.jit(self._environment.sample_goal)
        self._advance = jax.jit(self._environment.step)
        self._look = jax.jit(lambda state: (self._environment.observe(state), self._environment.achieved_goal(state)))
        self._reached = jax.jit(jax.vmap(self._environment.reached))
        self._reward = jax.jit(jax.vmap(self._environment.reward))
        self._time = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._state = self._begin(self._key())
        self._goal = np.asarray(self._draw_goal(self._key()))
        self._time = 0
        return self._observed(), {"time": 0}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Take an action."""
        self._state = self._advance(self._state, np.int32(action), self._key())
        self._time += 1
        observed, info = self._observed(), {"time": self._time}
        question = observed["achieved_goal"], observed["desired_goal"], info
        terminated = self.compute_terminated(*question)
        info["is_success"] = terminated
        return observed, self.compute_reward(*question), terminated, self.compute_truncated(*question), info

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Info) -> Any:
        """The reward of one pair of goals, or those of many; the info must hold the time."""
        shape, achieved, goals = self._pairs(achieved_goal, desired_goal)
        times = np.broadcast_to(_times(info), shape).reshape(-1).astype(np.int32)
        return _shaped(self._reward(achieved, goals, times), shape)

    def compute_terminated(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Info) -> Any:
        """Whether the desired goal is reached, for one pair or many."""
        shape, achieved, goals = self._pairs(achieved_goal, desired_goal)
        return _shaped(self._reached(achieved, goals), shape)

    def compute_truncated(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Info) -> Any:
        """Whether the horizon is reached, for one pair or many."""
        shape, *_ = self._pairs(achieved_goal, desired_goal)
        return _shaped(np.broadcast_to(_times(info) >= self._environment.horizon - 1, shape), shape)

    def render(self) -> str | None:
        """The state in text, if the render mode is `ansi`."""
        if self.render_mode is None:
            return None
        return self._environment.render(np.asarray(self._state), jnp.asarray(self._goal))

    def _key(self) -> jax.Array:
        """One key, one use, all from Gymnasium's own random numbers, which `reset` seeds."""
        return jax.random.key(int(self.np_random.integers(2**32)))

    def _observed(self) -> dict[str, np.ndarray]:
        observation, achieved = self._look(self._state)
        return {
            "observation": np.array(observation),
            "achieved_goal": np.array(achieved),
            "desired_goal": self._goal.copy(),
        }

    def _pairs(self, achieved: np.ndarray, desired: np.ndarray) -> tuple[tuple[int, ...], np.ndarray, np.ndarray]:
        """The shape of what was asked for, and its pairs of goals row by row."""
        goal = self._goal_shape
        achieved, desired = np.broadcast_arrays(np.asarray(achieved, np.float32), np.asarray(desired, np.float32))
        return achieved.shape[: achieved.ndim - len(goal)], achieved.reshape(-1, *goal), desired.reshape(-1, *goal)


def register() -> None:
    """Make the names known to Gymnasium; done once when this module is imported."""
    for name, ours in NAMES.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point=f"{__name__}:GoalEnvironment",
                kwargs={"environment": ours},
                max_episode_steps=make_compiled(ours).horizon - 1,
            )


def _spaces(environment: Environment) -> tuple[Any, Any]:
    """The spaces of observations and of goals, bounded where the bounds are known."""
    state = jax.eval_shape(environment.reset, jax.random.key(0))
    low, high = _bounds(environment)
    shapes = (jax.eval_shape(look, state).shape for look in (environment.observe, environment.achieved_goal))
    observation, goal = (
        gymnasium.spaces.Box(np.broadcast_to(low, shape), np.broadcast_to(high, shape), dtype=np.float32)
        for shape in shapes
    )
    return observation, goal


def _bounds(environment: Environment) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest values in an observation or a goal."""
    if isinstance(environment, BitFlipping):
        high = np.ones(environment.bits, np.float32)
    elif isinstance(environment, GridWorld):
        high = np.array(environment.walls.shape, np.float32) - 1
    else:
        return np.full((), -np.inf, np.float32), np.full((), np.inf, np.float32)
    return np.zeros_like(high), high


def _times(info: Info) -> np.ndarray:
    try:
        if isinstance(info, Mapping):
            return np.asarray(info["time"])
        return np.array([row["time"] for row in info])
    except KeyError:
        raise HindsightError(
            "The reward depends on the number of actions taken so far: the info must hold it as 'time', as step's does."
        ) from None


def _shaped(values: Any, shape: tuple[int, ...]) -> Any:
    """Back to the shape that was asked for; a plain number or truth value for a single pair."""
    array = np.asarray(values).reshape(shape)
    return array if shape else array.item()


register()
