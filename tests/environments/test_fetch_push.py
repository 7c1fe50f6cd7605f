"""Facts of the FetchPush environment, checked against the simulator that is played beside it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.extras import choose_renderer, import_gymnasium, import_robotics
from hindsight_rl.environments.fetch_push import CHANGES, FetchPush, FetchPushTask

choose_renderer()
pytest.importorskip("mujoco")


@pytest.fixture(scope="module")
def simulator() -> Iterator[FetchPush]:
    made = FetchPush()
    yield made
    made.close()


@pytest.fixture(scope="module")
def bare() -> Iterator[Any]:
    """The simulator as its makers deliver it."""
    import_robotics()
    made = import_gymnasium().make("FetchPush-v4")
    yield made
    made.close()


def test_sizes() -> None:
    task = FetchPushTask()
    assert (task.horizon, task.action_count, task.continuous) == (50, 8, False)
    assert (task.observation_shape, task.observation_type, task.goal_shape) == ((28,), "float32", (3,))
    assert task.goal_count == 1
    assert hash(task) == hash(FetchPushTask())


def test_actions_add_to_the_velocity_along_x_or_y() -> None:
    assert sorted(CHANGES) == sorted(
        [(0.1, 0), (-0.1, 0), (0, 0.1), (0, -0.1), (1, 0), (-1, 0), (0, 1), (0, -1)], key=tuple
    )


@pytest.mark.parametrize("action", range(8))
def test_each_action_changes_the_desired_velocity(simulator: FetchPush, action: int) -> None:
    first = simulator.reset(0)
    np.testing.assert_array_equal(first.observation[25:], 0)
    once = simulator.step(np.int64(action)).observation[25:]
    np.testing.assert_allclose(once, [*CHANGES[action], 0], rtol=1e-6)
    twice = simulator.step(np.int64(action)).observation[25:]
    np.testing.assert_allclose(twice, np.clip([2 * CHANGES[action][0], 2 * CHANGES[action][1], 0], -1, 1), rtol=1e-6)


def test_the_state_is_the_simulators_own_with_the_velocity_that_it_was_sent(simulator: FetchPush, bare: Any) -> None:
    """The velocity stays within [-1, 1] and makes the first two of four controls; the others are zero."""
    observed = simulator.reset(3)
    seen, _ = bare.reset(seed=3)
    np.testing.assert_array_equal(simulator.sample_goal(3), seen["desired_goal"].astype(np.float32))
    velocity = np.zeros(2)
    for action in [4, 4, 6, 0, 5, 1, 1, 7, 3, 2, 4]:
        observed = simulator.step(np.int64(action))
        velocity = np.clip(velocity + CHANGES[action], -1, 1)
        seen, *_ = bare.step(np.array([*velocity, 0, 0], np.float32))
        np.testing.assert_array_equal(observed.observation[:25], seen["observation"].astype(np.float32))
        np.testing.assert_allclose(observed.observation[25:], [*velocity, 0], rtol=1e-6)
        np.testing.assert_array_equal(observed.achieved_goal, seen["achieved_goal"].astype(np.float32))
        np.testing.assert_array_equal(observed.achieved_goal, observed.observation[3:6])
        assert not observed.over


def test_the_gripper_goes_where_it_is_sent(simulator: FetchPush) -> None:
    first = simulator.reset(1).observation[:3]
    for _ in range(3):
        last = simulator.step(np.int64(4)).observation[:3]
    moved = last - first
    assert moved[0] > 0.02
    assert np.abs(moved[1:]).max() < 0.01


def test_the_arm_starts_alike_and_the_block_anywhere(simulator: FetchPush) -> None:
    starts = [simulator.reset(seed).observation for seed in range(6)]
    np.testing.assert_allclose([start[:3] for start in starts], np.tile(starts[0][:3], (6, 1)), atol=1e-5)
    blocks = {tuple(start[3:5]) for start in starts}
    assert len(blocks) == 6


def test_goals_lie_on_the_table_around_the_gripper(simulator: FetchPush) -> None:
    for seed in range(10):
        gripper = simulator.reset(seed).observation[:3]
        goal = simulator.sample_goal(seed)
        assert np.abs(goal[:2] - gripper[:2]).max() < 0.19, "0.15 m around where the gripper was before it settled"
        np.testing.assert_allclose(goal[2], 0.425, atol=1e-3)


def test_goals_are_as_likely_all_over_the_square_and_impossible_elsewhere(bare: Any) -> None:
    """The square is the simulator's own; a block on the table is a goal, one that falls is none."""
    task = FetchPushTask()
    made = bare.unwrapped
    centre = np.array([*made.initial_gripper_xpos[:2], made.height_offset])
    side = made.target_range
    inside = [(side, side, 0), (-side, 0, 0), (0, -side, 0.003), (0, 0, 0)]
    outside = [(side + 0.001, 0, 0), (0, -side - 0.001, 0), (0, 0, -0.05), (0, 0, 0.05)]
    for offsets, expected in ((inside, 1), (outside, 0)):
        for offset in offsets:
            assert float(task.goal_probability(jnp.asarray(centre + offset, jnp.float32))) == expected
    for seed in range(10):
        seen, _ = bare.reset(seed=seed)
        assert float(task.goal_probability(jnp.asarray(seen["desired_goal"], jnp.float32))) == 1
        assert float(task.goal_probability(jnp.asarray(seen["achieved_goal"], jnp.float32))) == 1


@pytest.mark.parametrize(("distance", "expected"), [(0.0, True), (0.0499, True), (0.0501, False), (0.3, False)])
def test_a_goal_is_reached_within_five_centimetres(distance: float, expected: bool) -> None:
    task, achieved = FetchPushTask(), jnp.array([1.3, 0.7, 0.42])
    for direction in np.eye(3):
        goal = achieved + jnp.asarray(distance * direction, jnp.float32)
        assert bool(task.reached(achieved, goal)) == expected
        assert float(task.reward(achieved, goal, jnp.int32(7))) == (43 if expected else 0)


def test_the_last_action_that_reaches_a_goal_earns_one() -> None:
    goal = jnp.array([1.3, 0.7, 0.42])
    assert float(FetchPushTask().reward(goal, goal, jnp.int32(49))) == 1


def test_in_hindsight_goals_are_reached_exactly_where_the_simulator_itself_says_so(
    simulator: FetchPush, bare: Any
) -> None:
    """Every block position of a few episodes is judged under every other one and under the drawn goals."""
    generator = np.random.default_rng(0)
    achieved, goals = [], []
    for seed in range(6):
        achieved.append(simulator.reset(seed).achieved_goal)
        goals.append(simulator.sample_goal(seed))
        achieved += [simulator.step(generator.integers(4, 8)).achieved_goal for _ in range(5)]
    goals += achieved
    task = FetchPushTask()
    every = jax.jit(jax.vmap(jax.vmap(task.reached, (None, 0)), (0, None)))(np.stack(achieved), np.stack(goals))
    judged = [
        [bool(bare.unwrapped._is_success(a.astype(np.float64), goal.astype(np.float64))) for goal in goals]
        for a in achieved
    ]
    np.testing.assert_array_equal(np.asarray(every), judged)
    assert 0.1 < np.mean(judged) < 0.9


@pytest.mark.usefixtures("drawing")
def test_a_picture_shows_the_goal_without_changing_it(simulator: FetchPush) -> None:
    simulator.reset(2)
    goal = simulator.sample_goal(2)
    pictures = [simulator.picture(goal + np.array([shift, 0, 0], np.float32)) for shift in (0.0, 0.1)]
    assert pictures[0].shape == (480, 480, 3)
    assert (pictures[0] != pictures[1]).any()
    np.testing.assert_array_equal(simulator.sample_goal(2), goal)


def test_without_opengl_there_is_a_sentence(simulator: FetchPush, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise AttributeError("'NoneType' object has no attribute 'eglQueryString'")

    simulator.reset(0)
    monkeypatch.setattr(simulator._environment, "render", fail)
    with pytest.raises(HindsightError, match=r"^FetchPush cannot be drawn \(AttributeError.*MUJOCO_GL=egl"):
        simulator.picture(simulator.sample_goal(0))


@pytest.mark.parametrize("package", ["mujoco", "gymnasium_robotics"])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(HindsightError, match=r"^FetchPush needs .*pip install 'hindsight-rl\[robotics\]'.$"):
        FetchPush()


def test_a_renderer_that_does_not_load_is_named() -> None:
    """In a process of its own, as MuJoCo looks at the setting when it is first imported."""
    code = "from hindsight_rl.environments.extras import import_robotics; import_robotics()"
    environment = {**os.environ, "MUJOCO_GL": "nonsense"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert "HindsightError: MuJoCo cannot be loaded with MUJOCO_GL=nonsense" in done.stderr


@pytest.mark.parametrize(
    ("given", "display", "expected"),
    [(None, None, "egl"), ("", None, "egl"), ("osmesa", None, "osmesa"), (None, ":0", None), ("", ":0", None)],
)
def test_the_renderer_is_chosen_when_there_is_no_display(
    monkeypatch: pytest.MonkeyPatch, given: str | None, display: str | None, expected: str | None
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    for name, value in (("MUJOCO_GL", given), ("DISPLAY", display)):
        monkeypatch.setenv(name, value or "")
        if value is None:
            monkeypatch.delenv(name)
    choose_renderer()
    assert os.environ.get("MUJOCO_GL") == expected
