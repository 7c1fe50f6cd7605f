"""The layers that policies and values share: from observation, goal and perhaps time to a network's outputs.

What depends on the observation alone is worked out first, so that it is computed once for all goals.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, Shaped

from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.networks.images import ImageTrunk
from hindsight_rl.networks.normaliser import Normaliser
from hindsight_rl.networks.perceptron import Activation, Initialiser, Perceptron, flat_size, narrow_normal

OneInput = Shaped[Array, "..."] | Sequence[Any]
"""A single observation or goal of any shape, as an array or as plain numbers."""
Normalisers = tuple[Normaliser, Normaliser]
"""Of observations and of goals."""


class Layers(NamedTuple):
    """The parts of a network."""

    network: Perceptron
    trunk: ImageTrunk | None
    """Convolutions, for pictures."""
    normalisers: Normalisers | None


class Layered(Protocol):
    """Anything with these parts."""

    network: Perceptron
    trunk: ImageTrunk | None
    normalisers: Normalisers | None


Model = TypeVar("Model", bound=Layered)


def make_layers(
    observation: int | Sequence[int],
    goal_size: int,
    outputs: int,
    hidden_layers: Sequence[int],
    key: Key[Array, ""],
    timed: bool = False,
    initialise: Initialiser = narrow_normal,
    activation: Activation = jnp.tanh,
    normalise: bool = False,
) -> Layers:
    """Fresh layers; `observation` is the size of a vector, or the shape of a picture: height, width, depth.

    For pictures, convolutions come first, and goal and time join them in the first hidden layer.
    """
    shape = (observation,) if isinstance(observation, int) else tuple(observation)
    asked = goal_size + timed
    if len(shape) != 3:
        normalisers = (Normaliser(flat_size(shape)), Normaliser(goal_size)) if normalise else None
        network = Perceptron(flat_size(shape) + asked, hidden_layers, outputs, key, initialise, activation)
        return Layers(network, None, normalisers)
    if not hidden_layers:
        raise HindsightError("A network for pictures needs a hidden layer, in which the goal joins them.")
    trunk_key, key = jax.random.split(key)
    first, *hidden_layers = hidden_layers
    trunk = ImageTrunk(shape, asked, first, trunk_key, activation)
    return Layers(Perceptron(first, hidden_layers, outputs, key, initialise, activation), trunk, None)


def encode(
    layers: Layered, observations: Shaped[Array, "row *features"], wanted: Bool[Array, " row"] | None = None
) -> Float[Array, "row encoded"]:
    """All that depends on the observation alone; pictures that are not wanted are left out."""
    if layers.trunk is not None:
        return layers.trunk.encode(observations, wanted)
    rows = observations.reshape(observations.shape[0], -1)
    if not jnp.issubdtype(rows.dtype, jnp.floating):
        rows = rows.astype(jnp.float32)
    return rows if layers.normalisers is None else layers.normalisers[0](rows)


def outputs_of(
    layers: Layered,
    encoded: Float[Array, "row encoded"],
    goals: Shaped[Array, "row goal"],
    times: Shaped[Array, " row"] | None = None,
) -> Float[Array, "row output"]:
    """The outputs for pairs of an encoded observation and a goal, and a time where the network was made for one."""
    asked = [goals if layers.normalisers is None else layers.normalisers[1](goals)]
    if times is not None:
        asked.append(times[:, None])
    if layers.trunk is None:
        return layers.network(jnp.concatenate([encoded, *asked], axis=1))
    return layers.network(layers.trunk.join(encoded, jnp.concatenate(asked, axis=1)))


def with_statistics(model: Model, episodes: Episodes) -> Model:
    """The model with a batch in its normalisers' statistics, where it has any."""
    if model.normalisers is None:
        return model
    observations, goals = model.normalisers
    before = episodes.observations[:, :-1].reshape(episodes.taken.size, -1)
    after = episodes.achieved_goals[:, 1:].reshape(episodes.taken.size, -1)
    counted = episodes.taken.ravel()
    newer = (observations.seen(before, counted), goals.seen(after, counted))
    return eqx.tree_at(lambda one: one.normalisers, model, newer)
