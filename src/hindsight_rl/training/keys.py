"""Where the randomness of a run comes from: its seed, and then the number of the batch."""

from typing import NamedTuple

import jax
from jaxtyping import Array, Int, Key


class Keys(NamedTuple):
    """One key for each use."""

    init: Key[Array, ""]
    training: Key[Array, ""]
    evaluation: Key[Array, ""]


def keys_of(seed: Int[Array, ""]) -> Keys:
    """The keys of a run."""
    return Keys(*jax.random.split(key_of(seed), 3))


def key_of(seed: int | Int[Array, ""]) -> Key[Array, ""]:
    """A key of one kind, whatever JAX is told to use: the same seed must give the same numbers."""
    return jax.random.key(seed, impl="threefry2x32")
