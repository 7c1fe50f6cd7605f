"""Fully connected networks with the paper's initial weights."""

import itertools
import math
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

Initialiser = Callable[[Key[Array, ""], tuple[int, int]], Float[Array, "inputs outputs"]]
Activation = Callable[[Float[Array, "..."]], Float[Array, "..."]]


def narrow_normal(key: Key[Array, ""], shape: tuple[int, int]) -> Float[Array, "inputs outputs"]:
    """Normal with standard deviation 0.01, redrawn beyond two of them: bits and grids."""
    return 0.01 * jax.random.truncated_normal(key, -2.0, 2.0, shape)


def scaled_uniform(key: Key[Array, ""], shape: tuple[int, int]) -> Float[Array, "inputs outputs"]:
    """Uniform with variance 2 / (inputs + outputs), after Glorot and Bengio: signals keep their size either way."""
    bound = math.sqrt(6 / sum(shape))
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


class Perceptron(eqx.Module):
    """Hidden layers, tanh units unless told otherwise, and a linear output; works on a batch of rows at once."""

    weights: list[Float[Array, "_inputs _outputs"]]
    biases: list[Float[Array, " _outputs"]]
    activation: Activation = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        hidden_layers: Sequence[int],
        outputs: int,
        key: Key[Array, ""],
        initialise: Initialiser = narrow_normal,
        activation: Activation = jnp.tanh,
    ):
        widths = [inputs, *hidden_layers, outputs]
        keys = jax.random.split(key, len(widths) - 1)
        shapes = itertools.pairwise(widths)
        self.weights = [initialise(layer_key, shape) for layer_key, shape in zip(keys, shapes, strict=True)]
        self.biases = [jnp.zeros(width) for width in widths[1:]]
        self.activation = activation

    def __call__(self, rows: Float[Array, "row inputs"]) -> Float[Array, "row outputs"]:
        *hidden, last = zip(self.weights, self.biases, strict=True)
        for weight, bias in hidden:
            rows = self.activation(rows @ weight + bias[None])
        weight, bias = last
        return rows @ weight + bias[None]


def flat_size(shape: Sequence[int]) -> int:
    """The number of inputs that an array of this shape makes."""
    return math.prod(shape)
