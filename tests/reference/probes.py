"""Probe problems: environments so small that every action value is known."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hindsight_rl.environments.interface import Environment

Position = Float[Array, "1"]


class ConstantReward(Environment):
    """One state, one action, a reward of 1 for each, and a goal that is never reached: only the horizon ends it."""

    horizon: int
    action_count: int = 1

    @property
    def goal_count(self) -> int:
        return 1

    @property
    def state_limit(self) -> int | None:
        return 1

    def reset(self, key: Key[Array, ""]) -> Position:
        return jnp.zeros(1)

    def step(self, state: Position, action: Int[Array, ""], key: Key[Array, ""]) -> Position:
        return state

    def observe(self, state: Position) -> Position:
        return state

    def achieved_goal(self, state: Position) -> Position:
        return state

    def sample_goal(self, key: Key[Array, ""]) -> Position:
        return jnp.ones(1)

    def goal_probability(self, goal: Position) -> Float[Array, ""]:
        return jnp.float32(goal[0] == 1)

    def reached(self, achieved: Position, goal: Position) -> Bool[Array, ""]:
        return jnp.bool_(False)

    def reward(self, achieved: Position, goal: Position, time: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.float32(1)

    def render(self, state: Position, goal: Position) -> str:
        return "."


class Corridor(Environment):
    """Cells in a row, with walls at both ends; reaching the goal is worth 1.

    With the single move +1 and the far end as the goal it is a chain on which nothing can go wrong.
    """

    cells: int
    start: int
    goals: tuple[int, ...]
    moves: tuple[int, ...]
    horizon: int

    @property  # type: ignore[misc]
    def action_count(self) -> int:  # type: ignore[override]
        return len(self.moves)

    @property
    def goal_count(self) -> int:
        return len(self.goals)

    @property
    def state_limit(self) -> int | None:
        return self.cells

    def reset(self, key: Key[Array, ""]) -> Position:
        return jnp.full(1, float(self.start))

    def step(self, state: Position, action: Int[Array, ""], key: Key[Array, ""]) -> Position:
        return jnp.clip(state + jnp.array(self.moves, jnp.float32)[action], 0.0, self.cells - 1.0)

    def observe(self, state: Position) -> Position:
        return state

    def achieved_goal(self, state: Position) -> Position:
        return state

    def sample_goal(self, key: Key[Array, ""]) -> Position:
        return jax.random.choice(key, jnp.array(self.goals, jnp.float32)).reshape(1)

    def goal_probability(self, goal: Position) -> Float[Array, ""]:
        return jnp.where(jnp.any(jnp.array(self.goals) == goal), 1 / len(self.goals), 0.0)

    def reached(self, achieved: Position, goal: Position) -> Bool[Array, ""]:
        return achieved[0] == goal[0]

    def reward(self, achieved: Position, goal: Position, time: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.float32(self.reached(achieved, goal))

    def render(self, state: Position, goal: Position) -> str:
        return "".join("A" if cell == state[0] else "G" if cell == goal[0] else "." for cell in range(self.cells))

    def action_values(self, cell: int, goal: int, time: int, discount: float) -> list[float]:
        """Q_t(cell, goal, a) for each action, by looking ahead to the horizon."""
        values = []
        for move in self.moves:
            following = min(max(cell + move, 0), self.cells - 1)
            if following == goal:
                values.append(1.0)
            elif time + 1 == self.horizon - 1:
                values.append(0.0)
            else:
                values.append(discount * max(self.action_values(following, goal, time + 1, discount)))
        return values
