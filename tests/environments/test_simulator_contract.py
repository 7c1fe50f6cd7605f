"""What every simulator must keep to, and every task that describes one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.system import need_drawing

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.contract import check_environment
from hindsight_rl.environments.contract.hosted import HOSTED
from hindsight_rl.environments.extras import choose_renderer
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.environments.simulators import Observed, Simulator

choose_renderer()
pytest.importorskip("ale_py")
pytest.importorskip("mujoco")
pytest.importorskip("gymnasium")

from hindsight_rl.environments.fetch_push import FetchPushTask  # noqa: E402
from hindsight_rl.environments.gymnasium.task import gymnasium_task  # noqa: E402
from hindsight_rl.environments.ms_pacman.game import MsPacmanTask  # noqa: E402

STEPS = 7


@dataclass(frozen=True, eq=False)
class Subject:
    """A task with two of its simulators."""

    task: HostedTask
    simulator: Simulator
    other: Simulator
    draws: bool
    by_mujoco: bool

    def actions(self, seed: int) -> np.ndarray:
        generator = np.random.default_rng(seed)
        if not self.task.continuous:
            return generator.integers(self.task.action_count, size=STEPS)
        return generator.uniform(-1, 1, (STEPS, self.task.action_count))


TASKS: dict[str, Callable[[], HostedTask]] = {
    "ms-pacman": MsPacmanTask,
    "fetch-push": FetchPushTask,
    "fetch-reach": lambda: gymnasium_task("FetchReach-v4"),
    "point-maze": lambda: gymnasium_task("PointMaze_UMaze-v3"),
    "four-rooms": lambda: gymnasium_task("hindsight_rl.environments.as_gymnasium:hindsight/FourRooms-v0"),
}
WITHOUT_PICTURES = ("four-rooms",)
DRAWN_BY_MUJOCO = ("fetch-push", "fetch-reach", "point-maze")


@pytest.fixture(scope="module", params=TASKS)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    task, draws = TASKS[request.param](), request.param not in WITHOUT_PICTURES
    first, second = (task.source(pictures=draws).build() for _ in range(2))
    made = Subject(task, first, second, draws, request.param in DRAWN_BY_MUJOCO)
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


def test_the_contract_is_kept(subject: Subject) -> None:
    """Shapes and types, the same episodes from the same seeds, arrays that stay, rewards under other goals."""
    findings = list(check_environment(subject.task, seed=5))
    assert [finding for finding in findings if not finding.passed] == []
    assert [finding.check for finding in findings] == [check.name for check in HOSTED]


def test_an_episode_that_was_broken_off_leaves_no_trace(subject: Subject) -> None:
    actions = subject.actions(1)
    fresh = play(subject.other, 5, actions)
    play(subject.simulator, 6, subject.actions(2))
    subject.simulator.reset(7)
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


def test_looking_changes_nothing(subject: Subject) -> None:
    actions = subject.actions(5)
    if not subject.draws:
        with pytest.raises(HindsightError, match="was not made for pictures"):
            play(subject.simulator, 8, actions, look=True)
        return
    if subject.by_mujoco:
        need_drawing()
    assert_same(play(subject.simulator, 8, actions, look=True), play(subject.other, 8, actions))


def test_a_picture_is_in_colour(subject: Subject) -> None:
    if not subject.draws:
        return
    if subject.by_mujoco:
        need_drawing()
    subject.simulator.reset(1)
    picture = subject.simulator.picture(subject.simulator.sample_goal(1))
    assert picture.dtype == np.uint8
    assert picture.ndim == 3
    assert picture.shape[2] == 3
    assert picture.std() > 0


def test_other_seeds_give_other_goals(subject: Subject) -> None:
    goals = []
    for seed in range(5):
        subject.simulator.reset(seed)
        goals.append(subject.simulator.sample_goal(seed))
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
    assert task.continuous == (task.action_bounds is not None)
    assert task.continuous or task.action_count > 1
    assert (task.goal_count > 1) == isinstance(task, MsPacmanTask), "elsewhere goals form a continuum"
    assert task.state_limit is None
    assert task.name
