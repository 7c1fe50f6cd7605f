"""The networks of an actor-critic: a policy and a value for every pair of observation and goal."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Shaped

from hindsight_rl.networks.heads import FIRST_DEVIATION, Bounds, Categorical, Head, Normal
from hindsight_rl.networks.images import ImageTrunk
from hindsight_rl.networks.normaliser import Scaler
from hindsight_rl.networks.perceptron import Perceptron, flat_size

LAST_LAYER = 0.01
"""What the weights of the last layer are multiplied with: a fresh policy is nearly uniform, a fresh value nearly 0."""


def he_normal(key: Key[Array, ""], shape: tuple[int, int]) -> Float[Array, "inputs outputs"]:
    """Normal with variance 2 / inputs: rectified linear units keep the size of their inputs."""
    return math.sqrt(2 / shape[0]) * jax.random.normal(key, shape)


class Inputs(eqx.Module):
    """What the networks are shown: observations and goals with mean 0 and deviation 1, from statistics of their own;
    numbers with two values as -1 and 1.

    Not a part of the networks: all of them, old and new, look through the same glasses.
    """

    observations: Scaler | None
    goals: Scaler | None
    interactions: bool = eqx.field(static=True)
    """Whether the elementwise product of observation and goal is shown too, where they have the same size."""
    waves: int = eqx.field(static=True)
    """Sines and cosines of each number that are shown as well, with wavelengths of 4, 2, 1, ... deviations."""

    def __init__(self, shape: Sequence[int], goal_size: int, normalise: bool, interactions: bool, waves: int = 0):
        pictures = len(shape) == 3
        self.waves = 0 if pictures else waves
        self.observations = Scaler(flat_size(shape)) if normalise and not pictures else None
        self.goals = Scaler(goal_size) if normalise else None
        self.interactions = interactions and not pictures and flat_size(shape) == goal_size

    def __call__(
        self, observations: Shaped[Array, "state *features"], goals: Shaped[Array, "row *goal"]
    ) -> tuple[Shaped[Array, "_shown *shown"], Float[Array, "row asked"]]:
        """Rows for the networks: pictures as they are, anything else flat, and a row for each goal.

        With several goals for a state, those come side by side.
        """
        goals = goals.reshape(goals.shape[0], -1)
        goals = goals if self.goals is None else self.goals(goals)
        if observations.ndim == 4:
            return observations, goals
        if len(observations) < len(goals):
            observations = jnp.repeat(observations, len(goals) // len(observations), axis=0)
        rows = observations.reshape(observations.shape[0], -1).astype(goals.dtype)
        rows = rows if self.observations is None else self.observations(rows)
        shown = [rows, rows * goals] if self.interactions else [rows]
        shown += self._waves(rows)
        return jnp.concatenate(shown, axis=1), jnp.concatenate([goals, *self._waves(goals)], axis=1)

    def _waves(self, rows: Float[Array, "row features"]) -> list[Float[Array, "row features"]]:
        angles = [math.pi / 2 * 2**number * rows for number in range(self.waves)]
        return [wave(angle) for angle in angles for wave in (jnp.sin, jnp.cos)]

    def sizes(self, shape: Sequence[int], goal_size: int) -> tuple[int | tuple[int, ...], int]:
        """Of the rows that the networks see."""
        if len(shape) == 3:
            return tuple(shape), goal_size
        return flat_size(shape) * (1 + self.interactions + 2 * self.waves), goal_size * (1 + 2 * self.waves)


class GoalNetwork(eqx.Module):
    """Rectified linear layers over observation and goal; for pictures, convolutions come first."""

    network: Perceptron
    trunk: ImageTrunk | None
    direct: Float[Array, "inputs outputs"] | None
    """Weights straight from the inputs to the outputs, for what is simple; none for pictures."""

    def __init__(
        self,
        observation: int | tuple[int, ...],
        goal_size: int,
        hidden_layers: Sequence[int],
        outputs: int,
        key: Key[Array, ""],
    ):
        trunk_key, network_key = jax.random.split(key)
        self.trunk, self.direct = None, None
        if isinstance(observation, int):
            inputs = observation + goal_size
            self.direct = jnp.zeros((inputs, outputs))
        else:
            inputs, *hidden_layers = hidden_layers
            self.trunk = ImageTrunk(observation, goal_size, inputs, trunk_key, jax.nn.relu)
        network = Perceptron(inputs, hidden_layers, outputs, network_key, he_normal, jax.nn.relu)
        self.network = eqx.tree_at(lambda one: one.weights[-1], network, LAST_LAYER * network.weights[-1])

    def __call__(
        self, observations: Shaped[Array, "_state *features"], goals: Float[Array, "row goal"]
    ) -> Float[Array, "row output"]:
        """A row for each goal; with several for a picture, which come side by side, it is encoded once."""
        if self.trunk is not None:
            encoded = self.trunk.encode(observations)
            if len(encoded) < len(goals):
                encoded = jnp.repeat(encoded, len(goals) // len(encoded), axis=0)
            return self.network(self.trunk.join(encoded, goals))
        rows = jnp.concatenate([observations, goals], axis=1)
        return self.network(rows) if self.direct is None else self.network(rows) + rows @ self.direct


class Actor(eqx.Module):
    """p(a | s, g): a distribution over actions for every pair of observation and goal.

    The mean of continuous actions lies within their bounds: one that ran out of them would not come back, since no
    ratio would be left.
    """

    network: GoalNetwork
    head: Head

    def __init__(
        self,
        observation: int | tuple[int, ...],
        goal_size: int,
        action_count: int,
        hidden_layers: Sequence[int],
        key: Key[Array, ""],
        continuous: bool = False,
        bounds: Bounds | None = None,
        floor: float = 0.0,
    ):
        self.network = GoalNetwork(observation, goal_size, hidden_layers, action_count, key)
        self.head = Categorical(action_count)
        if continuous:
            first = jnp.full(action_count, math.log(max(FIRST_DEVIATION - floor, 0.1)))
            self.head = Normal(first, bounds, bounded_mean=True, smallest_deviation=floor)

    def __call__(
        self, observations: Shaped[Array, "_state *features"], goals: Float[Array, "row goal"]
    ) -> Float[Array, "row output"]:
        """The head's rows: log-probabilities or, for continuous actions, means."""
        return self.head.rows(self.network(observations, goals))

    def explore(
        self, rows: Float[Array, "row output"], uniform: float, key: Key[Array, ""]
    ) -> tuple[Shaped[Array, "row *action"], Float[Array, " row"]]:
        """An action for each row, a share of them drawn uniformly, and log((1 - uniform) p(a) + uniform u(a))."""
        own_key, share_key, uniform_key = jax.random.split(key, 3)
        own = self.head.sample(rows, own_key)
        if uniform > 0:
            wanders = jax.random.bernoulli(share_key, uniform, rows.shape[:1])
            wanders = wanders.reshape(-1, *[1] * (own.ndim - 1))
            own = jnp.where(wanders, self.head.uniform(len(rows), uniform_key), own)
        return own, self.mixed_log_probability(rows, own, uniform)

    def mixed_log_probability(
        self, rows: Float[Array, "row output"], actions: Shaped[Array, "row *action"], uniform: float
    ) -> Float[Array, " row"]:
        """What mu is where a share of the actions is drawn uniformly."""
        if uniform == 0:
            return self.head.log_probability(rows, actions)
        drawn = self.head.uniform_log_probability(actions)
        if uniform == 1:
            return drawn
        own = self.head.log_probability(rows, actions)
        return jnp.logaddexp(own + math.log1p(-uniform), drawn + math.log(uniform))


class Critic(eqx.Module):
    """V_t(s, g), or Q_t(s, a, g) of every action; the time enters with the goal, as a share of the horizon."""

    network: GoalNetwork
    of_actions: bool = eqx.field(static=True)

    def __init__(
        self,
        observation: int | tuple[int, ...],
        goal_size: int,
        hidden_layers: Sequence[int],
        key: Key[Array, ""],
        actions: int | None = None,
    ):
        self.network = GoalNetwork(observation, goal_size + 1, hidden_layers, actions or 1, key)
        self.of_actions = actions is not None

    def __call__(
        self,
        observations: Shaped[Array, "_state *features"],
        goals: Float[Array, "row goal"],
        shares: Float[Array, " row"],
    ) -> Float[Array, "row *action"]:
        values = self.network(observations, jnp.concatenate([goals, shares[:, None]], axis=1))
        return values if self.of_actions else values[:, 0]

    def of_taken(
        self, values: Float[Array, "row *action"], actions: Shaped[Array, "row *component"]
    ) -> Float[Array, " row"]:
        """Of its values, those of the actions that were taken; a state's value is that of any."""
        return jnp.take_along_axis(values, actions[:, None], axis=1)[:, 0] if self.of_actions else values
