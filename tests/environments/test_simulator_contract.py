"""What every simulator must keep to, and every task that describes one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.extras import choose_renderer
from hindsight_rl.environments.simulators import Observed, Simulator
from hindsight_rl.environments.task import HostedTask

choose_renderer()
pytest.importorskip("ale_py")
pytest.importorskip("mujoco")
pytest.importorskip("gymnasium")

from hindsight_rl.environments.fetch_push import FetchPushTask  # noqa: E402
from hindsight_rl.environments.gymnasium_task import gymnasium_task  # noqa: E402
from hindsight_rl.environments.ms_pacman import MsPacmanTask  # noqa: E402

STEPS = 7


@dataclass(frozen=True, eq=False)
class Subject:
    """A task with two of its simulators."""

    task: HostedTask
    simulator: Simulator
    other: Simulator
    draws: bool

    def actions(self, seed: int) -> np.ndarray:
        generator = np.random.default_rng(seed)
        if self.task.action_count is not None:
            return generator.integers(self.task.action_count, size=STEPS)
        return generator.uniform(-1, 1, (STEPS, self.task.action_size))


TASKS: dict[str, Callable[[], HostedTask]] = {
    "ms-pacman": MsPacmanTask,
    "fetch-push": FetchPushTask,
    "fetch-reach": lambda: gymnasium_task("FetchReach-v4"),
    "point-maze": lambda: gymnasium_task("PointMaze_UMaze-v3"),
    "four-rooms": lambda: gymnasium_task("hindsight_rl.environments.as_gymnasium:hindsight/FourRooms-v0"),
}
WITHOUT_PICTURES = ("four-rooms",)


@pytest.fixture(scope="module", params=TASKS)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    task, draws = TASKS[request.param](), request.param not in WITHOUT_PICTURES
    made = Subject(task, task.source(pictures=draws).build(), task.source(pictures=draws).build(), draws)
    yield made
    made.simulator.close()
    made.other.close()


def play(simulator: Simulator, seed: int, actions: np.ndarray, look: bool = False) -> list[Observed]:
    states = [simulator.reset(seed)]
    goal = simulator.sample_goal(seed)
    for action in actions:
        if look:
            simulator.picture(goal)
        states.append(simulator.step(action))
    return states


def assert_same(states: list[Observed], others: list[Observed]) -> None:
    for state, other in zip(states, others, strict=True):
        assert state.observation.tobytes() == other.observation.tobytes()
        assert state.achieved_goal.tobytes() == other.achieved_goal.tobytes()
        assert state.over == other.over


def test_the_same_seed_and_actions_give_the_same_episode_whatever_went_before(subject: Subject) -> None:
    actions = subject.actions(1)
    fresh = play(subject.other, 5, actions)
    play(subject.simulator, 6, subject.actions(2))
    subject.simulator.reset(7)
    assert_same(play(subject.simulator, 5, actions), fresh)
    assert_same(play(subject.simulator, 5, actions), fresh)


def test_other_seeds_or_actions_give_other_episodes(subject: Subject) -> None:
    episodes = set()
    for seed in range(6):
        states = play(subject.simulator, seed, subject.actions(0))
        # Some robots always start alike, with another goal.
        episodes.add((states[-1].observation.tobytes(), subject.simulator.sample_goal(seed).tobytes()))
    assert len(episodes) > 1
    ways = [play(subject.simulator, 0, subject.actions(seed)) for seed in range(4)]
    assert len({states[-1].observation.tobytes() for states in ways}) > 1


def test_what_was_seen_stays_as_it_was(subject: Subject) -> None:
    """No array is written to again."""
    states = play(subject.simulator, 3, subject.actions(3))
    copies = [Observed(state.observation.copy(), state.achieved_goal.copy(), state.over) for state in states]
    play(subject.simulator, 4, subject.actions(4))
    assert_same(states, copies)


def test_looking_changes_nothing(subject: Subject) -> None:
    actions = subject.actions(5)
    if not subject.draws:
        with pytest.raises(HindsightError, match="was not made for pictures"):
            play(subject.simulator, 8, actions, look=True)
        return
    assert_same(play(subject.simulator, 8, actions, look=True), play(subject.other, 8, actions))


def test_shapes_and_types(subject: Subject) -> None:
    task = subject.task
    for state in play(subject.simulator, 2, subject.actions(6)):
        assert (state.observation.shape, state.observation.dtype) == (task.observation_shape, task.observation_type)
        assert (state.achieved_goal.shape, state.achieved_goal.dtype) == (task.goal_shape, np.float32)
        assert type(state.over) is bool
        assert np.isfinite(state.observation).all()


def test_a_picture_is_in_colour(subject: Subject) -> None:
    if not subject.draws:
        return
    subject.simulator.reset(1)
    picture = subject.simulator.picture(subject.simulator.sample_goal(1))
    assert picture.dtype == np.uint8
    assert picture.ndim == 3
    assert picture.shape[2] == 3
    assert picture.std() > 0


def test_goals_follow_from_the_seed(subject: Subject) -> None:
    goals = []
    for simulator in (subject.simulator, subject.other):
        for seed in range(5):
            simulator.reset(seed)
            goals.append(simulator.sample_goal(seed))
    np.testing.assert_array_equal(goals[:5], goals[5:])
    assert {(goal.shape, goal.dtype) for goal in goals} == {(subject.task.goal_shape, np.dtype(np.float32))}
    assert len({goal.tobytes() for goal in goals}) > 1
    assert all(float(subject.task.goal_probability(jnp.asarray(goal))) > 0 for goal in goals)


def test_rewards_and_achievements_can_be_traced_and_mapped(subject: Subject) -> None:
    """Over goals, episodes and times, as the learner does; alone they are the same."""
    task = subject.task
    achieved = np.stack([state.achieved_goal for state in play(subject.simulator, 0, subject.actions(0))])
    times = np.arange(len(achieved), dtype=np.int32)
    rewards = jax.jit(jax.vmap(jax.vmap(task.reward, (0, None, 0)), (None, 0, None)))(achieved, achieved, times)
    reached = jax.jit(jax.vmap(jax.vmap(task.reached, (0, None)), (None, 0)))(achieved, achieved)
    assert (rewards.shape, rewards.dtype) == ((STEPS + 1, STEPS + 1), jnp.float32)
    assert (reached.shape, reached.dtype) == ((STEPS + 1, STEPS + 1), jnp.bool_)
    assert np.asarray(reached).diagonal().all(), "a goal is reached by itself"
    for goal, time in ((0, 0), (2, 5), (7, 1)):
        alone = task.reward(jnp.asarray(achieved[time]), jnp.asarray(achieved[goal]), jnp.int32(time))
        assert float(alone) == float(rewards[goal, time])


def test_the_sizes_make_sense(subject: Subject) -> None:
    task = subject.task
    assert task.horizon >= 2
    assert (task.action_count is None) != (task.action_size is None)
    assert task.goal_count is None or task.goal_count > 1
    assert task.state_limit is None
    assert task.name
