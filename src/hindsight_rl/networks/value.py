"""The baseline: a value for every triple of observation, goal and time."""

from collections.abc import Sequence

import equinox as eqx
from jaxtyping import Array, Bool, Float, Key, Shaped

from hindsight_rl.networks.images import ImageTrunk
from hindsight_rl.networks.layers import Normalisers, encode, make_layers, outputs_of
from hindsight_rl.networks.perceptron import Perceptron


class Value(eqx.Module):
    """b_t(s, g), an approximation of V_t(s, g); the time step enters as a plain number beside the goal."""

    network: Perceptron
    trunk: ImageTrunk | None
    normalisers: Normalisers | None

    def __init__(
        self,
        observation: int | Sequence[int],
        goal_size: int,
        hidden_layers: Sequence[int],
        key: Key[Array, ""],
        normalise: bool = False,
    ):
        """`observation` is the size of a vector, or the shape of a picture: height, width, depth."""
        self.network, self.trunk, self.normalisers = make_layers(
            observation, goal_size, 1, hidden_layers, key, timed=True, normalise=normalise
        )

    def __call__(
        self,
        observations: Shaped[Array, "row *features"],
        goals: Float[Array, "row goal"],
        times: Float[Array, " row"],
    ) -> Float[Array, " row"]:
        return self.of(self.encode(observations), goals, times)

    def encode(
        self, observations: Shaped[Array, "row *features"], wanted: Bool[Array, " row"] | None = None
    ) -> Float[Array, "row encoded"]:
        """All that depends on the observation alone; it means nothing for pictures that are not wanted."""
        return encode(self, observations, wanted)

    def of(
        self, encoded: Float[Array, "row encoded"], goals: Float[Array, "row goal"], times: Float[Array, " row"]
    ) -> Float[Array, " row"]:
        """The values of encoded observations."""
        return outputs_of(self, encoded, goals, times)[:, 0]
