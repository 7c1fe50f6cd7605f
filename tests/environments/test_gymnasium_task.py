"""What a learner is told of a Gymnasium goal environment: its sizes, and rewards that are the environment's own."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.extras import choose_renderer

choose_renderer()
pytest.importorskip("gymnasium_robotics", exc_type=ImportError)

import gymnasium  # noqa: E402
from reference.goal_environments import (  # noqa: E402
    PLACES,
    Line,
    batched_reward,
    misleading_reward,
    single_reward,
)

from hindsight_rl.environments.gymnasium.simulator import GymnasiumGoal  # noqa: E402
from hindsight_rl.environments.gymnasium.task import GymnasiumTask, gymnasium_task  # noqa: E402

KNOWN = {
    "FetchReach-v4": (51, (10,), (3,), 4),
    "FetchReachDense-v4": (51, (10,), (3,), 4),
    "FetchPush-v4": (51, (25,), (3,), 4),
    "PointMaze_UMaze-v3": (301, (4,), (2,), 2),
    "PointMaze_UMazeDense-v3": (301, (4,), (2,), 2),
}


@pytest.fixture(scope="module", params=KNOWN)
def task(request: pytest.FixtureRequest) -> GymnasiumTask:
    return gymnasium_task(request.param)


def played(task: GymnasiumTask, episodes: int = 3, steps: int = 6) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """Achieved goals, drawn goals, and (achieved, desired, reward) of every step as the bare environment gives them."""
    generator = np.random.default_rng(0)
    assert task.action_bounds is not None
    low, high = map(np.asarray, task.action_bounds)
    bare = gymnasium.make(task.name)
    achieved, goals, given = [], [], []
    for seed in range(episodes):
        seen, _ = bare.reset(seed=seed)
        goals.append(seen["desired_goal"])
        for _ in range(steps):
            desired = seen["desired_goal"]
            action = generator.uniform(low, high).astype(np.float32)
            seen, reward, *_ = bare.step(action)
            achieved.append(seen["achieved_goal"])
            given.append((seen["achieved_goal"], desired, reward))
    bare.close()
    return np.stack(achieved), np.stack(goals), given


def test_sizes_of_known_environments(task: GymnasiumTask) -> None:
    horizon, observation, goal, action = KNOWN[task.name]
    assert (task.horizon, task.observation_shape, task.goal_shape, task.action_count) == (
        horizon,
        observation,
        goal,
        action,
    )
    assert task.observation_type == "float32"
    assert task.continuous
    assert task.goal_count == 1
    assert task.action_bounds == ((-1.0,) * action, (1.0,) * action)
    assert float(task.goal_probability(np.zeros(goal, np.float32))) == 1


def test_the_reward_of_the_pursued_goal_is_the_one_that_the_environment_gave(task: GymnasiumTask) -> None:
    for achieved, desired, reward in played(task)[2]:
        hindsight = task.rewards.rewards(achieved.astype(np.float32), desired.astype(np.float32), np.int64(1))
        np.testing.assert_allclose(hindsight, reward, rtol=1e-5, atol=1e-6)


def test_the_reward_of_every_other_goal_is_what_the_environment_would_have_given(task: GymnasiumTask) -> None:
    """Singly through the bare environment, all together through the task, traced or not."""
    achieved, drawn, _ = played(task)
    goals = np.concatenate([achieved, drawn])
    bare: Any = gymnasium.make(task.name).unwrapped
    expected = np.array([[bare.compute_reward(a, goal, {}) for goal in goals] for a in achieved])
    small_achieved, small_goals = achieved.astype(np.float32), goals.astype(np.float32)
    together = task.rewards.rewards(small_achieved[:, None], small_goals[None], np.ones((1, 1), np.int64))
    assert together.dtype == np.float32
    np.testing.assert_allclose(together, expected, rtol=1e-5, atol=1e-6)
    mapped = jax.vmap(jax.vmap(task.reward, (None, 0, None)), (0, None, None))
    np.testing.assert_array_equal(jax.jit(mapped)(small_achieved, small_goals, 1), together)
    bare.close()


def test_when_goals_are_reached(task: GymnasiumTask) -> None:
    """By the distance that each environment documents; the dense maze goes on forever."""
    achieved, drawn, _ = played(task)
    goals = np.concatenate([achieved, drawn]).astype(np.float32)
    achieved = achieved.astype(np.float32)
    distance = np.linalg.norm(achieved[:, None] - goals[None], axis=-1)
    expected = {
        "PointMaze_UMaze-v3": distance <= 0.45,
        "PointMaze_UMazeDense-v3": np.zeros(distance.shape, bool),
    }.get(task.name, distance < 0.05)
    reached = jax.jit(jax.vmap(jax.vmap(task.reached, (None, 0)), (0, None)))(achieved, goals)
    np.testing.assert_array_equal(np.asarray(reached), expected)
    np.testing.assert_array_equal(task.rewards.reached(achieved[:, None], goals[None]), expected)
    assert len(task.notices) == (1 if task.name == "PointMaze_UMazeDense-v3" else 0)


def test_an_episodic_maze_tells_when_a_goal_is_reached() -> None:
    """With `continuing_task=False` it terminates at its goal, and this is used where the reward does not tell."""
    task = gymnasium_task("PointMaze_UMazeDense-v3", options={"continuing_task": False})
    assert task.notices == ()
    goals = np.array([[1.0, 1.0], [1.3, 1.0], [1.5, 1.0]], np.float32)
    np.testing.assert_array_equal(task.rewards.reached(goals[0], goals), [True, True, False])


def test_large_questions_from_compiled_programs_are_answered(task: GymnasiumTask) -> None:
    generator = np.random.default_rng(0)
    goals = generator.normal(size=(60, *task.goal_shape)).astype(np.float32)
    achieved = generator.normal(size=(800, *task.goal_shape)).astype(np.float32)
    mapped = jax.jit(jax.vmap(jax.vmap(task.reward, (0, None, 0)), (None, 0, None)))
    rewards = mapped(achieved, goals, np.arange(800))
    np.testing.assert_array_equal(rewards, task.rewards.rewards(achieved[None], goals[:, None], np.arange(800)[None]))


@pytest.mark.parametrize(
    ("reward", "batches"), [(batched_reward, True), (single_reward, False), (misleading_reward, False)]
)
def test_rewards_that_take_no_batches_are_noticed_and_computed_one_by_one(
    reward: Callable[..., Any], batches: bool
) -> None:
    task = gymnasium_task(Line(reward=reward), horizon=10)
    places = np.arange(PLACES, dtype=np.float32)[:, None]
    expected = [[reward(place, goal, {}) for goal in places] for place in places]
    np.testing.assert_array_equal(task.rewards.rewards(places[:, None], places[None], np.zeros((1, 1))), expected)
    np.testing.assert_array_equal(task.rewards.reached(places[:, None], places[None]), np.eye(PLACES, dtype=bool))
    assert [("takes no batches" in notice) for notice in task.rewards.notices] == ([] if batches else [True])


def test_a_reward_may_depend_on_time() -> None:
    def late(achieved: np.ndarray, goal: np.ndarray, info: Any) -> Any:
        return 2.0 * info["time"] + np.zeros(achieved.shape[:-1])

    task = gymnasium_task(Line(reward=late), horizon=5)
    zeros = np.zeros((3, 1), np.float32)
    np.testing.assert_array_equal(task.rewards.rewards(zeros, zeros, np.array([1, 2, 4])), [2, 4, 8])


def test_a_source_makes_the_same_simulator_again(task: GymnasiumTask) -> None:
    built = task.source().build()
    np.testing.assert_array_equal(built.reset(3).observation, GymnasiumGoal(task.name).reset(3).observation)
    built.close()


def test_sources_of_functions_and_of_made_environments() -> None:
    assert gymnasium_task(Line, horizon=4).source().build().reset(0).observation.shape == (1,)
    made = gymnasium.make("FetchReach-v4")
    assert gymnasium_task(made).source().build().reset(0).observation.shape == (10,)


def test_a_reward_that_is_no_number_is_named() -> None:
    def moody(achieved: np.ndarray, goal: np.ndarray, info: Any) -> Any:
        return np.where(achieved[..., 0] > 100, np.nan, 0.0)

    task = gymnasium_task(Line(reward=moody), horizon=5)
    far = np.full((2, 1), 200, np.float32)
    with pytest.raises(HindsightError, match="'Line': compute_reward gave something else than one finite number"):
        task.rewards.rewards(far, far, np.zeros(2))
