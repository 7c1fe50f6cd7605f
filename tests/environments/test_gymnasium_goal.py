"""Gymnasium goal environments as simulators: what is accepted, and what is said otherwise."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.extras import choose_renderer

choose_renderer()
pytest.importorskip("gymnasium_robotics", exc_type=ImportError)

import gymnasium  # noqa: E402
from gymnasium import spaces  # noqa: E402
from reference.goal_environments import (  # noqa: E402
    Line,
)

from hindsight_rl.environments.gymnasium.simulator import GymnasiumGoal  # noqa: E402
from hindsight_rl.environments.gymnasium.task import gymnasium_task  # noqa: E402


def test_numbered_actions_count_from_zero() -> None:
    simulator = GymnasiumGoal(Line())
    start = simulator.reset(1).achieved_goal
    assert simulator.actions.count == 2
    right = simulator.step(np.int64(1)).achieved_goal
    left = simulator.step(np.int64(0)).achieved_goal
    assert right == start + 1
    assert left == start


class TwoChoices(Line):
    """Takes two choices at once, and goes nowhere."""

    def step(self, action: Any) -> Any:
        self.taken = np.array(action)
        return self._seen(), 0.0, False, False, {}


@pytest.mark.parametrize("start", [0, 5])
def test_several_choices_are_numbered_by_their_combinations(start: int) -> None:
    environment = TwoChoices(action=spaces.MultiDiscrete([2, 3], start=[start, start]))
    simulator = GymnasiumGoal(environment)
    simulator.reset(0)
    assert simulator.actions.count == 6
    seen = []
    for action in range(6):
        simulator.step(np.int64(action))
        assert environment.action_space.contains(environment.taken)
        seen.append(tuple(environment.taken - start))
    assert seen == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_too_many_combinations_are_refused() -> None:
    with pytest.raises(HindsightError, match=r"makes 1024 combinations; at most 1000 will do\.$"):
        GymnasiumGoal(Line(action=spaces.MultiBinary(10)))


class FourValues(Line):
    """Steps as environments did before there was a `truncated`."""

    def step(self, action: Any) -> Any:
        return super().step(action)[:4]


def test_a_step_of_four_values_is_named() -> None:
    simulator = GymnasiumGoal(FourValues())
    simulator.reset(0)
    with pytest.raises(HindsightError, match=r"must return 5 values \(observation, .*\), not 4 values, at step 1\.$"):
        simulator.step(np.int64(0))


def test_the_limit_of_steps_may_be_an_attribute() -> None:
    class Limited(Line):
        max_episode_steps = 7

    assert gymnasium_task(Limited()).horizon == 8
    with pytest.raises(HindsightError, match=r"give a horizon .* or set its attribute max_episode_steps"):
        gymnasium_task(Line())


def test_continuous_actions_are_clipped_to_their_bounds() -> None:
    simulator = GymnasiumGoal(Line(action=spaces.Box(-1, 1, (1,), np.float32)))
    start = next(place for seed in range(20) if (place := simulator.reset(seed).achieved_goal) < 3)
    assert simulator.step(np.array([5.0])).achieved_goal == start + 1


@pytest.mark.parametrize(
    ("space", "shape", "kind"),
    [
        (spaces.Box(0, 255, (8, 8, 3), np.uint8), (8, 8, 3), "uint8"),
        (spaces.Box(0, 6, (2, 3), np.float64), (2, 3), "float32"),
        (spaces.Box(0, 6, (4,), np.uint8), (4,), "float32"),
        (spaces.Dict(place=spaces.Box(0, 6, (1,), np.float64), door=spaces.Discrete(3)), (4,), "float32"),
    ],
    ids=["picture", "matrix", "bytes", "nested"],
)
def test_observations_become_plain_arrays(space: spaces.Space[Any], shape: tuple[int, ...], kind: str) -> None:
    task = gymnasium_task(Line(observation=space), horizon=5)
    simulator = GymnasiumGoal(Line(observation=space))
    for observed in (simulator.reset(0), simulator.step(np.int64(0))):
        assert observed.observation.shape == shape == task.observation_shape
        assert observed.observation.dtype == kind == task.observation_type
        place = observed.achieved_goal[0]
        if kind == "uint8":
            assert (observed.observation == place).all()
        else:
            assert place in observed.observation


def test_an_episode_is_over_when_the_environment_says_so() -> None:
    simulator = GymnasiumGoal(Line())
    simulator.reset(0)
    assert [simulator.step(np.int64(0)).over for _ in range(12)] == [False] * 11 + [True]


def test_limits_around_an_environment_become_the_horizon() -> None:
    limited = gymnasium.wrappers.TimeLimit(gymnasium.make("FetchReach-v4", max_episode_steps=7), 7)
    assert gymnasium_task(limited).horizon == 8
    assert gymnasium_task("FetchReach-v4", horizon=5).horizon == 5
    simulator = GymnasiumGoal("FetchReach-v4", {"max_episode_steps": 2})
    simulator.reset(0)
    assert not any(simulator.step(np.zeros(4)).over for _ in range(4))


def test_wrappers_that_somebody_chose_stay() -> None:
    class Mirror(gymnasium.ActionWrapper):
        def action(self, action: Any) -> Any:
            return 3 - action

    simulator = GymnasiumGoal(Mirror(Line()))
    start = simulator.reset(1).achieved_goal
    assert simulator.step(np.int64(0)).achieved_goal == start + 1


@pytest.mark.usefixtures("drawing")
def test_a_picture_shows_the_goal_that_is_asked_for() -> None:
    simulator = GymnasiumGoal("PointMaze_UMaze-v3", pictures=True)
    simulator.reset(0)
    goal = simulator.sample_goal(0)
    pictures = [simulator.picture(shown) for shown in (goal, -goal, goal)]
    assert (pictures[0] != pictures[1]).any()
    np.testing.assert_array_equal(pictures[0], pictures[2])
    simulator.close()
    with pytest.raises(HindsightError, match="'Line' was not made for pictures"):
        GymnasiumGoal(Line()).picture(np.zeros(1))


def test_what_cannot_draw_says_so_without_a_word_of_opengl() -> None:
    class Blank(Line):
        def render(self) -> np.ndarray:
            raise NotImplementedError

    simulator = GymnasiumGoal(Blank, {"render_mode": "rgb_array"}, pictures=True)
    simulator.reset(0)
    with pytest.raises(HindsightError, match=r"'Blank' cannot be drawn \(NotImplementedError: .*\)\.$"):
        simulator.picture(np.zeros(1))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: GymnasiumGoal("CartPole-v1"), "'CartPole-v1' is not a goal environment: it must observe a dictionary"),
        (
            lambda: GymnasiumGoal("FetchRaech-v4"),
            "Gymnasium knows no environment 'FetchRaech-v4'. Did you mean 'FetchReach",
        ),
        (lambda: GymnasiumGoal("FetchReach-v4", {"nonsense": 1}), "'FetchReach-v4' cannot be made: .*nonsense"),
        (lambda: GymnasiumGoal(Line(reward=None)), "'Line' is not a goal environment: it has no compute_reward"),
        (lambda: GymnasiumGoal(Line(action=spaces.Box(0, 3, (1,), np.int64))), "only discrete and real Box spaces"),
        (lambda: GymnasiumGoal(Line(observation=spaces.Sequence(spaces.Discrete(2)))), "laid out as one vector"),
        (lambda: GymnasiumGoal(Line(), {"width": 3}), r"made already: it takes no options \(width\)"),
        (lambda: GymnasiumGoal("Hopscotch-v0"), "One of your own needs the module that registers it: gym:your_module:"),
        (lambda: GymnasiumGoal(lambda: Line(), {}, pictures=True), "draws no pictures: it takes no render_mode, which"),
        (lambda: gymnasium_task(Line()), "'Line' sets no limit of steps: give a horizon"),
        (lambda: gymnasium_task(Line(), horizon=1), "at least 2 time steps, not 1"),
    ],
)
def test_what_cannot_be_used_is_said(make: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(HindsightError, match=sentence):
        make()


def test_goals_must_be_arrays_of_one_shape() -> None:
    environment = Line()
    environment.observation_space.spaces["achieved_goal"] = spaces.Discrete(7)
    with pytest.raises(HindsightError, match=r"those of 'Line' are Discrete\(7\)"):
        GymnasiumGoal(environment)
    environment.observation_space.spaces["achieved_goal"] = spaces.Box(0, 1, (2,))
    with pytest.raises(HindsightError, match=r"the achieved goal has the shape \(2,\), the desired one \(1,\)"):
        GymnasiumGoal(environment)


def broken(line: Line) -> Any:
    raise ZeroDivisionError("a wheel came off")


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (broken, "'Line' failed at step 3: ZeroDivisionError: a wheel came off"),
        (
            lambda line: {**line._seen(), "observation": np.array([np.nan])},
            "'Line' gave an observation that is not a finite number at step 3",
        ),
        (
            lambda line: {**line._seen(), "achieved_goal": np.array([np.inf])},
            "'Line' gave an achieved goal that is not a finite number at step 3",
        ),
        (lambda line: {"observation": np.zeros(1)}, "'Line' failed at step 3: KeyError: 'achieved_goal'"),
        (lambda line: {**line._seen(), "observation": np.zeros(5)}, "'Line' failed at step 3: ValueError"),
    ],
    ids=["raises", "nan", "infinite goal", "missing part", "wrong shape"],
)
def test_faults_in_mid_episode_name_the_environment_and_the_step(fault: Callable[[Line], Any], sentence: str) -> None:
    simulator = GymnasiumGoal(Line(fault=fault))
    simulator.reset(0)
    for _ in range(2):
        simulator.step(np.int64(0))
    with pytest.raises(HindsightError, match=sentence):
        simulator.step(np.int64(0))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(
        HindsightError, match=r"^Gymnasium environments need gymnasium: pip install 'hindsight-rl\[gymnasium\]'.$"
    ):
        GymnasiumGoal("FetchReach-v4")


def test_without_robotics_its_environments_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium_robotics", None)
    with pytest.raises(
        HindsightError, match=r"Robots and mazes need gymnasium-robotics: pip install 'hindsight-rl\[robotics\]'"
    ):
        GymnasiumGoal("NoSuchRobot-v4")


@pytest.mark.parametrize("action", [spaces.MultiDiscrete([2, 3], start=[5, 5]), spaces.MultiBinary([2, 2])])
def test_rewards_are_tried_with_several_choices_at_once(action: spaces.Space[Any]) -> None:
    task = gymnasium_task(TwoChoices(action=action), horizon=4)
    assert not task.continuous
    actions = GymnasiumGoal(TwoChoices(action=action)).actions
    assert [actions.encode(actions.decode(number)) for number in range(actions.count)] == list(range(actions.count))
