"""Running mean and scale of what a network is shown, for inputs of very different size."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

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
        merged = (total, self.mean + gap * share, self.squares + squares + gap**2 * self.count * share)
        return eqx.tree_at(lambda one: (one.count, one.mean, one.squares), self, merged)
