"""Episodes: what every environment hands to every learner."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class Episodes(NamedTuple):
    """A batch of whole episodes, padded to the horizon of T states and T - 1 actions.

    There are no rewards inside: a reward belongs to a goal, and the task computes it for any goal.
    """

    observations: Float[Array, "episode state *features"]
    """What the agent saw at each of the T states."""
    achieved_goals: Float[Array, "episode state *goal"]
    """The goal that each state achieves."""
    actions: Int[Array, "episode time"]
    """The T - 1 actions; those at or beyond `lengths` were never taken."""
    pursued_goals: Float[Array, "episode *goal"]
    """The goal that the agent was given."""
    lengths: Int[Array, " episode"]
    """The number of actions taken."""
    log_probabilities: Float[Array, "episode time"]
    """Log-probability of each action, given the pursued goal, when it was taken."""

    @property
    def taken(self) -> Bool[Array, "episode time"]:
        """Which actions were taken: all those before the episode ended."""
        return jnp.arange(self.actions.shape[1])[None] < self.lengths[:, None]
