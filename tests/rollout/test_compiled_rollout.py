"""Episodes: where they end, what is recorded of them, and the returns of greedy ones."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.compilation import quick_jit
from reference.dynamic_programming import table_of_moves
from reference.random_weights import random_weights

from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.grid_world import GridWorld, empty_room
from hindsight_rl.networks.policy import Policy
from hindsight_rl.rollout.compiled import Outcomes, collect, play
from hindsight_rl.rollout.trace import trace

BATCH = 40
SLIPPERY = GridWorld("S..\n.#.\n..S", slip=0.3, horizon=9)
ENVIRONMENTS = {"bits": BitFlipping(3), "ring": SLIPPERY}


def policy_of(environment: Any, seed: int = 3) -> Policy:
    size = environment.bits if isinstance(environment, BitFlipping) else 2
    return random_weights(lambda key: Policy(size, size, environment.action_count, (6,), key), seed)


def draw(policy: Policy, observations: jax.Array, goals: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    table = policy.log_probabilities(observations, goals)
    actions = jax.random.categorical(key, table)
    return actions, jnp.take_along_axis(table, actions[:, None], axis=1)[:, 0]


@cache
def collector(name: str, episodes_end: str) -> Any:
    environment = ENVIRONMENTS[name]
    policy = policy_of(environment)

    def explore(observations: jax.Array, goals: jax.Array, time: jax.Array, key: jax.Array) -> tuple[Any, ...]:
        return draw(policy, observations, goals, key)

    return quick_jit(lambda key: collect(environment, explore, BATCH, key, episodes_end))


def episodes_of(name: str, episodes_end: str, seed: int = 0) -> Episodes:
    return jax.tree.map(np.asarray, collector(name, episodes_end)(jax.random.key(seed)))


@pytest.fixture(params=ENVIRONMENTS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def first_arrival(episodes: Episodes, episode: int) -> int | None:
    """After how many actions the pursued goal was reached, if it was; being there at the start does not count."""
    for time in range(episodes.actions.shape[1]):
        if np.array_equal(episodes.achieved_goals[episode, time + 1], episodes.pursued_goals[episode]):
            return time + 1
    return None


def test_reaching_the_pursued_goal_ends_an_episode(name: str) -> None:
    episodes = episodes_of(name, "goal")
    times = episodes.actions.shape[1]
    arrivals = [first_arrival(episodes, episode) for episode in range(BATCH)]
    assert None in arrivals
    assert any(arrival is not None and arrival < times for arrival in arrivals)
    np.testing.assert_array_equal(episodes.lengths, [times if a is None else a for a in arrivals])
    np.testing.assert_array_equal(episodes.taken.sum(axis=1), episodes.lengths)
    assert np.all(episodes.taken[:, 0])


def test_nothing_but_the_horizon_ends_an_episode_if_asked_for(name: str) -> None:
    full, early = episodes_of(name, "horizon"), episodes_of(name, "goal")
    np.testing.assert_array_equal(full.lengths, full.actions.shape[1])
    assert np.all(full.taken)
    np.testing.assert_array_equal(full.actions, early.actions)


def test_recorded_log_probabilities_are_the_policys(name: str) -> None:
    episodes = episodes_of(name, "goal")
    policy = policy_of(ENVIRONMENTS[name])
    times = episodes.actions.shape[1]
    rows = episodes.observations[:, :-1].reshape(BATCH * times, -1)
    table = policy.log_probabilities(rows, np.repeat(episodes.pursued_goals, times, axis=0))
    expected = np.asarray(table)[np.arange(BATCH * times), episodes.actions.ravel()].reshape(BATCH, times)
    np.testing.assert_allclose(episodes.log_probabilities, expected, rtol=1e-5, atol=1e-6)


def test_the_same_key_gives_the_same_episodes_and_another_key_others(name: str) -> None:
    first, again, other = episodes_of(name, "goal"), episodes_of(name, "goal"), episodes_of(name, "goal", seed=1)
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert not np.array_equal(first.actions, other.actions)
    assert not np.array_equal(first.pursued_goals, other.pursued_goals)


def test_the_episodes_of_a_batch_differ(name: str) -> None:
    episodes = episodes_of(name, "horizon")
    assert len(np.unique(episodes.actions, axis=0)) > 10
    assert len(np.unique(episodes.pursued_goals, axis=0)) == ENVIRONMENTS[name].goal_count


def test_bits_follow_from_the_actions() -> None:
    episodes = episodes_of("bits", "horizon")
    for episode in range(BATCH):
        state = np.zeros(3)
        np.testing.assert_array_equal(episodes.observations[episode, 0], state)
        for time, action in enumerate(episodes.actions[episode]):
            state[action] = 1 - state[action]
            np.testing.assert_array_equal(episodes.observations[episode, time + 1], state)
            np.testing.assert_array_equal(episodes.achieved_goals[episode, time + 1], state)


def test_a_slippery_step_goes_to_the_cell_of_some_action() -> None:
    episodes = episodes_of("ring", "horizon")
    cells = np.argwhere(~SLIPPERY.walls).astype(np.int32)
    moves = table_of_moves(GridWorld("S..\n.#.\n..S", horizon=9), cells)
    position = {tuple(cell): number for number, cell in enumerate(cells)}
    numbers = np.array([[position[tuple(cell)] for cell in row] for row in episodes.achieved_goals.astype(int)])
    before, after = numbers[:, :-1], numbers[:, 1:]
    assert np.all(np.any(moves[before] == after[:, :, None], axis=2))
    intended = moves[before, episodes.actions] == after
    assert 0.6 < intended.mean() < 1


def greedy_explore(policy: Policy) -> Any:
    def explore(observations: jax.Array, goals: jax.Array, time: jax.Array, key: jax.Array) -> tuple[Any, ...]:
        return jnp.argmax(policy.log_probabilities(observations, goals), axis=1), jnp.zeros(len(goals))

    return explore


def greedy_exploit(policy: Policy) -> Any:
    def exploit(observations: jax.Array, goals: jax.Array, time: jax.Array) -> jax.Array:
        return jnp.argmax(policy.log_probabilities(observations, goals), axis=1)

    return exploit


def plain_return(
    environment: Any, moves: dict[Any, Any], policy: Policy, start: tuple[Any, ...], goal: np.ndarray
) -> float:
    """One greedy episode, step by step."""
    state = start
    for time in range(1, environment.horizon):
        action = int(policy.act(np.array(state), goal))
        state = moves[state, action]
        if np.array_equal(state, goal):
            return environment.horizon - time
    return 0.0


def deterministic(name: str) -> tuple[Any, np.ndarray]:
    if name == "bits":
        return BitFlipping(3), np.array(np.meshgrid([0.0, 1], [0.0, 1], [0.0, 1])).reshape(3, -1).T.astype(np.float32)
    room = empty_room(4)
    return room, np.argwhere(~room.walls).astype(np.int32)


@pytest.mark.parametrize(("name", "seed"), [("bits", 3), ("room", 6)])
def test_greedy_returns_equal_a_plain_loop(name: str, seed: int) -> None:
    """Play and collect begin alike from the same key, which is how the plain loop knows the goals.

    The seeds make policies that reach some goals sooner, some later and some not at all.
    """
    environment, states = deterministic(name)
    policy = policy_of(environment, seed)
    key = jax.random.key(7)
    outcomes: Outcomes = quick_jit(lambda k: play(environment, greedy_exploit(policy), 24, k))(key)
    episodes = quick_jit(lambda k: collect(environment, greedy_explore(policy), 24, k, "horizon"))(key)
    table = table_of_moves(environment, states)
    moves = {
        (tuple(state), action): tuple(states[table[number, action]])
        for number, state in enumerate(states)
        for action in range(environment.action_count)
    }
    start = tuple(states[0])
    expected = [plain_return(environment, moves, policy, start, goal) for goal in np.asarray(episodes.pursued_goals)]
    assert 0.0 in expected
    assert len(set(expected)) > 2
    np.testing.assert_array_equal(outcomes.returns, expected)
    np.testing.assert_array_equal(outcomes.successes, np.array(expected) > 0)


def test_greedy_returns_of_a_slippery_walk_average_to_their_expectation() -> None:
    """A policy that always walks right in a corridor: the return is known from its chance to move at each step."""
    corridor = GridWorld("S.", slip=0.4, horizon=6)
    chance = 0.6 + 0.4 / 4
    expected = sum((6 - time) * chance * (1 - chance) ** (time - 1) for time in range(1, 6))
    exploit = lambda observations, goals, time: jnp.full(len(goals), 3)  # noqa: E731
    outcomes = quick_jit(lambda k: play(corridor, exploit, 4000, k))(jax.random.key(3))
    returns = np.asarray(outcomes.returns)
    assert abs(returns.mean() - expected) < 4 * returns.std() / np.sqrt(4000)
    np.testing.assert_allclose(np.mean(outcomes.successes), 1 - (1 - chance) ** 5, atol=0.005)


def test_a_policy_may_depend_on_time() -> None:
    """Left, then right: the goal two steps to the right is out of reach in three actions unless time is passed on."""
    corridor = GridWorld("S..", horizon=4)
    exploit = lambda observations, goals, time: jnp.full(len(goals), jnp.where(time == 0, 2, 3))  # noqa: E731
    outcomes = quick_jit(lambda k: play(corridor, exploit, 16, k))(jax.random.key(0))
    assert sorted(set(np.asarray(outcomes.returns).tolist())) == [1.0, 2.0]


def test_a_trace_is_one_greedy_episode() -> None:
    """As long as a greedy episode lasts, with the return that its length implies."""
    environment = BitFlipping(3)
    policy = policy_of(environment)
    found = [trace(environment, policy, jax.random.key(seed)) for seed in range(6)]
    assert {episode.reached for episode in found} == {True, False}
    for episode in found:
        actions = len(episode.states) - 1
        assert 1 <= actions <= 3
        assert episode.total_return == ((4 - actions) if episode.reached else 0)
        assert episode.reached == np.array_equal(episode.states[-1], episode.goal)
        for before, after in zip(episode.states, episode.states[1:], strict=False):
            toggled = np.flatnonzero(np.asarray(before) != np.asarray(after))
            assert toggled.tolist() == [int(policy.act(before, episode.goal))]
