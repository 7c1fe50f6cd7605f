"""A Gymnasium goal environment as a learner sees it: `gymnasium_task("FetchReach-v4")`."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hindsight.core.errors import HindsightError
from hindsight.environments.gymnasium_goal import GymnasiumGoal, Wanted
from hindsight.environments.gymnasium_rewards import Rewards
from hindsight.environments.simulators import SimulatorSource
from hindsight.environments.task import HostedTask


@dataclass(frozen=True, eq=False)
class GymnasiumTask(HostedTask):
    """What was found out about an environment.

    Rewards are NumPy code of somebody else. `rewards` computes them directly for many pairs; `reached` and `reward`
    can be traced like those of any task, as they call back from the compiled program.
    """

    name: str
    horizon: int
    observation_shape: tuple[int, ...]
    observation_type: str
    goal_shape: tuple[int, ...]
    action_count: int | None
    action_size: int | None
    action_low: tuple[float, ...] | None
    action_high: tuple[float, ...] | None
    """The bounds of continuous actions."""
    rewards: Rewards
    wanted: Wanted
    options: Mapping[str, Any]
    goal_count: None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences that a user should see before learning starts."""
        return self.rewards.notices

    def source(self, pictures: bool = False) -> SimulatorSource:
        if self.wanted is None:
            raise HindsightError(
                f"The environment '{self.name}' cannot be made again for parallel play: "
                "pass its registered name or a function that makes it, not the environment itself."
            )
        options = {"environment": self.wanted, "options": dict(self.options), "pictures": pictures}
        return SimulatorSource(GymnasiumGoal.__module__, "GymnasiumGoal", options)

    def goal_probability(self, goal: Float[Array, "*goal"]) -> Float[Array, ""]:
        """One for every goal: nothing is known of how the environment draws them."""
        return jnp.float32(1)

    def reached(self, achieved: Float[Array, "*goal"], goal: Float[Array, "*goal"]) -> Bool[Array, ""]:
        result = jax.ShapeDtypeStruct((), jnp.bool_)
        return jax.pure_callback(self.rewards.reached, result, achieved, goal, vmap_method="expand_dims")

    def reward(
        self, achieved: Float[Array, "*goal"], goal: Float[Array, "*goal"], time: Int[Array, ""]
    ) -> Float[Array, ""]:
        result = jax.ShapeDtypeStruct((), jnp.float32)
        return jax.pure_callback(self.rewards.rewards, result, achieved, goal, time, vmap_method="expand_dims")


def gymnasium_task(
    environment: Wanted, horizon: int | None = None, options: Mapping[str, Any] | None = None
) -> GymnasiumTask:
    """Find out what a learner needs to know.

    `horizon` counts states; unless given, it is one more than the environment's own limit of steps.
    """
    simulator = GymnasiumGoal(environment, options)
    if horizon is None:
        if simulator.step_limit is None:
            raise HindsightError(f"The environment '{simulator.name}' sets no limit of steps: give a horizon.")
        horizon = simulator.step_limit + 1
    if horizon < 2:
        raise HindsightError(f"The horizon must be at least 2 time steps, not {horizon}.")
    actions = simulator.actions
    return GymnasiumTask(
        name=simulator.name,
        horizon=horizon,
        observation_shape=simulator.observations.shape,
        observation_type=simulator.observations.type,
        goal_shape=simulator.goals.shape,
        action_count=actions.count,
        action_size=actions.size,
        action_low=actions.low,
        action_high=actions.high,
        rewards=Rewards(simulator),
        wanted=_repeatable(environment),
        options=MappingProxyType(dict(options or {})),
    )


def _repeatable(environment: Wanted) -> Wanted | None:
    """What an environment can be made from again: Gymnasium remembers how it made it."""
    is_made = hasattr(environment, "observation_space")
    return environment.spec if is_made else environment
