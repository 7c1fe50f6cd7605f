"""A Gymnasium goal environment as a learner sees it: `gymnasium_task("FetchReach-v4")`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.buffer_callback import buffer_callback
from jaxtyping import Array, Bool, Float, Int

from hindsight_rl.core.errors import HindsightError, unknown
from hindsight_rl.environments.gymnasium.goal_box import find_goal_box
from hindsight_rl.environments.gymnasium.rewards import Rewards
from hindsight_rl.environments.gymnasium.simulator import GymnasiumGoal, Wanted, find_recipe
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.environments.interface import Bounds
from hindsight_rl.environments.simulators import SimulatorSource

Probability = Callable[[Float[Array, "*goal"]], Float[Array, ""]]


class GymnasiumTask(HostedTask):
    """What was found out about an environment. Each one is equal to itself alone.

    Rewards are NumPy code of somebody else. `rewards` computes them directly for many pairs; `reached` and `reward`
    can be traced like those of any task, as they call back from the compiled program.
    """

    name: str
    horizon: int
    action_count: int
    rewards: Rewards = eqx.field(static=True)
    wanted: Wanted = eqx.field(static=True)
    options: Mapping[str, Any] = eqx.field(static=True)
    probability: Probability | None = eqx.field(static=True)
    """Of each goal, relative to uniform; None if nothing is known."""
    portable: bool
    """Whether other processes can make it too."""
    observation_shape: tuple[int, ...] = ()
    observation_type: str = "float32"
    goal_shape: tuple[int, ...] = ()
    goal_count: int = 1
    continuous: bool = False
    action_bounds: Bounds | None = None

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    @property
    def notices(self) -> tuple[str, ...]:
        return self.rewards.notices if self.portable else (*self.rewards.notices, self._alone)

    @property
    def _alone(self) -> str:
        return (
            f"The environment '{self.name}' is played in this process, one episode after another, as no other process "
            "can make it: for parallel play pass its registered name, or a function of a module that makes it."
        )

    @property
    def example_goal(self) -> np.ndarray:
        return self.rewards.example_goal

    def source(self, pictures: bool = False) -> SimulatorSource:
        options = {"environment": self.wanted, "options": dict(self.options), "pictures": pictures}
        return SimulatorSource(GymnasiumGoal.__module__, "GymnasiumGoal", options, self.portable)

    def goal_probability(self, goal: Float[Array, "*goal"]) -> Float[Array, ""]:
        """One for every goal, unless somebody has said how the environment draws them."""
        return jnp.float32(1) if self.probability is None else jnp.asarray(self.probability(goal), jnp.float32)

    def reached(self, achieved: Float[Array, "*goal"], goal: Float[Array, "*goal"]) -> Bool[Array, ""]:
        return _called_back(self.rewards.traced_reached, jnp.bool_, achieved, goal)

    def reward(
        self, achieved: Float[Array, "*goal"], goal: Float[Array, "*goal"], time: Int[Array, ""]
    ) -> Float[Array, ""]:
        return _called_back(self.rewards.traced_rewards, jnp.float32, achieved, goal, time)

    def take_fault(self) -> HindsightError | KeyboardInterrupt | None:
        fault, self.rewards.fault = self.rewards.fault, None
        return fault


@dataclass(frozen=True)
class _Writer:
    """Calls a NumPy function with buffers, and writes what it returns into one."""

    function: Callable[..., np.ndarray]

    def __call__(self, context: Any, out: Any, *arguments: Any) -> None:
        np.asarray(out)[...] = self.function(*map(np.asarray, arguments))


def _called_back(function: Callable[..., np.ndarray], kind: Any, *arguments: Array) -> Array:
    """A number of this kind, from a function that takes axes in front as well, called by the compiled program.

    On the processor it is handed the buffers themselves. The usual callback gets copies, which are made by the same
    threads as all computations: where each of those is waiting for its own copy, as on one core as soon as an update
    and a policy are computed at a time, nothing goes on ever again.
    """
    result = jax.ShapeDtypeStruct((), kind)
    if jax.default_backend() != "cpu":
        return jax.pure_callback(function, result, *arguments, vmap_method="expand_dims")
    return cast(Array, buffer_callback(_Writer(function), result, vmap_method="expand_dims")(*arguments))


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
                f"The environment '{simulator.name}' sets no limit of steps: give a horizon (states in an "
                "episode, one more than its steps), or set its attribute max_episode_steps."
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
        rewards=Rewards(simulator),
        wanted=environment if recipe is None else recipe,
        options=MappingProxyType(dict(own_options)),
        probability=goal_probability,
        portable=recipe is not None,
        continuous=actions.bounds is not None,
        action_bounds=actions.bounds,
    )


def gymnasium_by_id(id: str, horizon: int | None, goal_box: bool) -> GymnasiumTask:
    """The task of a registered environment."""
    return gymnasium_task(id, horizon, goal_probability="box" if goal_box else None)
