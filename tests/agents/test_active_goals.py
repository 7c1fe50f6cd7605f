"""Which goals an episode teaches about, and the draw of a few of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference import plain_agent
from reference.compilation import quick_jit
from reference.methods import METHODS, learning_rates
from scipy.stats import chisquare

from hindsight_rl.agents.active_goals import active_goals, own_rewards, pursued_goals, rewards_of_goals
from hindsight_rl.agents.options import HindsightOptions, PolicyOptions
from hindsight_rl.agents.policy_gradient import policy_gradient_agent
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.goals import GoalSet
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.grid_world import GridWorld, empty_room

ROOM = GridWorld("S....\n....S", horizon=9)
"""Eight goals and two starts, which have p(g) = 0; eight actions."""

A, B, C, D, E = [0, 1], [0, 2], [0, 3], [1, 0], [1, 1]
START = [0, 0]


def episodes_through(visited: np.ndarray, lengths: np.ndarray) -> Episodes:
    """Episodes that visit the given cells after a first state; all else is of no importance here."""
    batch_size, times = visited.shape[:2]
    cells = np.concatenate([np.zeros((batch_size, 1, 2)), visited], axis=1).astype(np.float32)
    return Episodes(
        observations=jnp.asarray(cells),
        achieved_goals=jnp.asarray(cells),
        actions=jnp.zeros((batch_size, times), jnp.int32),
        pursued_goals=jnp.asarray(cells[:, 1]),
        lengths=jnp.asarray(lengths),
        log_probabilities=jnp.zeros((batch_size, times)),
    )


def goal_sets(episodes: Episodes, cap: int | None, draws: int = 1) -> list[frozenset[tuple[float, ...]]]:
    """The set of active goals for each of several keys; fails if a goal is in one of them twice."""
    keys = jax.random.split(jax.random.key(2), draws)
    found: GoalSet = quick_jit(
        jax.vmap(lambda key: active_goals(ROOM, episodes, key, HindsightOptions(max_active_goals=cap)))
    )(keys)
    goals, present = np.asarray(found.goals).tolist(), np.asarray(found.present)
    sets = []
    for rows, flags in zip(goals, present, strict=True):
        chosen = [tuple(row) for row, flag in zip(rows, flags, strict=True) if flag]
        assert len(chosen) == len(set(chosen)), "a goal occurs twice"
        sets.append(frozenset(chosen))
    return sets


def one_episode() -> Episodes:
    """Five distinct goals, some visited again; starts on the way; goals beyond the end."""
    return episodes_through(np.array([[A, START, A, A, B, C, D, E]]), np.array([8]))


def named(*cells: list[int]) -> frozenset[tuple[float, ...]]:
    return frozenset((float(row), float(column)) for row, column in cells)


def test_all_goals_reached_are_active_but_no_start() -> None:
    assert goal_sets(one_episode(), cap=None) == [named(A, B, C, D, E)]


def test_what_follows_the_end_of_an_episode_does_not_count() -> None:
    episodes = one_episode()._replace(lengths=jnp.array([5]))
    assert goal_sets(episodes, cap=None) == [named(A, B)]


@pytest.mark.parametrize("cap", [5, 8])
def test_a_cap_that_does_not_bind_changes_nothing(cap: int) -> None:
    assert goal_sets(one_episode(), cap, draws=3) == [named(A, B, C, D, E)] * 3


def test_every_choice_under_a_cap_is_equally_likely() -> None:
    """Two of five goals: ten choices. Chi-square over 3000 keys; how often a goal was visited must not matter."""
    draws = goal_sets(one_episode(), cap=2, draws=3000)
    choices = set(draws)
    assert choices == {named(x, y) for x in (A, B, C, D, E) for y in (A, B, C, D, E) if x != y}
    assert chisquare([draws.count(choice) for choice in choices]).pvalue > 1e-3


def bit_episodes(bits: np.ndarray, pursued: np.ndarray) -> Episodes:
    batch_size, times = len(bits), bits.shape[1] - 1
    return Episodes(
        observations=jnp.asarray(bits, jnp.float32),
        achieved_goals=jnp.asarray(bits, jnp.float32),
        actions=jnp.zeros((batch_size, times), jnp.int32),
        pursued_goals=jnp.asarray(pursued, jnp.float32),
        lengths=jnp.full(batch_size, times),
        log_probabilities=jnp.zeros((batch_size, times)),
    )


def test_goals_reached_at_the_start_can_be_left_out() -> None:
    """The start is a goal in bit flipping; within a cap another goal takes its place."""
    bits = np.array([[[0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 1, 0]], [[1, 0, 0], [1, 0, 1], [1, 0, 0], [1, 0, 1]]])
    episodes = bit_episodes(bits, np.array([[0, 0, 0], [1, 1, 1]]))
    environment, options = BitFlipping(3), HindsightOptions(skip_reached=True, max_active_goals=2)
    found = quick_jit(lambda e: active_goals(environment, e, jax.random.key(0), options))(episodes)
    goals = np.asarray(found.goals)[np.asarray(found.present)].tolist()
    assert sorted(goals) == [[0, 1, 0], [1, 0, 0], [1, 0, 1]]
    rewards, decides = quick_jit(lambda e: rewards_of_goals(environment, e, found, options))(episodes)
    # The second episode began at [1, 0, 0], which the first one shows how to reach.
    assert np.asarray(rewards)[goals.index([1, 0, 0])].tolist() == [[3, 0, 0], [0, 0, 0]]
    assert np.asarray(decides)[goals.index([1, 0, 0])].tolist() == [[True, False, False], [False] * 3]
    assert np.asarray(rewards)[goals.index([1, 0, 1])].tolist() == [[0, 0, 0], [3, 0, 0]]
    own, decides = quick_jit(lambda e: own_rewards(environment, e, options))(episodes)
    assert not np.any(own)
    assert np.asarray(decides).tolist() == [[False] * 3, [True] * 3]


class Nearness(BitFlipping):
    """A goal is reached within one bit."""

    def reached(self, achieved: jax.Array, goal: jax.Array) -> jax.Array:
        return jnp.sum(achieved != goal) <= 1


def test_goals_that_reach_each_other_can_share_the_weight_of_a_place() -> None:
    """Four goals have two others a bit away, and one has none; where a goal reaches itself alone, nothing changes."""
    bits = np.array([[[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0]], [[0, 0, 0, 0]] * 3 + [[1, 0, 1, 1]]])
    episodes = bit_episodes(bits, np.zeros((2, 4)))
    in_reach: dict[tuple[int, ...], int] = {
        (0, 0, 0, 0): 3,
        (1, 0, 0, 0): 3,
        (0, 1, 0, 0): 3,
        (1, 1, 0, 0): 3,
        (1, 0, 1, 1): 1,
    }
    for environment, shares in ((Nearness(4), in_reach), (BitFlipping(4), dict.fromkeys(in_reach, 1))):  # type: ignore[call-arg]
        find = quick_jit(
            lambda e, task=environment: active_goals(task, e, jax.random.key(0), HindsightOptions(share_places=True))
        )
        found = find(episodes)
        present = np.asarray(found.present)
        goals = [tuple(map(int, goal)) for goal in np.asarray(found.goals)[present]]
        weights = dict(zip(goals, np.asarray(found.probabilities)[present], strict=True))
        assert weights.keys() == in_reach.keys()
        assert all(weight == pytest.approx(1 / 16 / shares[goal]) for goal, weight in weights.items())
        assert not np.any(np.asarray(found.probabilities)[~present])


@pytest.mark.parametrize("method", ["gcpg+b", "hpg+b"])
def test_a_batch_that_teaches_nothing_changes_nothing(method: str) -> None:
    """Every episode begins at its goal and stays: no gradient, and no division by the number of decisions."""
    bits = np.tile([[[0, 0, 1]], [[1, 1, 0]]], (1, 4, 1))
    agent = policy_gradient_agent(BitFlipping(3), METHODS[method], PolicyOptions(hidden_layers=(5,), skip_reached=True))
    state = quick_jit(agent.init)(jax.random.key(0))
    rates = learning_rates(0.5, 0.5)
    after, cause, _ = quick_jit(agent.update)(state, bit_episodes(bits, bits[:, 0]), rates, jax.random.key(0))
    assert int(cause) == 0
    jax.tree.map(np.testing.assert_array_equal, (after.policy, after.baseline), (state.policy, state.baseline))


def test_each_episode_puts_forward_its_own_share_and_all_are_pooled() -> None:
    first, second = [A, B, C, A, B, C, A, B], [D, E, [1, 2], [1, 3], D, E, D, E]
    draws = goal_sets(episodes_through(np.array([first, second]), np.array([8, 8])), cap=2, draws=50)
    for pooled in draws:
        assert len(pooled & named(A, B, C)) == 2
        assert len(pooled & named(D, E, [1, 2], [1, 3])) == 2
    assert len(set(draws)) > 5


def test_a_goal_drawn_by_two_episodes_counts_once() -> None:
    episodes = episodes_through(np.array([[A] * 8, [A] * 8]), np.array([8, 8]))
    assert goal_sets(episodes, cap=1, draws=2) == [named(A)] * 2


def test_equal_lots_do_not_break_the_cap() -> None:
    """With this key the third and fourth highest lots of the first episode are the same number."""
    room = empty_room()
    numbers = np.arange(1, 32)
    first, second = np.stack([numbers // 11, numbers % 11], axis=1), np.tile([[10, 10]], (31, 1))
    episodes = episodes_through(np.array([first, second]), np.array([31, 31]))
    found = quick_jit(lambda e: active_goals(room, e, jax.random.key(384736), HindsightOptions(max_active_goals=3)))(
        episodes
    )
    assert int(jnp.sum(found.present)) == 3 + 1


def test_episodes_that_reach_no_goal_have_none() -> None:
    assert goal_sets(episodes_through(np.array([[START] * 8]), np.array([8])), cap=None) == [frozenset()]


@quick_jit
def uncapped(episodes: Episodes) -> GoalSet:
    return active_goals(ROOM, episodes, jax.random.key(0))


@quick_jit
def capped(episodes: Episodes, key: jax.Array) -> GoalSet:
    return active_goals(ROOM, episodes, key, HindsightOptions(max_active_goals=2))


VISITS = arrays(np.int64, (3, 8), elements=st.integers(0, 9))
LENGTHS = arrays(np.int64, 3, elements=st.integers(1, 8))


@given(visits=VISITS, lengths=LENGTHS, seed=st.integers(0, 2**31))
def test_active_goals_of_random_walks(visits: np.ndarray, lengths: np.ndarray, seed: int) -> None:
    episodes = episodes_through(np.stack([visits // 5, visits % 5], axis=2), lengths)
    everything = uncapped(episodes)
    known = plain_agent.plain(episodes)
    expected = plain_agent.reached_goals(ROOM, known)
    present = np.asarray(everything.present)
    np.testing.assert_array_equal(np.asarray(everything.goals)[present], expected)
    np.testing.assert_allclose(everything.probabilities, np.where(present, 1 / 8, 0), rtol=1e-6)
    few = capped(episodes, jax.random.key(seed))
    chosen = {tuple(goal) for goal in np.asarray(few.goals)[np.asarray(few.present)].tolist()}
    own = [
        plain_agent.reached_goals(ROOM, plain_agent.PlainEpisodes(*(part[[number]] for part in known)))
        for number in range(3)
    ]
    assert chosen <= {tuple(goal) for goal in expected.tolist()}
    assert max(min(len(goals), 2) for goals in own) <= len(chosen) <= sum(min(len(goals), 2) for goals in own)
    for goals in own:
        assert len(chosen & {tuple(goal) for goal in goals.tolist()}) >= min(len(goals), 2)


def test_pursued_goals_carry_their_probability() -> None:
    episodes = one_episode()._replace(pursued_goals=jnp.array([[1.0, 1.0]]))
    found = pursued_goals(ROOM, episodes)
    np.testing.assert_array_equal(found.goals, [[1, 1]])
    np.testing.assert_allclose(found.probabilities, [1 / 8], rtol=1e-6)
    assert bool(found.present[0])


def test_there_is_room_for_every_goal_of_a_large_batch() -> None:
    """Three bits have eight goals, whatever the number of states visited; all of them must fit."""
    generator = np.random.default_rng(0)
    bits = generator.integers(0, 2, size=(40, 4, 3))
    episodes = bit_episodes(bits, bits[:, 0])
    found = quick_jit(lambda e: active_goals(BitFlipping(3), e, jax.random.key(0)))(episodes)
    assert found.goals.shape == (8, 3)
    assert bool(jnp.all(found.present))
