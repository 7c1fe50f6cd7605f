"""Finding equal rows, so that each distinct state and goal of a batch is worked on once."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Shaped


class Distinct(eqx.Module):
    """The distinct ones among many rows, padded to a fixed number."""

    rows: Shaped[Array, "distinct features"]
    present: Bool[Array, " distinct"]
    index: Int[Array, " row"]
    """Where each original row stands among the distinct ones; meaningless for rows that were not counted."""


def distinct_rows(rows: Shaped[Array, "row features"], counted: Bool[Array, " row"], limit: int) -> Distinct:
    """The distinct rows among those counted, of which there are at most `limit`, in lexical order."""
    order = jnp.lexsort([*jnp.flip(rows, axis=1).T, ~counted])
    ordered = rows[order]
    differs = jnp.any(ordered[1:] != ordered[:-1], axis=1)
    first = jnp.concatenate([jnp.ones(1, bool), differs]) & counted[order]
    rank = jnp.clip(jnp.cumsum(first) - 1, 0, limit - 1)
    representative = jnp.zeros(limit, order.dtype).at[jnp.where(first, rank, limit)].set(order, mode="drop")
    return Distinct(
        rows=rows[representative],
        present=jnp.arange(limit) < jnp.sum(first),
        index=jnp.zeros_like(order).at[order].set(rank),
    )
