"""Environments whose episodes are played by simulators, outside of the compiled program, as the learner sees them."""

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.numbers import require_positive_integer
from hindsight_rl.environments.interface import Goal, Task
from hindsight_rl.environments.simulators import SimulatorSource
from hindsight_rl.environments.task import HostedTask


class HostedEnvironment(Task):
    """A hosted task in the learner's terms."""

    task: HostedTask = eqx.field(static=True)
    workers: int | None = eqx.field(static=True)
    """Processes that play it, one for each core if None. No result depends on it: it belongs to the machine."""
    horizon: int
    action_count: int

    def __init__(self, task: HostedTask, workers: int | None = None):
        self.task, self.workers = task, workers
        self.horizon = task.horizon
        self.action_count = task.action_count or task.action_size or 0

    @property
    def continuous(self) -> bool:
        return self.task.action_size is not None

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return self.task.observation_shape

    @property
    def observation_type(self) -> str:
        """The type of observations: uint8 for pictures."""
        return self.task.observation_type

    @property
    def goal_shape(self) -> tuple[int, ...]:
        return self.task.goal_shape

    @property
    def goal_count(self) -> int:
        return self.task.goal_count or 1

    @property
    def state_limit(self) -> int | None:
        return None

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences that a user should see before learning starts."""
        return self.task.notices

    @property
    def action_bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """The lowest and the highest value of each number of a continuous action."""
        return self.task.action_bounds

    def simulator(self, pictures: bool = False) -> SimulatorSource:
        """How a worker makes its simulators; those for `pictures` can draw what they play."""
        return self.task.source(pictures)

    def goal_probability(self, goal: Goal) -> Float[Array, ""]:
        return self.task.goal_probability(goal)

    def reached(self, achieved: Goal, goal: Goal) -> Bool[Array, ""]:
        return self.task.reached(achieved, goal)

    def reward(self, achieved: Goal, goal: Goal, time: Int[Array, ""]) -> Float[Array, ""]:
        return self.task.reward(achieved, goal, time)


def with_workers(environment: Task, count: int | None) -> Task:
    """The environment, played by so many processes; None leaves it as it is."""
    if count is None:
        return environment
    if not isinstance(environment, HostedEnvironment):
        raise HindsightError("workers play hosted environments; this one is compiled and needs none: leave them out.")
    require_positive_integer("workers", count)
    return HostedEnvironment(environment.task, count)
