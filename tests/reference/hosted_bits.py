"""Bit flipping as a simulator in plain Python, for the hosted path; also misbehaving ones."""

import os
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.environments.simulators import Observed, Simulator, SimulatorSource


class BitsSimulator(Simulator):
    """Draws its goal from the same key as the compiled environment does."""

    def __init__(self, bits: int, crash_file: str = "", trouble: str = ""):
        self._bits, self._crash_file, self._trouble = bits, crash_file, trouble
        self._state = np.zeros(bits, np.float32)
        self._steps = 0

    def reset(self, seed: int) -> Observed:
        self._state = np.zeros(self._bits, np.float32)
        self._steps = 0
        return self._observed()

    def sample_goal(self, seed: int) -> np.ndarray:
        key = jax.random.wrap_key_data(jnp.array([seed >> 32, seed & 0xFFFFFFFF], jnp.uint32))
        return np.asarray(BitFlipping(self._bits).sample_goal(key))

    def step(self, action: np.ndarray) -> Observed:
        self._steps += 1
        if self._crash_file and self._steps == 2 and os.path.exists(self._crash_file):
            os.unlink(self._crash_file)
            misbehave(self._trouble)
        self._state = self._state.copy()
        self._state[int(action)] = 1 - self._state[int(action)]
        return self._observed()

    def _observed(self) -> Observed:
        return Observed(self._state.copy(), self._state.copy())

    def picture(self, goal: np.ndarray) -> np.ndarray:
        return np.zeros((8, 8, 3), np.uint8)

    def close(self) -> None:
        pass


def misbehave(trouble: str) -> None:
    if trouble == "die":
        os._exit(7)
    if trouble == "hang":
        time.sleep(3600)
    raise RuntimeError("the joint broke")


class BitsTask(HostedTask):
    """The same task as `BitFlipping`, played by simulators."""

    compiled: BitFlipping  # type: ignore[misc]
    options: tuple[tuple[str, Any], ...] = ()
    name: str = "bits"
    observation_type: str = "float32"

    @property  # type: ignore[misc]
    def horizon(self) -> int:  # type: ignore[override]
        return self.compiled.horizon

    @property  # type: ignore[misc]
    def action_count(self) -> int:  # type: ignore[override]
        return self.compiled.action_count

    @property
    def goal_count(self) -> int:
        return self.compiled.goal_count

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (self.compiled.bits,)

    @property
    def goal_shape(self) -> tuple[int, ...]:
        return (self.compiled.bits,)

    def source(self, pictures: bool = False) -> SimulatorSource:
        return SimulatorSource(__name__, "BitsSimulator", {"bits": self.compiled.bits, **dict(self.options)})

    def goal_probability(self, goal: Array) -> Array:
        return self.compiled.goal_probability(goal)

    def reached(self, achieved: Array, goal: Array) -> Array:
        return self.compiled.reached(achieved, goal)

    def reward(self, achieved: Array, goal: Array, time: Array) -> Array:
        return self.compiled.reward(achieved, goal, time)


def hosted_bits(bits: int, **options: Any) -> BitsTask:
    return BitsTask(BitFlipping(bits), tuple(options.items()))  # type: ignore[call-arg]
