"""A policy that is one matrix, for rollouts that need some way to act and no network."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hindsight_rl.environments.interface import Task


class LinearPolicy(NamedTuple):
    """Acts from observation and goal side by side: a softmax, or a normal distribution around the output."""

    matrix: jax.Array
    continuous: bool

    def outputs(self, observations: jax.Array, goals: jax.Array) -> jax.Array:
        rows = [jnp.asarray(each, jnp.float32).reshape(len(each), -1) for each in (observations, goals)]
        return jnp.concatenate(rows, axis=1) @ self.matrix

    def explore(self, observations: jax.Array, goals: jax.Array, time: jax.Array, key: jax.Array) -> tuple[Any, ...]:
        outputs = self.outputs(observations, goals)
        if self.continuous:
            noise = jax.random.normal(key, outputs.shape)
            return outputs + noise, -0.5 * jnp.sum(noise**2 + jnp.log(2 * jnp.pi), axis=1)
        actions = jax.random.categorical(key, outputs)
        return actions, jnp.take_along_axis(jax.nn.log_softmax(outputs), actions[:, None], axis=1)[:, 0]

    def exploit(self, observations: jax.Array, goals: jax.Array, time: jax.Array) -> jax.Array:
        outputs = self.outputs(observations, goals)
        return outputs if self.continuous else jnp.argmax(outputs, axis=1)


def linear_policy(task: Task, seed: int, scale: float = 1.0) -> LinearPolicy:
    inputs = int(np.prod(task.observation_shape) + np.prod(task.goal_shape))
    matrix = np.random.default_rng(seed).normal(scale=scale, size=(inputs, task.action_count))
    return LinearPolicy(jnp.asarray(matrix, jnp.float32), task.continuous)
