"""The goal-conditional deep Q-network: a value for every action in every triple of observation, goal and time."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Shaped

from hindsight_rl.networks.images import ImageTrunk
from hindsight_rl.networks.layers import Normalisers, OneInput, encode, make_layers, outputs_of
from hindsight_rl.networks.perceptron import Perceptron, scaled_uniform


class ActionValue(eqx.Module):
    """Q_t(s, g, a) for all actions a at once, from rectified linear layers; the time step enters as a plain number.

    For pictures, convolutions come first, and goal and time join them in the first hidden layer.
    """

    network: Perceptron
    trunk: ImageTrunk | None
    """Of its goals, the last number is the time."""
    normalisers: Normalisers | None

    def __init__(
        self,
        observation: int | Sequence[int],
        goal_size: int,
        action_count: int,
        hidden_layers: Sequence[int],
        key: Key[Array, ""],
    ):
        """`observation` is the size of a vector, or the shape of a picture: height, width, depth."""
        self.network, self.trunk, self.normalisers = make_layers(
            observation, goal_size, action_count, hidden_layers, key, True, scaled_uniform, jax.nn.relu
        )

    def __call__(
        self,
        observations: Shaped[Array, "row *features"],
        goals: Shaped[Array, "row *goal"],
        times: Int[Array, " row"],
    ) -> Float[Array, "row action"]:
        return outputs_of(self, encode(self, observations), goals.reshape(goals.shape[0], -1), times)

    def act(self, observation: OneInput, goal: OneInput, time: int | Int[Array, ""]) -> Int[Array, ""]:
        """The action with the largest value for one observation and goal after `time` actions."""
        shown = jnp.asarray(observation) if self.trunk is not None else jnp.asarray(observation, jnp.float32)
        return jnp.argmax(self(shown[None], jnp.asarray(goal, jnp.float32)[None], jnp.asarray(time).reshape(1))[0])
