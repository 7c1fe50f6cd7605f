"""A goal environment of your own, compiled, in a few lines: roll a ball along a hilly ring to a given spot.

Run it with `.venv/bin/python examples/custom_environment.py`.
"""

import jax
import jax.numpy as jnp

import hindsight_rl
from hindsight_rl.environments.interface import remaining_time_reward

SPOTS = 24


class Ring(hindsight_rl.Environment):
    """Push left, wait, or push right; on every third spot the ball rolls one further to the right by itself."""

    horizon: int = 16
    action_count: int = 3
    goal_count: int = SPOTS - 1
    state_limit: int | None = SPOTS

    def reset(self, key):
        return jnp.int32(0)

    def step(self, state, action, key):
        rolls = (state % 3 == 0) & jax.random.bernoulli(key, 0.5)
        return (state + action - 1 + rolls) % SPOTS

    def observe(self, state):
        angle = 2 * jnp.pi * state / SPOTS
        return jnp.stack([jnp.cos(angle), jnp.sin(angle)])

    def achieved_goal(self, state):
        return jnp.float32(state)[None]

    def sample_goal(self, key):
        return jnp.float32(jax.random.randint(key, (1,), 1, SPOTS))

    def goal_probability(self, goal):
        return jnp.where(goal[0] > 0, 1 / self.goal_count, 0.0)

    def reached(self, achieved, goal):
        return achieved[0] == goal[0]

    def reward(self, achieved, goal, time):
        return remaining_time_reward(self.reached(achieved, goal), time, self.horizon)

    def render(self, state, goal):
        return "".join(
            "*" if s == state == goal[0] else "A" if s == state else "G" if s == goal[0] else "." for s in range(SPOTS)
        )


if __name__ == "__main__":
    for method in ("hpg", "gcpg"):
        result = hindsight_rl.train(Ring(), method=method, batch_size=4, batches=300, runs=4)
        curve = result.evaluations.mean_returns.mean(axis=0)
        print(f"{method:5s} return {curve[0]:.2f} before, {curve[-1]:.2f} after, {curve.mean():.2f} on average")
