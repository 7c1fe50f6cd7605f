"""The goal-conditional deep Q-network: a value for every action in every triple of observation, goal and time."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from hindsight.networks.perceptron import Perceptron, scaled_uniform


class ActionValue(eqx.Module):
    """Q_t(s, g, a) for all actions a at once, from rectified linear layers; the time step enters as a plain number."""

    network: Perceptron

    def __init__(
        self,
        observation_size: int,
        goal_size: int,
        action_count: int,
        hidden_layers: Sequence[int],
        key: Key[Array, ""],
    ):
        inputs = observation_size + goal_size + 1
        self.network = Perceptron(inputs, hidden_layers, action_count, key, scaled_uniform, jax.nn.relu)

    def __call__(
        self,
        observations: Float[Array, "row features"],
        goals: Float[Array, "row goal"],
        times: Int[Array, " row"],
    ) -> Float[Array, "row action"]:
        return self.network(jnp.concatenate([observations, goals, times[:, None]], axis=1))

    def act(
        self, observation: Float[Array, "*features"], goal: Float[Array, "*goal"], time: int | Int[Array, ""]
    ) -> Int[Array, ""]:
        """The action with the largest value for one observation and goal after `time` actions."""
        observation, goal = jnp.asarray(observation, jnp.float32), jnp.asarray(goal, jnp.float32)
        return jnp.argmax(self(observation.reshape(1, -1), goal.reshape(1, -1), jnp.asarray(time).reshape(1))[0])
