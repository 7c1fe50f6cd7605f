"""The goal-conditional deep Q-network: a value for every action in every triple of observation, goal and time."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Shaped

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.networks.images import ImageTrunk
from hindsight_rl.networks.perceptron import Perceptron, flat_size, scaled_uniform


class ActionValue(eqx.Module):
    """Q_t(s, g, a) for all actions a at once, from rectified linear layers; the time step enters as a plain number.

    For pictures, convolutions come first, and goal and time join them in the first hidden layer.
    """

    network: Perceptron
    trunk: ImageTrunk | None
    """Of its goals, the last number is the time."""

    def __init__(
        self,
        observation: int | Sequence[int],
        goal_size: int,
        action_count: int,
        hidden_layers: Sequence[int],
        key: Key[Array, ""],
    ):
        """`observation` is the size of a vector, or the shape of a picture: height, width, depth."""
        shape = (observation,) if isinstance(observation, int) else tuple(observation)
        inputs = flat_size(shape) + goal_size + 1
        self.trunk = None
        if len(shape) == 3:
            if not hidden_layers:
                raise HindsightError("A Q-network for pictures needs a hidden layer, in which the goal joins them.")
            trunk_key, key = jax.random.split(key)
            inputs, *hidden_layers = hidden_layers
            self.trunk = ImageTrunk(shape, goal_size + 1, inputs, trunk_key, jax.nn.relu)
        self.network = Perceptron(inputs, hidden_layers, action_count, key, scaled_uniform, jax.nn.relu)

    def __call__(
        self,
        observations: Shaped[Array, "row *features"],
        goals: Shaped[Array, "row *goal"],
        times: Int[Array, " row"],
    ) -> Float[Array, "row action"]:
        asked = jnp.concatenate([_flat(goals), times[:, None]], axis=1)
        if self.trunk is None:
            return self.network(jnp.concatenate([_flat(observations), asked], axis=1))
        return self.network(self.trunk.join(self.trunk.encode(observations), asked))

    def act(
        self, observation: Shaped[Array, "*features"], goal: Float[Array, "*goal"], time: int | Int[Array, ""]
    ) -> Int[Array, ""]:
        """The action with the largest value for one observation and goal after `time` actions."""
        shown = jnp.asarray(observation) if self.trunk is not None else jnp.asarray(observation, jnp.float32)
        return jnp.argmax(self(shown[None], jnp.asarray(goal, jnp.float32)[None], jnp.asarray(time).reshape(1))[0])


def _flat(batch: Shaped[Array, "row *features"]) -> Shaped[Array, "row flat"]:
    return batch.reshape(batch.shape[0], -1)
