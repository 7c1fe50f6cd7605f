"""Rewards and achievements of a Gymnasium goal environment under any goal, for many pairs at once.

The reward is the environment's own `compute_reward`, called on NumPy batches with `{"time": actions taken so far}` as
its info. Whether a goal is reached is not part of Gymnasium's interface, so it is found out by trying:

- if the reward takes just two values, 0 and 1 or -1 and 0, a goal is reached where it is the larger one;
- otherwise the environment's `_is_success` or `compute_terminated` decides, if it has one under which every goal
  reaches itself (`compute_truncated` has no say: truncation is about running out of time);
- otherwise no state reaches a goal, and episodes go on to the horizon.
"""

from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.environments.gymnasium.simulator import GymnasiumGoal

SPARSE_VALUES = ((-1.0, 0.0), (0.0, 1.0))
EPISODES, STEPS = 4, 3
"""How much is played to have goals to try the environment's functions on."""
NO_TIME = np.zeros((), np.int64)
"""What is told of the time where it must not matter."""


class Pairs(NamedTuple):
    """Row by row a goal that was achieved after so many actions, and a goal that was to be reached."""

    achieved: np.ndarray
    goals: np.ndarray
    times: np.ndarray


class PairFunction:
    """A function of the environment, called for all pairs together if it can do that, otherwise one by one."""

    def __init__(self, function: Callable[..., Any], name: str, examples: Pairs):
        self._function = function
        self._name = name
        self.takes_batches = False
        self.on_examples = self(examples)
        self.takes_batches = self._agrees(examples)

    def __call__(self, pairs: Pairs) -> np.ndarray:
        try:
            values = np.asarray(self._together(pairs) if self.takes_batches else self._singly(pairs), np.float64)
        except Exception as error:  # Whatever a stranger's code raises.
            raise HindsightError(f"{self._name} failed: {gist(error)}.") from error
        if values.shape != pairs.times.shape or not np.isfinite(values).all():
            raise HindsightError(f"{self._name} gave something else than one finite number for each pair of goals.")
        return values

    def _together(self, pairs: Pairs) -> Any:
        return self._function(pairs.achieved, pairs.goals, {"time": pairs.times})

    def _singly(self, pairs: Pairs) -> Any:
        rows = zip(pairs.achieved, pairs.goals, pairs.times.tolist(), strict=True)
        return [self._function(achieved, goal, {"time": time}) for achieved, goal, time in rows]

    def _agrees(self, pairs: Pairs) -> bool:
        try:
            together = np.asarray(self._together(pairs), np.float64)
        except Exception:  # Whatever it raises, it takes no batches.
            return False
        return together.shape == self.on_examples.shape and np.allclose(together, self.on_examples, rtol=1e-5)


class Rewards:
    """Rewards of achieved goals under any goals; `notices` are sentences for people.

    `traced_rewards` and `traced_reached` are for calls from a compiled program, which cannot raise anything: they keep
    the first error, or an interruption, as `fault`, and answer with NaN and False until it is taken away.
    """

    def __init__(self, simulator: GymnasiumGoal):
        self._goals = simulator.goals
        self._name = f"The environment '{simulator.name}'"
        self.fault: HindsightError | KeyboardInterrupt | None = None
        # Episodes may be played while an update asks for rewards, and a stranger's code may not bear two callers.
        self._one_at_a_time = Lock()
        self._examples = _play(simulator)
        self._reward = PairFunction(
            simulator.environment.get_wrapper_attr("compute_reward"), f"{self._name}: compute_reward", self._examples
        )
        self._largest = self._larger_of_two()
        self._success = self._success_function(simulator.environment.unwrapped) if self._largest is None else None

    @property
    def notices(self) -> tuple[str, ...]:
        """What a user should know before learning starts."""
        sentences = []
        if not self._reward.takes_batches:
            sentences.append(f"{self._name} computes one reward at a time (its compute_reward takes no batches): slow.")
        if self._largest is None and self._success is None:
            sentences.append(f"{self._name} does not tell when a goal is reached: episodes go on to the horizon.")
        return tuple(sentences)

    @property
    def example_goal(self) -> np.ndarray:
        """One that was achieved when the environment was tried."""
        return self._goals.encode(self._examples.achieved[0])

    def rewards(self, achieved: np.ndarray, goals: np.ndarray, times: np.ndarray) -> np.ndarray:
        """The reward of each pair; the axes before those of a goal are broadcast against one another."""
        pairs, shape = self._aligned(achieved, goals, times)
        return self._reward(pairs).reshape(shape).astype(np.float32)

    def reached(self, achieved: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Whether each achieved goal reaches the goal; broadcast in the same way."""
        pairs, shape = self._aligned(achieved, goals)
        if self._largest is not None:
            return (self._reward(pairs) == self._largest).reshape(shape)
        if self._success is not None:
            return (self._success(pairs) > 0).reshape(shape)
        return np.zeros(shape, bool)

    def traced_rewards(self, achieved: np.ndarray, goals: np.ndarray, times: np.ndarray) -> np.ndarray:
        """As `rewards`, but NaN where it would raise."""
        return self._without_raising(self.rewards, np.float32(np.nan), achieved, goals, times)

    def traced_reached(self, achieved: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """As `reached`, but False where it would raise."""
        return self._without_raising(self.reached, np.bool_(False), achieved, goals)

    def _without_raising(
        self, function: Callable[..., np.ndarray], otherwise: np.generic, *question: np.ndarray
    ) -> np.ndarray:
        question = tuple(map(np.asarray, question))
        with self._one_at_a_time:
            if self.fault is None:
                try:
                    return function(*question)
                except (HindsightError, KeyboardInterrupt) as error:
                    self.fault = error
        return np.full(self._aligned(*question)[1], otherwise)

    def _aligned(
        self, achieved: np.ndarray, goals: np.ndarray, times: np.ndarray = NO_TIME
    ) -> tuple[Pairs, tuple[int, ...]]:
        achieved, goals, times = np.asarray(achieved), np.asarray(goals), np.asarray(times)
        goal = self._goals.shape
        leading = (array.shape[: array.ndim - len(goal)] for array in (achieved, goals))
        shape = np.broadcast_shapes(*leading, times.shape)

        def rows(array: np.ndarray) -> np.ndarray:
            return self._goals.decode(np.broadcast_to(array, shape + goal).reshape(-1, *goal))

        return Pairs(rows(achieved), rows(goals), np.broadcast_to(times, shape).reshape(-1)), shape

    def _larger_of_two(self) -> float | None:
        """The reward for a reached goal, if there are just two rewards and a goal always reaches itself."""
        values = tuple(np.unique(self._reward.on_examples))
        if values not in SPARSE_VALUES or np.any(self._reward.on_examples[self._same()] != values[1]):
            return None
        return float(values[1])

    def _success_function(self, environment: Any) -> PairFunction | None:
        for name in ("_is_success", "compute_terminated"):
            function = getattr(environment, name, None)
            if function is None:
                continue
            # Some tell success from two goals only, others from the info as well.
            takes_info = name == "compute_terminated"
            asked = function if takes_info else lambda achieved, goal, info, ask=function: ask(achieved, goal)
            success = PairFunction(asked, f"{self._name}: {name}", self._examples)
            if np.all(success.on_examples[self._same()] > 0) and not np.all(success.on_examples > 0):
                return success
        return None

    def _same(self) -> np.ndarray:
        """In which examples the goal is the achieved one."""
        equal = self._examples.achieved == self._examples.goals
        return equal.reshape(len(equal), -1).all(axis=1)


def _play(simulator: GymnasiumGoal) -> Pairs:
    """Every goal achieved in a few short episodes, paired with each of these goals and with the desired ones."""
    achieved, desired = [], []
    space = simulator.environment.action_space
    space.seed(0)
    for seed in range(EPISODES):
        observed = simulator.reset(seed)
        desired.append(simulator.sample_goal(seed))
        achieved.append(observed.achieved_goal)
        for _ in range(STEPS):
            if observed.over:
                break
            observed = simulator.step(simulator.actions.encode(space.sample()))
            achieved.append(observed.achieved_goal)
    goals = achieved + desired
    rows = [simulator.goals.decode(np.stack(row)) for row in (achieved, goals)]
    return Pairs(
        np.repeat(rows[0], len(goals), axis=0),
        np.tile(rows[1], (len(achieved), *[1] * len(simulator.goals.shape))),
        np.ones(len(achieved) * len(goals), np.int64),
    )
