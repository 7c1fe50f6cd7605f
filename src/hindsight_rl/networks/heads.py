"""Distributions over actions: what a policy's last layer means, for actions out of a few and for vectors.

A head turns the network's outputs into rows, one for each distribution, and does everything else from these rows.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

PROBABILITY_FLOOR = 1e-12
"""Added to every probability, as in the published experiments, so that no likelihood ratio is undefined."""
FIRST_DEVIATION = 0.6
"""Standard deviation of a fresh policy's continuous actions, where the bounds lie at -1 and 1."""

Bounds = tuple[tuple[float, ...], tuple[float, ...]]
Actions = Int[Array, "*batch"] | Float[Array, "*batch action"]


class Categorical(eqx.Module):
    """One of a few actions; a row has the logarithm of each one's probability, log(softmax + 1e-12)."""

    size: int = eqx.field(static=True)
    """The numbers in a row."""

    @property
    def kinds(self) -> int:
        """Actions that can be told apart in a state: samples of one kind there share their log-probability."""
        return self.size

    def rows(self, outputs: Float[Array, "*batch action"]) -> Float[Array, "*batch action"]:
        """Log-probabilities, in log space: a tiny probability does not round to zero."""
        return jnp.logaddexp(jax.nn.log_softmax(outputs), math.log(PROBABILITY_FLOOR))

    def log_probability(
        self, rows: Float[Array, "*batch action"], actions: Int[Array, "*batch"]
    ) -> Float[Array, "*batch"]:
        """The logarithm of each action's probability under the distribution beside it."""
        return jnp.take_along_axis(rows, actions[..., None], axis=-1)[..., 0]

    def look_up(
        self, table: Float[Array, "row action"], numbers: Int[Array, "decision goal"], actions: Int[Array, " decision"]
    ) -> Float[Array, "decision goal"]:
        """Log-probabilities under the rows with these numbers; no row is copied for one of its entries."""
        return table.ravel()[numbers * self.size + actions[:, None]]

    def kind(self, actions: Int[Array, " decision"]) -> Int[Array, " decision"]:
        """The kind of each action: the action itself."""
        return actions

    def of_kinds(self, rows: Float[Array, "row action"], actions: Int[Array, " row"]) -> Float[Array, "row action"]:
        """The log-probability of every kind of action; where no action is taken twice, of the one that was taken."""
        return rows

    def sample(self, rows: Float[Array, "row action"], key: Key[Array, ""]) -> Int[Array, " row"]:
        """By Gumbel's trick: the largest of log-probability plus noise."""
        return jnp.argmax(rows + jax.random.gumbel(key, rows.shape), axis=1)

    def mode(self, rows: Float[Array, "row action"]) -> Int[Array, " row"]:
        """The first of the most probable actions."""
        return jnp.argmax(rows, axis=1)

    def entropy(self, rows: Float[Array, "row action"]) -> Float[Array, " row"]:
        """-sum p log p."""
        return -jnp.sum(jnp.exp(rows) * rows, axis=-1)

    def divergence(
        self, old: Any, old_rows: Float[Array, "row action"], rows: Float[Array, "row action"]
    ) -> Float[Array, " row"]:
        """KL(old || this) of each row; `old` is a head of the same kind."""
        return jnp.sum(jnp.exp(old_rows) * (old_rows - rows), axis=-1)

    def uniform(self, count: int, key: Key[Array, ""]) -> Int[Array, " row"]:
        """So many actions, all as likely."""
        return jax.random.randint(key, (count,), 0, self.size)

    def uniform_log_probability(self, actions: Int[Array, " row"]) -> Float[Array, " row"]:
        """Of actions drawn so."""
        return jnp.full(actions.shape, -math.log(self.size))


class Normal(eqx.Module):
    """Vectors with independent normal components; a row has their means, in the environment's own units.

    The network's outputs and the deviation have units in which the bounds of a component lie at -1 and 1. A component
    that is not bounded on both sides is not scaled.
    """

    log_deviation: Float[Array, " action"]
    bounds: Bounds | None = eqx.field(static=True, default=None)
    """The lowest and the highest value of each component."""
    bounded_mean: bool = eqx.field(static=True, default=False)
    """Means pass through tanh, so that they never lie beyond the bounds."""
    smallest_deviation: float = eqx.field(static=True, default=0.0)
    """Added to the deviation, so that exploration never ends."""

    @property
    def size(self) -> int:
        """The components."""
        return self.log_deviation.shape[0]

    @property
    def kinds(self) -> int:
        """No action is taken twice."""
        return 1

    def rows(self, outputs: Float[Array, "*batch action"]) -> Float[Array, "*batch action"]:
        """Means."""
        middle, unit = self._units(outputs.ndim)
        if self.bounded_mean:
            bounded = self._bounded.reshape((1,) * (outputs.ndim - 1) + self._bounded.shape)
            outputs = jnp.where(bounded, jnp.tanh(outputs), outputs)
        return middle + unit * outputs

    def log_probability(
        self, rows: Float[Array, "*#batch action"], actions: Float[Array, "*#batch action"]
    ) -> Float[Array, "*#batch"]:
        """The logarithm of the density."""
        _, unit = self._units(actions.ndim)
        deviation = self._log_deviation.reshape(unit.shape) + jnp.log(unit)
        scores = (actions - rows) * jnp.exp(-deviation)
        return jnp.sum(-0.5 * scores**2 - deviation - 0.5 * math.log(2 * math.pi), axis=-1)

    def look_up(
        self,
        table: Float[Array, "row action"],
        numbers: Int[Array, "decision goal"],
        actions: Float[Array, "decision action"],
    ) -> Float[Array, "decision goal"]:
        """Densities of one action under many means."""
        return self.log_probability(table[numbers], actions[:, None])

    def kind(self, actions: Float[Array, "decision action"]) -> Int[Array, " decision"]:
        """The only one."""
        return jnp.zeros(actions.shape[0], jnp.int32)

    def of_kinds(self, rows: Float[Array, "row action"], actions: Float[Array, "row action"]) -> Float[Array, "row 1"]:
        """The density of the action taken."""
        return self.log_probability(rows, actions)[:, None]

    def sample(self, rows: Float[Array, "row action"], key: Key[Array, ""]) -> Float[Array, "row action"]:
        """Mean plus noise, which may lie beyond the bounds."""
        _, unit = self._units(2)
        return rows + unit * jnp.exp(self._log_deviation)[None] * jax.random.normal(key, rows.shape)

    def mode(self, rows: Float[Array, "row action"]) -> Float[Array, "row action"]:
        """The mean, within the bounds."""
        if self.bounds is None:
            return rows
        low, high = (jnp.asarray(bound, rows.dtype)[None] for bound in self.bounds)
        return jnp.clip(rows, low, high)

    def entropy(self, rows: Float[Array, "row action"]) -> Float[Array, " row"]:
        """The same for every mean: sum of log(deviation) + log(2 pi e) / 2."""
        _, unit = self._units(1)
        one = jnp.sum(self._log_deviation + jnp.log(unit) + 0.5 * math.log(2 * math.pi * math.e))
        return jnp.broadcast_to(one, rows.shape[:-1])

    def divergence(
        self, old: Any, old_rows: Float[Array, "row action"], rows: Float[Array, "row action"]
    ) -> Float[Array, " row"]:
        """KL(old || this) of each row; `old` is a head of the same kind."""
        _, unit = self._units(rows.ndim)
        was, now = (head._log_deviation.reshape(unit.shape) for head in (old, self))
        squares = jnp.exp(2 * (was - now)) + ((old_rows - rows) / unit * jnp.exp(-now)) ** 2
        return jnp.sum(now - was + 0.5 * squares - 0.5, axis=-1)

    def uniform(self, count: int, key: Key[Array, ""]) -> Float[Array, "row action"]:
        """So many actions drawn uniformly within the bounds."""
        middle, unit = self._units(2)
        return middle + unit * jax.random.uniform(key, (count, self.size), minval=-1.0, maxval=1.0)

    def uniform_log_probability(self, actions: Float[Array, "row action"]) -> Float[Array, " row"]:
        """Of actions drawn so; minus infinity beyond the bounds."""
        middle, unit = self._units(2)
        inside = jnp.all(jnp.abs(actions - middle) <= unit, axis=1)
        return jnp.where(inside, -jnp.sum(jnp.log(2 * unit)), -jnp.inf)

    @property
    def _bounded(self) -> np.ndarray:
        """The components with bounds on both sides."""
        if self.bounds is None:
            return np.zeros(self.size, bool)
        low, high = (np.asarray(bound, np.float64) for bound in self.bounds)
        return np.isfinite(low) & np.isfinite(high) & (low < high)

    @property
    def _log_deviation(self) -> Float[Array, " action"]:
        if self.smallest_deviation == 0:
            return self.log_deviation
        return jnp.logaddexp(self.log_deviation, math.log(self.smallest_deviation))

    def _units(self, axes: int) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """The action that an output of zero stands for, and how much an output of one adds; with so many axes."""
        middle, unit = jnp.zeros_like(self.log_deviation), jnp.ones_like(self.log_deviation)
        if self.bounds is not None:
            low, high = (
                np.where(self._bounded, bound, end) for bound, end in zip(self.bounds, (-1.0, 1.0), strict=True)
            )
            middle, unit = ((jnp.asarray(each, middle.dtype)) for each in ((low + high) / 2, (high - low) / 2))
        shape = (1,) * (axes - 1) + middle.shape
        return middle.reshape(shape), unit.reshape(shape)


Head = Categorical | Normal
