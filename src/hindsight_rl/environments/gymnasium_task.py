"""A Gymnasium goal environment as a learner sees it: `gymnasium_task("FetchReach-v4")`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hindsight_rl.core.errors import HindsightError, unknown
from hindsight_rl.environments.goal_box import find_goal_box
from hindsight_rl.environments.gymnasium_goal import GymnasiumGoal, Wanted, find_recipe
from hindsight_rl.environments.gymnasium_rewards import Rewards
from hindsight_rl.environments.simulators import SimulatorSource
from hindsight_rl.environments.task import HostedTask

Probability = Callable[[Float[Array, "*goal"]], Float[Array, ""]]


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
    probability: Probability | None
    """Of each goal, relative to uniform; None if nothing is known."""
    portable: bool
    """Whether other processes can make it too."""
    goal_count: None = None

    @property
    def action_bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        if self.action_low is None or self.action_high is None:
            return None
        return self.action_low, self.action_high

    @property
    def notices(self) -> tuple[str, ...]:
        return self.rewards.notices if self.portable else (*self.rewards.notices, self._alone)

    @property
    def _alone(self) -> str:
        return (
            f"The environment '{self.name}' is played in this process, one episode after another, as no other process "
            "can make it: for parallel play pass its registered name, or a function of a module that makes it."
        )

    def source(self, pictures: bool = False) -> SimulatorSource:
        options = {"environment": self.wanted, "options": dict(self.options), "pictures": pictures}
        return SimulatorSource(GymnasiumGoal.__module__, "GymnasiumGoal", options, self.portable)

    def goal_probability(self, goal: Float[Array, "*goal"]) -> Float[Array, ""]:
        """One for every goal, unless somebody has said how the environment draws them."""
        return jnp.float32(1) if self.probability is None else jnp.asarray(self.probability(goal), jnp.float32)

    def reached(self, achieved: Float[Array, "*goal"], goal: Float[Array, "*goal"]) -> Bool[Array, ""]:
        result = jax.ShapeDtypeStruct((), jnp.bool_)
        return jax.pure_callback(self.rewards.traced_reached, result, achieved, goal, vmap_method="expand_dims")

    def reward(
        self, achieved: Float[Array, "*goal"], goal: Float[Array, "*goal"], time: Int[Array, ""]
    ) -> Float[Array, ""]:
        result = jax.ShapeDtypeStruct((), jnp.float32)
        return jax.pure_callback(self.rewards.traced_rewards, result, achieved, goal, time, vmap_method="expand_dims")

    def take_fault(self) -> HindsightError | None:
        fault, self.rewards.fault = self.rewards.fault, None
        return fault


def gymnasium_task(
    environment: Wanted,
    horizon: int | None = None,
    options: Mapping[str, Any] | None = None,
    goal_probability: Probability | Literal["box"] | None = None,
) -> GymnasiumTask:
    """Find out what a learner needs to know.

    `horizon` counts states; unless given, it is one more than the environment's own limit of steps. `goal_probability`
    is a function of a goal that JAX can trace, relative to uniform, and zero where goals are never drawn; or "box": 1
    within the box of goals that the environment draws, 0 outside. Unless given, it is 1 for every goal.
    """
    simulator = GymnasiumGoal(environment, options)
    if horizon is None:
        if simulator.step_limit is None:
            raise HindsightError(
                f"The environment '{simulator.name}' sets no limit of steps: give a horizon, "
                "or put gymnasium.wrappers.TimeLimit around it."
            )
        horizon = simulator.step_limit + 1
    if horizon < 2:
        raise HindsightError(f"The horizon must be at least 2 time steps, not {horizon}.")
    actions = simulator.actions
    if isinstance(goal_probability, str):
        if goal_probability != "box":
            raise unknown("goal probability", goal_probability, ["box"])
        goal_probability = find_goal_box(simulator)
    recipe = find_recipe(environment, simulator.specification)
    # A specification holds the options that the environment was made with.
    own_options = (options or {}) if recipe is None or callable(recipe) else {}
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
        wanted=environment if recipe is None else recipe,
        options=MappingProxyType(dict(own_options)),
        probability=goal_probability,
        portable=recipe is not None,
    )
