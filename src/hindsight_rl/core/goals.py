"""Goal sets of a fixed size, so that shapes stay static under compilation."""

from typing import NamedTuple

from jaxtyping import Array, Bool, Float


class GoalSet(NamedTuple):
    """Goals with their probability; the rows outside `present` are padding."""

    goals: Float[Array, "goal *features"]
    probabilities: Float[Array, " goal"]
    """p(g), zero for padding."""
    present: Bool[Array, " goal"]
