"""The contract's checks find what is wrong: environments and tasks that are broken in one place, for each check."""

import itertools
import random
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.drift import Drift
from reference.hosted_bits import BitsSimulator, BitsTask
from reference.probes import Corridor

from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.contract import Finding, check_environment, describe
from hindsight_rl.environments.contract.compiled import COMPILED
from hindsight_rl.environments.contract.hosted import HOSTED
from hindsight_rl.environments.interface import Environment, Task
from hindsight_rl.environments.simulators import Observed, SimulatorSource

pytestmark = pytest.mark.usefixtures("quick_compilation")

SIZES: dict[str, Any] = {"cells": 5, "start": 0, "goals": (1, 3), "moves": (-1, 1), "horizon": 5}
BITS = BitFlipping(3)


def hall(**replaced: Any) -> Corridor:
    """A corridor with some of its methods replaced."""
    return type("Hall", (Corridor,), replaced)(**SIZES)


TRACED = itertools.count(1)


def restless_walk(self: Corridor, state: Any, action: Any, key: Any) -> Any:
    """Moves by another distance each time that it is traced."""
    return jnp.clip(state + 1 / next(TRACED), 0, 4)


def seen_when_compiled(self: Corridor, state: Any) -> Any:
    return state if isinstance(state, jax.core.Tracer) else state + 1


class Writing(Drift):
    """Writes into the state that it is given."""

    def step(self, state: Any, action: Any, key: Any) -> Any:
        state["place"] = state["place"] + jnp.clip(action, -1.0, 1.0)
        return dict(state)


class LongBounds(Drift):
    """Has bounds for three numbers, and actions of two."""

    @property
    def action_bounds(self) -> Any:
        return (-1.0,) * 3, (1.0,) * 3


class WrongTables(BitFlipping):
    """Its tables are those of another problem."""

    def finite_problem(self) -> Any:
        problem = super().finite_problem()
        chances = np.arange(len(problem.goals)) / np.arange(len(problem.goals)).sum()
        return problem._replace(goal_probabilities=chances)


def whole(**names: Any) -> dict[str, Any]:
    def always(value: Any) -> property:
        return property(lambda self: value)

    return {name: always(value) for name, value in names.items()}


COMPILED_CASES: list[tuple[str, Callable[[], Environment], str]] = [
    ("sizes", lambda: Corridor(**{**SIZES, "horizon": 1}), "horizon counts states, so it must be at least 2, not 1."),
    ("sizes", lambda: hall(**whole(goal_count=2.0)), "goal_count must be a whole number of at least 1, not 2.0."),
    ("sizes", LongBounds, "action_bounds must be 2 lowest and as many highest numbers."),
    (
        "compiles",
        lambda: hall(step=lambda self, state, action, key: state + 1 if action > 0 else state),
        "step cannot be compiled: TracerBoolConversionError: ",
    ),
    ("compiles", lambda: hall(reset=lambda self, key: float(key)), "reset cannot be compiled: "),
    (
        "shapes and types",
        lambda: hall(step=lambda self, state, action, key: state.astype(jnp.int32)),
        "step turns a state of float32[1] into one of int32[1].",
    ),
    (
        "shapes and types",
        lambda: hall(reward=lambda self, achieved, goal, time: achieved),
        "reward must give float32[], not float32[1].",
    ),
    (
        "shapes and types",
        lambda: hall(sample_goal=lambda self, key: jnp.zeros(2)),
        "sample_goal must give float32[1] as achieved_goal does, not float32[2].",
    ),
    ("deterministic", lambda: hall(step=restless_walk), "give other states when the program is compiled again"),
    ("pure", lambda: hall(observe=seen_when_compiled), "observe gives something else alone than compiled"),
    ("pure", Writing, "step changes the state that it is given"),
    (
        "finite",
        lambda: hall(observe=lambda self, state: jnp.where(state > 2, jnp.inf, state)),
        "There is an observation that is not finite.",
    ),
    (
        "goals reach themselves",
        lambda: hall(reached=lambda self, achieved, goal: achieved[0] > goal[0]),
        "A state that achieves [1.0] does not reach that goal, which has a probability above 0.",
    ),
    (
        "rewards",
        lambda: hall(reward=lambda self, achieved, goal, time: jnp.log(jnp.abs(achieved[0] - goal[0]))),
        "The reward of [0.0] under the goal [0.0] at time 1 is -inf.",
    ),
    (
        "rewards",
        lambda: hall(reward=lambda self, achieved, goal, time: jnp.float32(random.random())),
        "it differs from call to call",
    ),
    (
        "goal probabilities",
        lambda: hall(goal_probability=lambda self, goal: jnp.where(goal[0] == 4, -0.5, 0.5).astype(jnp.float32)),
        "The probability of the goal [4.0] is -0.5.",
    ),
    (
        "goal probabilities",
        lambda: hall(goal_probability=lambda self, goal: jnp.float32(goal[0] == 1)),
        "The goal [3.0] was drawn, but has a probability of 0.",
    ),
    ("goal count", lambda: hall(**whole(goal_count=3)), "goal_count says 3, but the probabilities of 2 goals already"),
    (
        "goal count",
        lambda: hall(sample_goal=lambda self, key: jax.random.choice(key, jnp.array([1.0, 2.0, 3.0]))[None]),
        "goal_count says 2, but 3 different goals were drawn.",
    ),
    (
        "goal count",
        lambda: hall(goal_probability=lambda self, goal: jnp.where(goal[0] % 2 == 1, 0.25, 0.0)),
        "The probabilities of all 2 goals add up to 0.5, not one.",
    ),
    (
        "goal count",
        lambda: hall(goal_probability=lambda self, goal: jnp.where(goal[0] % 2 == 1, 1.0, 0.0)),
        "The probabilities of 2 goals add up to 2, more than one.",
    ),
    ("goal count", lambda: WrongTables(3), "goal_probability differs from the goal_probabilities of finite_problem()."),  # type: ignore[call-arg]
    (
        "goal frequencies",
        lambda: hall(sample_goal=lambda self, key: jnp.where(jax.random.bernoulli(key, 0.8), 1.0, 3.0)[None]),
        "of 200 draws, but its probability is 0.5000.",
    ),
    (
        "state limit",
        lambda: hall(**whole(state_limit=3)),
        "state_limit says at most 3 states or achieved goals, but 5 were met.",
    ),
    ("render", lambda: hall(render=lambda self, state, goal: None), "render must give text, not None."),
    ("render", lambda: hall(render=lambda self, state, goal: 1 / 0), "It raised ZeroDivisionError: division by zero."),
]


class Restless(BitsSimulator):
    """Goes on from where it was, whatever the seed."""

    def reset(self, seed: int) -> Observed:
        return self._observed()


class Reusing(BitsSimulator):
    """Always shows the same array."""

    def _observed(self) -> Observed:
        self.shown = getattr(self, "shown", np.zeros(3, np.float32))
        self.shown[:] = self._state
        return Observed(self.shown, self._state.copy())


class Double(BitsSimulator):
    """Shows float64."""

    def _observed(self) -> Observed:
        return Observed(self._state.astype(np.float64), self._state.copy())


class Undefined(BitsSimulator):
    """Shows something that is no number."""

    def _observed(self) -> Observed:
        return Observed(self._state * np.float32(np.nan), self._state.copy())


class Unsendable:
    """Cannot be sent to another process."""

    def __reduce__(self) -> Any:
        raise TypeError("cannot travel")


def bits(simulator: str = "BitsSimulator", **replaced: Any) -> Task:
    """Hosted bits with another simulator, or with some methods of the task replaced."""
    source = SimulatorSource(__name__, simulator, {"bits": 3})
    return type("Bits", (BitsTask,), {"source": lambda self, pictures=False: source, **replaced})(BITS)


def unsendable(self: BitsTask, pictures: bool = False) -> SimulatorSource:
    return SimulatorSource(__name__, "BitsSimulator", {"bits": Unsendable()})


HOSTED_CASES: list[tuple[str, Callable[[], Task], str]] = [
    ("sizes", lambda: bits(**whole(horizon=1)), "horizon counts states, so it must be at least 2, not 1."),
    ("source", lambda: bits("Nowhere"), "It raised AttributeError: module "),
    ("source", lambda: bits(source=unsendable), "cannot be sent to a worker process: TypeError: cannot travel."),
    ("shapes and types", lambda: bits("Double"), "observation must be float32[3], as the task says, not float64[3]."),
    ("shapes and types", lambda: bits("Undefined"), "There is an observation that is not finite."),
    ("deterministic", lambda: bits("Restless"), "give another episode after others."),
    ("what was shown stays", lambda: bits("Reusing"), "An array that was shown changes later"),
    (
        "goals reach themselves",
        lambda: bits(reached=lambda self, achieved, goal: jnp.bool_(False)),
        "does not reach that goal, which has a probability above 0.",
    ),
    ("rewards", lambda: bits(reward=lambda *_: jnp.float32(jnp.nan)), "at time 1 is nan."),
    ("goal probabilities", lambda: bits(goal_probability=lambda self, goal: jnp.float32(0)), "has a probability of 0."),
]
FOLLOWING = {
    "deterministic": {"pure"},
    "goal count": {"goal frequencies", "goal probabilities"},
    "goal probabilities": {"goal count", "goal frequencies"},
}
"""What is broken in one way may show in other checks too."""


@pytest.mark.parametrize(("check", "make", "sentence"), [*COMPILED_CASES, *HOSTED_CASES])
def test_what_is_broken_is_found_and_said_in_a_sentence(check: str, make: Callable[[], Task], sentence: str) -> None:
    failed = {finding.check: finding for finding in check_environment(make()) if not finding.passed}
    assert re.search(re.escape(sentence), failed[check].sentence), failed
    assert set(failed) <= {check} | FOLLOWING.get(check, set())
    assert all("\n" not in finding.sentence for finding in failed.values())


def test_every_check_has_a_case() -> None:
    assert {check for check, *_ in COMPILED_CASES} == {check.name for check in COMPILED}
    assert {check for check, *_ in HOSTED_CASES} == {check.name for check in HOSTED}


@pytest.mark.parametrize("make", [lambda: hall(), lambda: bits(), lambda: Drift(), lambda: BITS])
def test_what_is_in_order_passes_whatever_the_seed(make: Callable[[], Task]) -> None:
    for seed in (0, 3):
        assert [finding for finding in check_environment(make(), seed) if not finding.passed] == []


def test_a_task_that_nobody_can_play() -> None:
    class Bare(Task):
        horizon: int = 3
        action_count: int = 1
        observation_shape: tuple[int, ...] = (1,)
        observation_type: str = "float32"
        goal_shape: tuple[int, ...] = (1,)
        goal_count: int = 1
        state_limit: None = None

        def goal_probability(self, goal: Any) -> Any: ...

        def reached(self, achieved: Any, goal: Any) -> Any: ...

        def reward(self, achieved: Any, goal: Any, time: Any) -> Any: ...

    (finding,) = check_environment(Bare())
    assert finding == Finding(
        "can be played", False, "Bare is neither an Environment, which compiles, nor a HostedTask."
    )


def test_findings_can_be_read() -> None:
    text = describe([Finding("sizes", True, "All is well."), Finding("render", False, "It raised nothing.")])
    assert text.splitlines() == [
        "passed  sizes: All is well.",
        "FAILED  render: It raised nothing.",
        "2 checks, 1 failed.",
    ]
