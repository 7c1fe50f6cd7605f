"""What every registered environment that compiles must keep to; a new one is tested by being registered."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.compilation import quick_jit
from reference.reachable import distinct, reachable_states
from scipy.stats import chisquare

from hindsight_rl.environments.contract import check_environment
from hindsight_rl.environments.contract.compiled import COMPILED
from hindsight_rl.environments.interface import Environment
from hindsight_rl.environments.registry import ENVIRONMENTS, make
from hindsight_rl.rollout.compiled import collect

MAP = "slip: 0.1\nhorizon: 9\n#####\n#S..#\n#.#.#\n#..S#\n#####\n"


@dataclass(frozen=True, eq=False)
class Subject:
    """An environment under test, with what the tests share."""

    environment: Environment

    @cached_property
    def states(self) -> np.ndarray:
        return reachable_states(self.environment)

    @cached_property
    def goals(self) -> np.ndarray:
        """The distinct goals that reachable states achieve."""
        return distinct(np.asarray(quick_jit(jax.vmap(self.environment.achieved_goal))(jnp.asarray(self.states))))

    @cached_property
    def probabilities(self) -> np.ndarray:
        return np.asarray(quick_jit(jax.vmap(self.environment.goal_probability))(jnp.asarray(self.goals)))

    def drawn_goals(self, count: int) -> np.ndarray:
        return np.asarray(quick_jit(jax.vmap(self.environment.sample_goal))(jax.random.split(jax.random.key(5), count)))


@pytest.fixture(scope="module", params=[name for name, entry in ENVIRONMENTS.items() if not entry.hosted])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    if request.param != "grid":
        return Subject(make(request.param))
    path = tmp_path_factory.mktemp("maps") / "ring.txt"
    path.write_text(MAP)
    return Subject(make("grid", map=str(path)))


def keys(seed: int, count: int) -> jax.Array:
    return jax.random.split(jax.random.key(seed), count)


def test_the_contract_is_kept(subject: Subject) -> None:
    """Shapes and types, determinism, purity, goals that reach themselves, rewards, probabilities, text."""
    findings = list(check_environment(subject.environment, seed=5))
    assert [finding for finding in findings if not finding.passed] == []
    assert [finding.check for finding in findings] == [check.name for check in COMPILED]
    assert subject.environment.observation_type == "float32"


def test_counts_are_whole_numbers_that_make_sense(subject: Subject) -> None:
    environment = subject.environment
    assert environment.action_count >= 2
    assert environment.state_limit is None or environment.state_limit >= len(subject.states)


def test_the_same_keys_give_the_same_whether_mapped_or_alone(subject: Subject) -> None:
    environment = subject.environment

    def first_step(reset_key: jax.Array, goal_key: jax.Array, step_key: jax.Array) -> tuple[Any, ...]:
        state = environment.reset(reset_key)
        following = environment.step(state, jnp.int32(1), step_key)
        return state, environment.sample_goal(goal_key), following, environment.observe(following)

    arguments = keys(0, 12), keys(1, 12), keys(2, 12)
    mapped = quick_jit(jax.vmap(first_step))(*arguments)
    compiled = quick_jit(first_step)
    for number in (0, 7, 7):
        alone = compiled(*(argument[number] for argument in arguments))
        jax.tree.map(lambda many, one, n=number: np.testing.assert_array_equal(many[n], one), mapped, alone)
    goals = np.asarray(mapped[1])
    assert len(distinct(goals)) > 1, "different keys should draw different goals"


def test_goal_probabilities_add_up_to_one(subject: Subject) -> None:
    assert np.all(subject.probabilities >= 0)
    assert np.sum(subject.probabilities > 0) == subject.environment.goal_count
    np.testing.assert_allclose(np.sum(subject.probabilities, dtype=float), 1, rtol=1e-5)


def test_goals_are_drawn_with_their_probability(subject: Subject) -> None:
    """Chi-square over 20 draws a goal; with this seed a sound sampler passes, a wrong one falls below one in 1000."""
    support = subject.probabilities > 0
    drawn = subject.drawn_goals(20 * int(support.sum()))
    position = {tuple(goal.ravel()): number for number, goal in enumerate(subject.goals)}
    numbers = [position[tuple(goal.ravel())] for goal in drawn]
    counts = np.bincount(numbers, minlength=len(subject.goals))
    assert np.all(counts[~support] == 0)
    expected = subject.probabilities[support].astype(float)
    assert chisquare(counts[support], expected / expected.sum() * len(drawn)).pvalue > 1e-3


def test_a_goal_is_reached_by_itself(subject: Subject) -> None:
    goals = jnp.asarray(subject.goals)
    reached = np.asarray(quick_jit(jax.vmap(subject.environment.reached))(goals, goals))
    assert reached.all()


def test_the_reward_is_the_remaining_time_exactly_where_the_goal_is_reached(subject: Subject) -> None:
    environment = subject.environment
    achieved = jnp.asarray(np.random.default_rng(0).permutation(subject.goals)[:12])
    times = jnp.arange(1, environment.horizon)

    def every_pair(function: Callable[..., jax.Array], *more: jax.Array) -> jax.Array:
        return jax.vmap(lambda a: jax.vmap(lambda goal: function(a, goal, *more))(achieved))(achieved)

    reached = np.asarray(quick_jit(lambda: every_pair(environment.reached))())
    rewards = np.asarray(quick_jit(jax.vmap(lambda time: every_pair(environment.reward, time)))(times))
    assert reached.any()
    assert not reached.all()
    remaining = environment.horizon - np.asarray(times)
    np.testing.assert_array_equal(rewards, np.where(reached[None], remaining[:, None, None], 0))
    assert remaining[-1] == 1, "the last action that can reach a goal earns one"


def test_a_picture_is_a_rectangle_that_shows_the_goal(subject: Subject) -> None:
    goals = subject.goals[subject.probabilities > 0]
    pictures = {subject.environment.render(state, goal) for state in subject.states[:3] for goal in goals[:3]}
    assert len(pictures) == min(3, len(subject.states)) * min(3, len(goals))
    shapes = {tuple(len(line) for line in picture.split("\n")) for picture in pictures}
    assert len(shapes) == 1
    widths = shapes.pop()
    assert len(set(widths)) == 1
    assert widths[0] > 0


def test_an_episode_has_one_state_more_than_actions(subject: Subject) -> None:
    environment = subject.environment

    def explore(observations: jax.Array, goals: jax.Array, time: jax.Array, key: jax.Array) -> tuple[Any, ...]:
        return jnp.zeros(3, jnp.int32), jnp.zeros(3)

    episodes = jax.eval_shape(lambda key: collect(environment, explore, 3, key), jax.random.key(0))
    assert episodes.observations.shape[:2] == (3, environment.horizon)
    assert episodes.achieved_goals.shape[:2] == (3, environment.horizon)
    assert episodes.actions.shape == episodes.log_probabilities.shape == (3, environment.horizon - 1)
    assert episodes.pursued_goals.shape == (3, *subject.goals.shape[1:])
