"""Checks of hosted tasks: whether simulators can be made, and play the same episode from the same seed."""

from functools import cached_property
from multiprocessing.reduction import ForkingPickler
from types import TracebackType
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from hindsight_rl.core.errors import gist
from hindsight_rl.environments.contract import shared
from hindsight_rl.environments.contract.findings import Broken, Check, require
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.environments.simulators import Observed, Simulator

EPISODES, MOST_STEPS = 4, 8


class Episode(NamedTuple):
    """States and goal of an episode."""

    states: list[Observed]
    goal: np.ndarray
    shown: list[tuple[Any, ...]]
    """All of it bit by bit, as it was when it was shown."""


def _bits(state: Observed) -> tuple[Any, ...]:
    return np.asarray(state.observation).tobytes(), np.asarray(state.achieved_goal).tobytes(), state.over


class Plays:
    """A task with simulators of it, and short episodes of random actions."""

    def __init__(self, task: HostedTask, seed: int):
        self.task, self.seed = task, seed
        self._simulators: list[Simulator] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for simulator in self._simulators:
            simulator.close()

    def simulator(self, number: int) -> Simulator:
        """The first or second one; there may be just one if it has to stay in this process."""
        number = number if self.task.source().portable else 0
        while len(self._simulators) <= number:
            self._simulators.append(self.task.source().build())
        return self._simulators[number]

    def play(self, number: int, seed: int) -> Episode:
        """An episode, which may end before all actions are taken."""
        simulator = self.simulator(number)
        steps = min(self.task.horizon - 1, MOST_STEPS)
        actions = shared.random_actions(self.task, np.random.default_rng(seed), steps)
        # Whole numbers and vectors come to a simulator as the rollout sends them.
        actions = actions if self.task.continuous else actions.astype(np.int64)
        episode = Episode([simulator.reset(seed)], simulator.sample_goal(seed), [])
        episode.shown.append((_bits(episode.states[0]), np.asarray(episode.goal).tobytes()))
        for action in actions:
            if episode.states[-1].over:
                break
            episode.states.append(simulator.step(action))
            episode.shown.append(_bits(episode.states[-1]))
        return episode

    @cached_property
    def episodes(self) -> list[Episode]:
        """Some episodes of the first simulator, from seeds that follow one another."""
        return [self.play(0, self.seed + number) for number in range(EPISODES)]

    @cached_property
    def achieved(self) -> np.ndarray:
        """The distinct goals that states achieved."""
        return shared.distinct(np.stack([state.achieved_goal for one in self.episodes for state in one.states]))

    @cached_property
    def drawn(self) -> np.ndarray:
        """The goals of the episodes."""
        return np.stack([one.goal for one in self.episodes])


def builds(plays: Plays) -> str:
    """A simulator can be made, here and in other processes."""
    source = plays.task.source()
    if source.portable:
        try:
            ForkingPickler.dumps(source)
        except Exception as error:  # Each object that cannot be sent says so in its own way.
            raise Broken(f"Its source cannot be sent to a worker process: {gist(error)}.") from error
    plays.simulator(0)
    return f"{source} is built, {'in any process' if source.portable else 'in this process only'}."


def shapes(plays: Plays) -> str:
    """Everything that is shown has the shape and type that the task says."""
    task = plays.task
    for episode in plays.episodes:
        for state in episode.states:
            _require_array("observation", state.observation, task.observation_shape, task.observation_type)
            _require_array("achieved goal", state.achieved_goal, task.goal_shape, "float32")
            require(isinstance(state.over, bool), f"over must be true or false, not {state.over!r}.")
        _require_array("drawn goal", episode.goal, task.goal_shape, "float32")
    kind, observation, goal = task.observation_type, list(task.observation_shape), list(task.goal_shape)
    return f"Observations are {kind}{observation}, goals float32{goal}."


def _require_array(name: str, found: object, shape: tuple[int, ...], kind: str) -> None:
    if not isinstance(found, np.ndarray):
        raise Broken(f"The {name} must be an array of NumPy, not {type(found).__name__}.")
    wanted, seen = (f"{one}{list(size)}" for one, size in ((kind, shape), (found.dtype, found.shape)))
    require(wanted == seen, f"The {name} must be {wanted}, as the task says, not {seen}.")
    require(np.isfinite(found).all(), f"There is an {name} that is not finite.")


def deterministic(plays: Plays) -> str:
    """The same seed and actions give the same episode, whatever went before and whoever plays it."""
    for number, episode in reversed(list(enumerate(plays.episodes))):
        again = (plays.play(simulator, plays.seed + number).shown for simulator in (0, 1))
        require(episode.shown == next(again), "The same seed and actions give another episode after others.")
        require(episode.shown == next(again), "Two simulators play different episodes from the same seed.")
    return f"{EPISODES} seeds with the same actions give the same episodes."


def lasting(plays: Plays) -> str:
    """No array is written to again after it was shown."""
    for episode in plays.episodes:
        now = [_bits(state) for state in episode.states]
        kept = [episode.shown[0][0], *episode.shown[1:]] == now
        require(kept, "An array that was shown changes later: the simulator must give away copies.")
    return "What was shown stays as it was."


def reached(plays: Plays) -> str:
    """A state reaches the goal that it achieves, unless no goal is ever reached."""
    achieved = jnp.asarray(plays.achieved)
    every = jax.jit(jax.vmap(jax.vmap(plays.task.reached, (None, 0)), (0, None)))(achieved, achieved)
    plays.task.raise_fault()
    if plays.task.notices and not np.any(every):
        return "No state reaches a goal: episodes go on to the horizon."
    return shared.goals_reach_themselves(plays)


def rewards(plays: Plays) -> str:
    """Rewards of what was achieved, under the other goals."""
    try:
        return shared.rewards(plays)
    finally:
        plays.task.raise_fault()


HOSTED = (
    Check("sizes", shared.sizes, needed=True),
    Check("source", builds, needed=True),
    Check("shapes and types", shapes, needed=True),
    Check("deterministic", deterministic),
    Check("what was shown stays", lasting),
    Check("goals reach themselves", reached),
    Check("rewards", rewards),
    Check("goal probabilities", shared.probabilities),
)
