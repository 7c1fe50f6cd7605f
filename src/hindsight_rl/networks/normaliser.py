"""Running mean and scale of what a network is shown, for inputs of very different size."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Kind = TypeVar("Kind", "Normaliser", "Scaler")

SMALLEST_DEVIATION = 1e-2
"""A component that hardly varies is not blown up."""
LARGEST_INPUT = 5.0


class Normaliser(eqx.Module):
    """Mean and variance of all rows seen so far (Chan's parallel update), and the inputs they give."""

    count: Float[Array, ""]
    mean: Float[Array, " features"]
    squares: Float[Array, " features"]
    """Sum of squared deviations from the mean."""

    def __init__(self, size: int):
        self.count = jnp.zeros(())
        self.mean = jnp.zeros(size)
        self.squares = jnp.zeros(size)

    def __call__(self, rows: Float[Array, "row features"]) -> Float[Array, "row features"]:
        """The rows with mean 0 and deviation 1, cut at 5; as they are while nothing has been seen."""
        # Statistics are no parameters: no gradient reaches them.
        count, mean, squares = jax.lax.stop_gradient((self.count, self.mean, self.squares))
        deviation = jnp.maximum(jnp.sqrt(squares / jnp.maximum(count, 1)), SMALLEST_DEVIATION)
        scaled = jnp.clip((rows - mean[None]) / deviation[None], -LARGEST_INPUT, LARGEST_INPUT)
        return jnp.where(count > 0, scaled, rows)

    def seen(self, rows: Float[Array, "row features"], counted: Bool[Array, " row"]) -> "Normaliser":
        """The statistics with more rows, of which only some count."""
        weight = counted.astype(rows.dtype)[:, None]
        new = jnp.sum(weight)
        mean = jnp.sum(weight * rows, axis=0) / jnp.maximum(new, 1)
        squares = jnp.sum(weight * (rows - mean[None]) ** 2, axis=0)
        total = self.count + new
        gap = mean - self.mean
        share = new / jnp.maximum(total, 1)
        return _with(self, total, self.mean + gap * share, self.squares + squares + gap**2 * self.count * share)


class Scaler(eqx.Module):
    """A normaliser that shows a component with only two values as -1 and 1, however often it had each.

    Bits that are mostly 0 at first would otherwise look large where they are 1, and their products with goals lopsided.
    """

    count: Float[Array, ""]
    mean: Float[Array, " features"]
    squares: Float[Array, " features"]
    low: Float[Array, " features"]
    high: Float[Array, " features"]
    two: Bool[Array, " features"]
    """Whether each value so far was the lowest or the highest."""

    def __init__(self, size: int):
        usual = Normaliser(size)
        self.count, self.mean, self.squares = usual.count, usual.mean, usual.squares
        self.low, self.high = jnp.full(size, jnp.inf), jnp.full(size, -jnp.inf)
        self.two = jnp.ones(size, bool)

    @property
    def normaliser(self) -> Normaliser:
        """What all other components are shown by."""
        return _with(Normaliser(self.mean.shape[0]), self.count, self.mean, self.squares)

    def __call__(self, rows: Float[Array, "row features"]) -> Float[Array, "row features"]:
        """The rows as networks are shown them."""
        low, high = jax.lax.stop_gradient((self.low, self.high))
        switches = self.two & (low < high)
        half = jnp.where(switches, (high - low) / 2, 1)
        switched = (rows - jnp.where(switches, low, 0)[None]) / half[None] - 1
        return jnp.where(switches[None], switched, self.normaliser(rows))

    def seen(self, rows: Float[Array, "row features"], counted: Bool[Array, " row"]) -> "Scaler":
        """The same with more rows, of which only some count."""
        given = counted[:, None]
        low = jnp.minimum(self.low, jnp.min(jnp.where(given, rows, jnp.inf), axis=0))
        high = jnp.maximum(self.high, jnp.max(jnp.where(given, rows, -jnp.inf), axis=0))
        values = jnp.concatenate([rows, self.low[None], self.high[None]])
        # The ends of before are values too, unless there were none.
        known = jnp.concatenate([jnp.broadcast_to(given, rows.shape), jnp.isfinite(jnp.stack([self.low, self.high]))])
        either = (values == low[None]) | (values == high[None])
        two = self.two & jnp.all(either | ~known, axis=0)
        usual = self.normaliser.seen(rows, counted)
        newer = _with(self, usual.count, usual.mean, usual.squares)
        return eqx.tree_at(lambda one: (one.low, one.high, one.two), newer, (low, high, two))


def _with(one: Kind, *statistics: Array) -> Kind:
    """The same with other statistics: count, mean and squares."""
    return eqx.tree_at(lambda one: (one.count, one.mean, one.squares), one, statistics)
