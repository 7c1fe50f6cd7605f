"""Networks with weights large enough to matter, made without compiling their initialisation."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Model = TypeVar("Model")


def random_weights(build: Callable[[jax.Array], Model], seed: int, scale: float = 1.0) -> Model:
    """The model that `build` makes from a key, with normal weights and biases; float64 where that is on."""
    generator = np.random.default_rng(seed)
    shapes = jax.eval_shape(build, jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.asarray(scale * generator.normal(size=leaf.shape), leaf.dtype), shapes)
