"""Where the goals of a Gymnasium environment lie: it draws them, but does not say with what probability."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hindsight_rl.environments.simulators import Simulator

DRAWN = 100
"""Goals that are drawn to find out."""
MARGIN = 0.05
"""How much wider the box is than the drawn goals, in shares of its longest side: the next ones lie a little outside,
and a goal that is always at the same height is achieved at nearly that height."""


@dataclass(frozen=True)
class GoalBox:
    """One within the box, zero outside: a density relative to uniform."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __call__(self, goal: Float[Array, "*goal"]) -> Float[Array, ""]:
        flat = goal.ravel()
        inside = (flat >= jnp.asarray(self.low, flat.dtype)) & (flat <= jnp.asarray(self.high, flat.dtype))
        return jnp.all(inside).astype(jnp.float32)


def find_goal_box(simulator: Simulator) -> GoalBox:
    """The box around goals that the environment drew for as many episodes."""
    drawn = []
    for seed in range(DRAWN):
        simulator.reset(seed)
        drawn.append(np.ravel(simulator.sample_goal(seed)))
    low, high = np.min(drawn, axis=0), np.max(drawn, axis=0)
    margin = MARGIN * float(np.max(high - low))
    return GoalBox(tuple((low - margin).tolist()), tuple((high + margin).tolist()))
