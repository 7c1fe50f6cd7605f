"""A compiled environment with continuous actions: a point in the plane, in any of several forms of state and reward."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hindsight_rl.environments.interface import Bounds, Environment

Place = Float[Array, "2"]


class Drift(Environment):
    """A point is moved by at most 1 along each axis, with some wind; a goal is reached within a distance of 0.5."""

    horizon: int = 6
    reward_form: Literal["price", "distance"] = "price"
    """price: -1 until the goal is reached. distance: minus the distance."""
    wind: float = 0.01
    action_count: int = 2
    goal_count: int = 1
    state_limit: None = None

    @property
    def continuous(self) -> bool:
        return True

    @property
    def action_bounds(self) -> Bounds:
        return (-1.0, -1.0), (1.0, 1.0)

    def reset(self, key: Key[Array, ""]) -> dict[str, Any]:
        return {"place": jax.random.uniform(key, (2,), minval=-1.0), "steps": jnp.int32(0)}

    def step(self, state: dict[str, Any], action: Place, key: Key[Array, ""]) -> dict[str, Any]:
        moved = state["place"] + jnp.clip(action, -1.0, 1.0) + self.wind * jax.random.normal(key, (2,))
        return {"place": moved, "steps": state["steps"] + 1}

    def observe(self, state: dict[str, Any]) -> Float[Array, "3"]:
        return jnp.append(state["place"], state["steps"].astype(jnp.float32))

    def achieved_goal(self, state: dict[str, Any]) -> Place:
        return state["place"]

    def sample_goal(self, key: Key[Array, ""]) -> Place:
        return jax.random.uniform(key, (2,), minval=-3.0, maxval=3.0)

    def goal_probability(self, goal: Place) -> Float[Array, ""]:
        return jnp.all(jnp.abs(goal) <= 3).astype(jnp.float32)

    def reached(self, achieved: Place, goal: Place) -> Bool[Array, ""]:
        return jnp.linalg.norm(achieved - goal) < 0.5

    def reward(self, achieved: Place, goal: Place, time: Int[Array, ""]) -> Float[Array, ""]:
        if self.reward_form == "distance":
            return -jnp.linalg.norm(achieved - goal)
        return jnp.where(self.reached(achieved, goal), 0.0, -1.0)

    def render(self, state: dict[str, Any], goal: Place) -> str:
        return "({:.1f}, {:.1f}) to ({:.1f}, {:.1f})".format(*state["place"].tolist(), *goal.tolist())
