"""The baseline: a value for every triple of observation, goal and time."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from hindsight_rl.networks.perceptron import Perceptron


class Value(eqx.Module):
    """b_t(s, g), an approximation of V_t(s, g); the time step enters as a plain number."""

    network: Perceptron

    def __init__(self, observation_size: int, goal_size: int, hidden_layers: Sequence[int], key: Key[Array, ""]):
        self.network = Perceptron(observation_size + goal_size + 1, hidden_layers, 1, key)

    def __call__(
        self,
        observations: Float[Array, "row features"],
        goals: Float[Array, "row goal"],
        times: Float[Array, " row"],
    ) -> Float[Array, " row"]:
        return self.network(jnp.concatenate([observations, goals, times[:, None]], axis=1))[:, 0]
