"""The goal-conditional policy: a distribution over actions for every pair of observation and goal."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Shaped

from hindsight_rl.networks.heads import FIRST_DEVIATION, Actions, Bounds, Categorical, Head, Normal
from hindsight_rl.networks.images import ImageTrunk
from hindsight_rl.networks.layers import Normalisers, OneInput, encode, make_layers, outputs_of
from hindsight_rl.networks.perceptron import Initialiser, Perceptron, narrow_normal


class Policy(eqx.Module):
    """p(a | s, g): observation and goal side by side into tanh layers, then a head that makes distributions of them."""

    network: Perceptron
    trunk: ImageTrunk | None
    normalisers: Normalisers | None
    log_deviation: Float[Array, " action"] | None
    """For continuous actions; a leaf of the policy's own, not of its head, since checkpoints name it so."""
    bounds: Bounds | None = eqx.field(static=True)
    """The lowest and the highest value of each component of continuous actions."""
    bounded_mean: bool = eqx.field(static=True)
    smallest_deviation: float = eqx.field(static=True)

    def __init__(
        self,
        observation: int | Sequence[int],
        goal_size: int,
        action_count: int,
        hidden_layers: Sequence[int],
        key: Key[Array, ""],
        initialise: Initialiser = narrow_normal,
        continuous: bool = False,
        normalise: bool = False,
        bounds: Bounds | None = None,
        bounded_mean: bool = False,
        smallest_deviation: float = 0.0,
    ):
        """`observation` is the size of a vector, or the shape of a picture: height, width, depth."""
        self.network, self.trunk, self.normalisers = make_layers(
            observation, goal_size, action_count, hidden_layers, key, initialise=initialise, normalise=normalise
        )
        self.log_deviation = jnp.full(action_count, math.log(FIRST_DEVIATION)) if continuous else None
        self.bounds, self.bounded_mean, self.smallest_deviation = bounds, bounded_mean, smallest_deviation

    @property
    def head(self) -> Head:
        """What the outputs mean."""
        if self.log_deviation is None:
            return Categorical(self.network.biases[-1].shape[0])
        return Normal(self.log_deviation, self.bounds, self.bounded_mean, self.smallest_deviation)

    def encode(self, observations: Shaped[Array, "row *features"]) -> Float[Array, "row encoded"]:
        """All that depends on the observation alone, so that it is computed once for all goals."""
        return encode(self, observations)

    def distributions(
        self, encoded: Float[Array, "row encoded"], goals: Float[Array, "row goal"]
    ) -> Float[Array, "row output"]:
        """The head's rows: log-probabilities or, for continuous actions, means."""
        return self.head.rows(outputs_of(self, encoded, goals))

    def log_probabilities(
        self, observations: Shaped[Array, "row *features"], goals: Float[Array, "row goal"]
    ) -> Float[Array, "row action"]:
        """log(p(a | s, g) + 1e-12) of every action."""
        return self.distributions(self.encode(observations), goals)

    def sample(
        self, observations: Shaped[Array, "row *features"], goals: Float[Array, "row goal"], key: Key[Array, ""]
    ) -> tuple[Actions, Float[Array, " row"]]:
        """An action for each row, drawn with its probability, and the logarithm of that probability."""
        rows = self.distributions(self.encode(observations), goals)
        actions = self.head.sample(rows, key)
        return actions, self.head.log_probability(rows, actions)

    def greedy(self, observations: Shaped[Array, "row *features"], goals: Float[Array, "row goal"]) -> Actions:
        """The most probable action of each row, within the bounds."""
        return self.head.mode(self.distributions(self.encode(observations), goals))

    def act(
        self, observation: OneInput, goal: OneInput, time: int | Array = 0
    ) -> Int[Array, ""] | Float[Array, " action"]:
        """The most probable action for one observation and goal, whatever the time."""
        return self.greedy(jnp.asarray(observation)[None], jnp.asarray(goal, jnp.float32).reshape(1, -1))[0]
