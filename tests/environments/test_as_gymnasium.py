"""Compiled environments with Gymnasium's interface: its own checks, the contract of goal environments, our rewards."""

import sys
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from hindsight_rl.core.errors import HindsightError

pytest.importorskip("gymnasium")

import gymnasium
from gymnasium.utils.env_checker import check_env

from hindsight_rl.environments.as_gymnasium import NAMES, GoalEnvironment, register
from hindsight_rl.environments.gymnasium.task import gymnasium_task
from hindsight_rl.environments.registry import make


@pytest.fixture(scope="module", params=NAMES)
def environment(request: pytest.FixtureRequest) -> Any:
    return gymnasium.make(request.param, render_mode="ansi")


def play(environment: Any, seed: int) -> list[tuple[Any, ...]]:
    """A whole episode of random actions."""
    generator = np.random.default_rng(seed)
    seen, info = environment.reset(seed=seed)
    steps = [(seen, 0.0, False, False, info)]
    while not (steps[-1][2] or steps[-1][3]):
        steps.append(environment.step(generator.integers(environment.action_space.n)))
    return steps


def test_gymnasium_finds_no_fault(environment: Any) -> None:
    check_env(environment.unwrapped)


def test_registering_again_changes_nothing() -> None:
    before = {name: gymnasium.registry[name] for name in NAMES}
    register()
    assert {name: gymnasium.registry[name] for name in NAMES} == before


def test_the_limit_of_steps_is_the_horizon(environment: Any) -> None:
    ours = make(NAMES[environment.spec.id])
    assert environment.spec.max_episode_steps == ours.horizon - 1
    lengths = [len(play(environment, seed)) for seed in range(3)]
    assert max(lengths) == ours.horizon


def test_what_a_step_gives_follows_from_goals_and_info(environment: Any) -> None:
    """The contract of gymnasium-robotics' GoalEnv."""
    bare = environment.unwrapped
    for seed in range(3):
        for time, (seen, reward, terminated, truncated, info) in enumerate(play(environment, seed)[1:], start=1):
            question = seen["achieved_goal"], seen["desired_goal"], info
            assert info["time"] == time
            assert reward == bare.compute_reward(*question)
            assert terminated == bare.compute_terminated(*question) == info["is_success"]
            assert truncated == bare.compute_truncated(*question)


def test_rewards_are_those_of_the_compiled_environment(environment: Any) -> None:
    ours = make(NAMES[environment.spec.id])
    steps = play(environment, 1)[1:]
    achieved = np.stack([seen["achieved_goal"] for seen, *_ in steps])
    times = np.arange(1, len(steps) + 1)
    goal = achieved[-1]
    pairs = zip(achieved, times, strict=True)
    expected = [float(ours.reward(jnp.asarray(place), jnp.asarray(goal), jnp.int32(time))) for place, time in pairs]
    assert expected[-1] > 0
    goals = np.tile(goal, (len(steps), 1))
    bare = environment.unwrapped
    np.testing.assert_array_equal(bare.compute_reward(achieved, goals, {"time": times}), expected)
    np.testing.assert_array_equal(bare.compute_reward(achieved, goals, [{"time": time} for time in times]), expected)
    np.testing.assert_array_equal(bare.compute_terminated(achieved, goals, {"time": times}), np.array(expected) > 0)
    np.testing.assert_array_equal(bare.compute_truncated(achieved, goals, {"time": times}), times == ours.horizon - 1)


def test_many_pairs_may_have_any_shape(environment: Any) -> None:
    bare = environment.unwrapped
    achieved = np.stack([play(environment, seed)[-1][0]["achieved_goal"] for seed in range(4)])
    rewards = bare.compute_reward(achieved[:, None], achieved[None], {"time": 2})
    assert rewards.shape == (4, 4)
    assert (np.diag(rewards) == make(NAMES[environment.spec.id]).horizon - 2).all()


def test_without_the_time_there_is_no_reward(environment: Any) -> None:
    goal = environment.reset(seed=0)[0]["desired_goal"]
    infos: tuple[Any, ...] = ({}, [{}])
    for info in infos:
        with pytest.raises(HindsightError, match="the info must hold it as 'time'"):
            environment.unwrapped.compute_reward(goal, goal, info)


def test_text_shows_the_state(environment: Any) -> None:
    seen, _ = environment.reset(seed=0)
    ours: Any = make(NAMES[environment.spec.id])
    observation = seen["observation"]
    state = observation if "Bit" in environment.spec.id else observation.astype(int)
    assert environment.render() == ours.render(state, jnp.asarray(seen["desired_goal"]))


def test_there_and_back_again(environment: Any) -> None:
    """Played as a Gymnasium environment by us, an environment of ours keeps its rewards and its horizon."""
    ours = make(NAMES[environment.spec.id])
    task = gymnasium_task(environment.spec.id)
    assert (task.horizon, task.action_count, task.notices) == (ours.horizon, ours.action_count, ())
    goals = np.stack([play(environment, seed)[-1][0]["achieved_goal"] for seed in range(4)])
    rewards = task.rewards.rewards(goals[:, None], goals[None], np.int64(3))
    same = (goals[:, None] == goals[None]).all(axis=-1)
    np.testing.assert_array_equal(rewards, np.where(same, ours.horizon - 3, 0))
    np.testing.assert_array_equal(task.rewards.reached(goals[:, None], goals[None]), same)


def test_any_compiled_environment_can_be_wrapped() -> None:
    wrapped = GoalEnvironment(make("grid", text="#####\n#S..#\n#.#.#\n#####"))
    seen, _ = wrapped.reset(seed=4)
    assert wrapped.observation_space.contains(seen)
    assert wrapped.render() is None


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "hindsight_rl.environments.as_gymnasium")
    with pytest.raises(HindsightError, match=r"pip install 'hindsight-rl\[gymnasium\]'"):
        __import__("hindsight_rl.environments.as_gymnasium")
