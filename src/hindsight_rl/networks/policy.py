"""The goal-conditional policy: a distribution over actions for every pair of observation and goal."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, Shaped

from hindsight_rl.networks.images import ImageTrunk
from hindsight_rl.networks.normaliser import Normaliser
from hindsight_rl.networks.perceptron import Initialiser, Perceptron, flat_size, narrow_normal

PROBABILITY_FLOOR = 1e-12
"""Added to every probability, as in the published experiments, so that no likelihood ratio is undefined."""
FIRST_DEVIATION = 0.6
"""Standard deviation of a fresh policy's continuous actions, where the bounds lie at -1 and 1."""

Bounds = tuple[tuple[float, ...], tuple[float, ...]]
Actions = Int[Array, " row"] | Float[Array, "row action"]


class Policy(eqx.Module):
    """p(a | s, g): observation and goal side by side into tanh layers, then a softmax over the actions.

    For continuous actions, the output is the mean of a normal distribution with a learned deviation for each component,
    in units in which the bounds of the component lie at -1 and 1. Actions have the environment's own units. A component
    that is not bounded on both sides is not scaled.
    For pictures, convolutions come first, and the goal joins them in the first hidden layer.
    """

    network: Perceptron
    trunk: ImageTrunk | None
    normalisers: tuple[Normaliser, Normaliser] | None
    """Of observations and of goals."""
    log_deviation: Float[Array, " action"] | None
    """For continuous actions, in units of the network's output."""
    bounds: Bounds | None = eqx.field(static=True)
    """The lowest and the highest value of each component."""

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
    ):
        """`observation` is the size of a vector, or the shape of a picture: height, width, depth."""
        shape = (observation,) if isinstance(observation, int) else tuple(observation)
        size = flat_size(shape)
        self.trunk = None
        if len(shape) == 3:
            trunk_key, key = jax.random.split(key)
            first, *hidden_layers = hidden_layers
            self.trunk = ImageTrunk(shape, goal_size, first, trunk_key)
            self.network = Perceptron(first, hidden_layers, action_count, key, initialise)
        else:
            self.network = Perceptron(size + goal_size, hidden_layers, action_count, key, initialise)
        self.normalisers = (Normaliser(size), Normaliser(goal_size)) if normalise and self.trunk is None else None
        self.log_deviation = jnp.full(action_count, math.log(FIRST_DEVIATION)) if continuous else None
        self.bounds = bounds

    @property
    def output_size(self) -> int:
        """The numbers that describe a distribution over actions."""
        return self.network.biases[-1].shape[0]

    def _units(self, axes: int) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """The action that an output of zero stands for, and how much an output of one adds; with so many axes."""
        assert self.log_deviation is not None
        middle, unit = jnp.zeros_like(self.log_deviation), jnp.ones_like(self.log_deviation)
        if self.bounds is not None:
            low, high = (np.asarray(bound, np.float64) for bound in self.bounds)
            scaled = np.isfinite(low) & np.isfinite(high) & (low < high)
            low, high = np.where(scaled, low, -1), np.where(scaled, high, 1)
            middle, unit = ((jnp.asarray(each, middle.dtype)) for each in ((low + high) / 2, (high - low) / 2))
        shape = (1,) * (axes - 1) + middle.shape
        return middle.reshape(shape), unit.reshape(shape)

    def encode(self, observations: Shaped[Array, "row *features"]) -> Float[Array, "row encoded"]:
        """All that depends on the observation alone, so that it is computed once for all goals."""
        if self.trunk is not None:
            return self.trunk.encode(observations)
        rows = observations.reshape(observations.shape[0], -1)
        if not jnp.issubdtype(rows.dtype, jnp.floating):
            rows = rows.astype(jnp.float32)
        return rows if self.normalisers is None else self.normalisers[0](rows)

    def distributions(
        self, encoded: Float[Array, "row encoded"], goals: Float[Array, "row goal"]
    ) -> Float[Array, "row output"]:
        """What describes the distributions of actions: log-probabilities or, for continuous actions, means."""
        if self.normalisers is not None:
            goals = self.normalisers[1](goals)
        if self.trunk is not None:
            outputs = self.network(self.trunk.join(encoded, goals))
        else:
            outputs = self.network(jnp.concatenate([encoded, goals], axis=1))
        if self.log_deviation is not None:
            middle, unit = self._units(2)
            return middle + unit * outputs
        # In log space: a tiny probability does not round to zero.
        return jnp.logaddexp(jax.nn.log_softmax(outputs), math.log(PROBABILITY_FLOOR))

    def log_density(
        self, distributions: Float[Array, "*batch output"], actions: Shaped[Array, "..."]
    ) -> Float[Array, "*batch"]:
        """The logarithm of each action's probability, or density, under the distribution beside it."""
        if self.log_deviation is None:
            return jnp.take_along_axis(distributions, actions[..., None], axis=-1)[..., 0]
        _, unit = self._units(actions.ndim)
        deviation = self.log_deviation.reshape(unit.shape) + jnp.log(unit)
        scores = (actions - distributions) * jnp.exp(-deviation)
        return jnp.sum(-0.5 * scores**2 - deviation - 0.5 * math.log(2 * math.pi), axis=-1)

    def log_probabilities(
        self, observations: Shaped[Array, "row *features"], goals: Float[Array, "row goal"]
    ) -> Float[Array, "row action"]:
        """log(p(a | s, g) + 1e-12) of every action."""
        return self.distributions(self.encode(observations), goals)

    def sample(
        self, observations: Shaped[Array, "row *features"], goals: Float[Array, "row goal"], key: Key[Array, ""]
    ) -> tuple[Actions, Float[Array, " row"]]:
        """An action for each row, drawn with its probability, and the logarithm of that probability."""
        table = self.distributions(self.encode(observations), goals)
        if self.log_deviation is None:
            actions = jnp.argmax(table + jax.random.gumbel(key, table.shape), axis=1)
        else:
            _, unit = self._units(2)
            actions = table + unit * jnp.exp(self.log_deviation)[None] * jax.random.normal(key, table.shape)
        return actions, self.log_density(table, actions)

    def greedy(self, observations: Shaped[Array, "row *features"], goals: Float[Array, "row goal"]) -> Actions:
        """The most probable action of each row, within the bounds."""
        table = self.distributions(self.encode(observations), goals)
        if self.log_deviation is None:
            return jnp.argmax(table, axis=1)
        if self.bounds is None:
            return table
        low, high = (jnp.asarray(bound, table.dtype)[None] for bound in self.bounds)
        return jnp.clip(table, low, high)

    def act(
        self, observation: Shaped[Array, "*features"], goal: Float[Array, "*goal"], time: int | Array = 0
    ) -> Int[Array, ""] | Float[Array, " action"]:
        """The most probable action for one observation and goal, whatever the time."""
        return self.greedy(jnp.asarray(observation)[None], jnp.asarray(goal, jnp.float32).reshape(1, -1))[0]
