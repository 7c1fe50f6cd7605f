"""Network evaluations and gradients for many (row, goal) pairs, of which only those wanted cost anything.

The wanted pairs are worked off in tiles of a fixed size, in a loop whose length is known only at run time: shapes stay
static, and the work follows the data.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Tree = TypeVar("Tree")


class Pairs(NamedTuple):
    """The wanted cells of a (row, goal) table, numbered in order."""

    numbers: Int[Array, "row goal"]
    """The number of each wanted cell, from 0; meaningless for the others."""
    running: Int[Array, " cell"]
    """How many wanted cells there are up to and including each one."""
    tile: int

    @property
    def tiles(self) -> Int[Array, ""]:
        """How many tiles the wanted pairs fill."""
        return (self.running[-1] + self.tile - 1) // self.tile

    def members(self, tile: Int[Array, ""]) -> tuple[Int[Array, " pair"], Int[Array, " pair"], Bool[Array, " pair"]]:
        """Rows and goals of the pairs in one tile, and which of them are not padding."""
        wanted_before = tile * self.tile + jnp.arange(self.tile)
        cells = jnp.searchsorted(self.running, wanted_before, side="right", method="scan_unrolled")
        real = wanted_before < self.running[-1]
        goals = self.numbers.shape[1]
        cells = jnp.where(real, cells, 0)
        return cells // goals, cells % goals, real


def select(wanted: Bool[Array, "row goal"]) -> Pairs:
    """Number the wanted pairs."""
    running = jnp.cumsum(wanted.ravel().astype(jnp.int32))
    return Pairs((running - 1).reshape(wanted.shape), running, tile_size(wanted.size))


def significant(numbers: Float[Array, "..."]) -> Bool[Array, "..."]:
    """Where a number matters in a sum of all: the others, even together, are within the rounding of the largest.

    Once a policy heeds its goals, most likelihood ratios are negligible. What is not finite is always significant, so
    that something broken is noticed.
    """
    sizes = jnp.abs(numbers)
    rounding = jnp.max(sizes) * (jnp.finfo(numbers.dtype).eps / numbers.size)
    return ~((sizes < rounding) | (sizes == 0))


def tile_size(pairs: int) -> int:
    """Large tiles multiply faster; small problems would only fill them with padding."""
    return 512 if pairs > 4096 else 128 if pairs > 256 else 64


def evaluate(
    function: Callable[[Int[Array, " pair"], Int[Array, " pair"]], Float[Array, "pair output"]],
    pairs: Pairs,
    outputs: int,
) -> Float[Array, "number output"]:
    """The function's output for each wanted pair, by its number."""
    capacity = -(-pairs.numbers.size // pairs.tile) * pairs.tile

    def work(tile: Int[Array, ""], results: Float[Array, "number output"]) -> Float[Array, "number output"]:
        rows, goals, _ = pairs.members(tile)
        return jax.lax.dynamic_update_slice_in_dim(results, function(rows, goals), tile * pairs.tile, axis=0)

    return jax.lax.fori_loop(0, pairs.tiles, work, jnp.zeros((capacity, outputs)))


def accumulate(
    function: Callable[[Int[Array, " pair"], Int[Array, " pair"], Bool[Array, " pair"]], Tree],
    pairs: Pairs,
    zero: Tree,
) -> Tree:
    """The sum of the function's value over all tiles of wanted pairs."""

    def work(tile: Int[Array, ""], total: Tree) -> Tree:
        return jax.tree.map(jnp.add, total, function(*pairs.members(tile)))

    return jax.lax.fori_loop(0, pairs.tiles, work, zero)
