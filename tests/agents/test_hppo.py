"""Hindsight PPO: what is kept and drawn, what an update comes to, and how it acts."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from reference import plain_hppo
from reference.compilation import quick_jit
from reference.probes import Corridor
from reference.random_weights import random_weights
from scipy.stats import chisquare, norm

from hindsight_rl.agents.episode_buffer import EpisodeBuffer, add_episodes, empty_buffer
from hindsight_rl.agents.hppo import HPPOState, hppo_agent
from hindsight_rl.agents.hppo_options import HPPOOptions, PPOOptions
from hindsight_rl.agents.hppo_samples import Networks, course_of, draw_pairs, samples_of
from hindsight_rl.agents.hppo_update import shuffled
from hindsight_rl.agents.interface import CAUSES, Agent
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.interface import Environment
from hindsight_rl.networks.heads import Normal
from hindsight_rl.networks.normaliser import Scaler
from hindsight_rl.rollout.compiled import collect, play

pytestmark = pytest.mark.usefixtures("quick_compilation")

BITS = BitFlipping(3)
SMALL: dict[str, Any] = {
    "hidden_layers": (6,),
    "gradient_steps": 4,
    "steps_per_draw": 2,
    "pairs": 6,
    "minibatch": 8,
    "kept_episodes": 12,
    "waves": 0,
}
RATES = {"learning_rate": 1e-2, "critic_learning_rate": 2e-2}


class Line(Environment):
    """A point between -1 and 1 that moves by half of an action between -2 and 2; near is close enough."""

    horizon: int = 6
    action_count: int = 1

    @property
    def continuous(self) -> bool:
        return True

    @property
    def action_bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return (-2.0,), (2.0,)

    @property
    def goal_count(self) -> int:
        return 1

    @property
    def state_limit(self) -> int | None:
        return None

    def reset(self, key: Array) -> Array:
        return jnp.zeros(1)

    def step(self, state: Array, action: Array, key: Array) -> Array:
        return jnp.clip(state + 0.5 * jnp.clip(action, -2, 2), -1, 1)

    def observe(self, state: Array) -> Array:
        return state

    def achieved_goal(self, state: Array) -> Array:
        return state

    def sample_goal(self, key: Array) -> Array:
        return jax.random.uniform(key, (1,), minval=-1.0, maxval=1.0)

    def goal_probability(self, goal: Array) -> Array:
        return jnp.ones(())

    def reached(self, achieved: Array, goal: Array) -> Array:
        return jnp.abs(achieved[0] - goal[0]) < 0.1

    def reward(self, achieved: Array, goal: Array, time: Array) -> Array:
        return jnp.where(self.reached(achieved, goal), 0.0, -1.0)

    def render(self, state: Array, goal: Array) -> str:
        return f"{state[0]} {goal[0]}"


def traced(rates: dict[str, float]) -> dict[str, Array]:
    return {name: jnp.asarray(value, jnp.zeros(()).dtype) for name, value in rates.items()}


def random_state(agent: Agent, seed: int = 0) -> HPPOState:
    """Large random weights; target, optimisers, statistics and buffer as at the beginning."""
    shapes = jax.eval_shape(agent.init, jax.random.key(0))
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    actor = random_weights(lambda key: agent.init(key).learned.actor, seed, 0.5)
    critic = random_weights(lambda key: agent.init(key).learned.critic, seed + 1, 0.5)

    def unseen(one: Any) -> Any:
        return Scaler(one.low.shape[0]) if isinstance(one, Scaler) else one

    inputs = jax.tree.map(unseen, shapes.inputs, is_leaf=lambda one: isinstance(one, Scaler))
    return nothing._replace(inputs=inputs, learned=nothing.learned._replace(actor=actor, critic=critic, target=critic))


def episodes_of(environment: Environment, agent: Agent, state: HPPOState, count: int, seed: int) -> Episodes:
    return quick_jit(lambda state, key: collect(environment, functools.partial(agent.explore, state), count, key))(
        state, jax.random.key(seed)
    )


def one_of(episodes: Episodes, number: int) -> Episodes:
    return jax.tree.map(lambda leaf: np.asarray(leaf[number]), episodes)


def numbered(first: int, count: int) -> Episodes:
    """Episodes of three bits that are told apart by their lengths."""
    blank = empty_buffer(BITS, count).episodes
    return blank._replace(lengths=jnp.arange(first, first + count), observations=blank.observations + first)


@pytest.mark.parametrize(
    ("batches", "kept"),
    [([2], [0, 1, 0, 0, 0]), ([2, 2], [0, 1, 2, 3, 0]), ([2, 2, 2], [5, 1, 2, 3, 4]), ([7], [5, 6, 2, 3, 4])],
)
def test_the_newest_episodes_take_the_place_of_the_oldest(batches: list[int], kept: list[int]) -> None:
    buffer, first = empty_buffer(BITS, 5), 0
    for count in batches:
        buffer = quick_jit(add_episodes)(buffer, numbered(first, count))
        first += count
    assert buffer.episodes.lengths.tolist() == kept
    assert int(buffer.size) == min(first, 5)
    assert int(buffer.added) == first


def test_more_episodes_may_be_added_than_32_bits_count() -> None:
    """As after hours of large batches; once negative, the number would leave a buffer without episodes."""
    buffer, add, before = empty_buffer(BITS, 5), quick_jit(add_episodes), 2**31 - 3
    buffer = buffer._replace(added=jnp.int32(before))
    for first in (0, 2, 4):
        buffer = add(buffer, numbered(first, 2))
        assert int(buffer.size) == 5
    newest = {(before + number) % 5: number for number in range(1, 6)}
    assert buffer.episodes.lengths.tolist() == [newest[slot] for slot in range(5)]


def test_kept_pictures_fit_into_memory() -> None:
    """Of states that show as many numbers as a picture, fewer episodes are kept than asked for."""
    wide = type("Wide", (BitFlipping,), {"observation_shape": property(lambda self: (84, 84, 400))})(3)
    kept = jax.eval_shape(hppo_agent(wide, HPPOOptions(**SMALL, normalise=False)).init, jax.random.key(0)).buffer.slots
    assert kept == int(5e8 / (4 * 84 * 84 * 400 * 4))
    few = jax.eval_shape(hppo_agent(BITS, HPPOOptions(**SMALL)).init, jax.random.key(0)).buffer
    assert few.slots == SMALL["kept_episodes"]
    assert str(few.episodes.observations.dtype) == BITS.observation_type


def test_goals_are_achieved_later_or_pursued_here_or_elsewhere() -> None:
    """Episode i walks from 10 i on and pursues -i: every goal tells where it comes from."""
    lengths = jnp.array([1, 2, 3, 3])
    places = 10.0 * jnp.arange(1, 5)[:, None] + jnp.arange(4)[None]
    corridor = Corridor(9, 0, (1,), (1,), 4)  # type: ignore[call-arg]
    episodes = empty_buffer(corridor, 4).episodes._replace(
        achieved_goals=places[:, :, None], pursued_goals=-jnp.arange(1.0, 5)[:, None], lengths=lengths
    )
    buffer = EpisodeBuffer(episodes, jnp.int32(4))
    options = HPPOOptions(**{**SMALL, "pairs": 4000, "achieved_share": 0.5, "own_share": 0.2, "earlier_share": 0.0})
    slots, goals, left = quick_jit(lambda key: draw_pairs(corridor, options, buffer, key))(jax.random.key(0))
    assert np.all(left == -1), "every pair begins at the first state"
    slots, goals = np.asarray(slots), np.asarray(goals)[:, 0]
    achieved, own = goals > 0, goals == -(slots + 1)
    times = goals[achieved] - 10 * (slots[achieved] + 1)
    assert np.all((times >= 1) & (times <= np.asarray(lengths)[slots[achieved]]))
    assert set(times[slots[achieved] == 3]) == {1, 2, 3}
    assert np.mean(achieved) == pytest.approx(0.5, abs=0.03)
    assert np.mean(own) == pytest.approx(0.2 + 0.3 / 4, abs=0.03)
    assert chisquare(np.bincount(slots)).pvalue > 1e-3
    plain = draw_pairs(corridor, PPOOptions(**SMALL), buffer, jax.random.key(1))
    np.testing.assert_array_equal(plain.goals[:, 0], -(plain.slots + 1.0))


def test_pairs_begin_where_an_episode_left_a_goal_that_it_had_achieved() -> None:
    """Episode i walks from 10 i on; the last goes back to where it came from, and is taken only for want of others."""
    places = 10.0 * jnp.arange(1, 5)[:, None] + jnp.arange(4)[None]
    places = places.at[3, 3].set(places[3, 0])
    corridor = Corridor(9, 0, (1,), (1,), 4)  # type: ignore[call-arg]
    episodes = empty_buffer(corridor, 4).episodes._replace(achieved_goals=places[:, :, None], lengths=jnp.full(4, 3))
    buffer = EpisodeBuffer(episodes, jnp.int32(4))
    options = HPPOOptions(**{**SMALL, "pairs": 200, "achieved_share": 0.0, "own_share": 0.0, "earlier_share": 1.0})
    slots, goals, left = quick_jit(lambda key: draw_pairs(corridor, options, buffer, key))(jax.random.key(0))
    np.testing.assert_array_equal(goals[:, 0], places[slots, left])
    assert set(np.asarray(left).tolist()) == {0, 1, 2}
    assert not np.any((slots == 3) & (left == 0)), "that goal was reached again in the end"


def test_a_pair_that_left_its_goal_begins_with_the_first_state_that_does_not_reach_it() -> None:
    """In cells 1, 2, 2, 3, 2: cell 2 was left after time 2, and reached again by the last action."""
    corridor = Corridor(cells=6, start=1, goals=(2,), moves=(-1, 1), horizon=5)  # type: ignore[call-arg]
    places = jnp.array([[1.0], [2], [2], [3], [2]])
    blank = empty_buffer(corridor, 4).episodes
    episodes = blank._replace(achieved_goals=jnp.tile(places, (4, 1, 1)), lengths=jnp.full(4, 4))
    goals = jnp.array([[2.0], [2], [1], [2]])
    left = jnp.array([-1, 1, 0, 4])
    _, decides, ends = course_of(corridor, PPOOptions(), episodes, goals, left=left)
    expected = [[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 1, 1], [0, 0, 0, 0]]
    np.testing.assert_array_equal(decides, np.array(expected, bool))
    assert bool(ends[1, 3])


@pytest.mark.parametrize(
    ("early", "late", "given", "expected"), [(1, 1, None, -1), (0, 0, None, 0), (9, 1, None, 0), (1, 1, 0.5, 0.5)]
)
def test_steps_cost_something_where_reaching_is_worth_as_much_late_as_early(
    early: float, late: float, given: float | None, expected: float
) -> None:
    assert PPOOptions(reward_offset=given).offset(early, late) == expected


def test_goals_that_an_episode_began_at_are_drawn_only_for_want_of_others() -> None:
    """Three of four episodes never leave their place."""
    corridor = Corridor(9, 0, (1,), (1,), 4)  # type: ignore[call-arg]
    places = jnp.zeros((4, 4, 1)).at[2, 2:].set(7)
    episodes = empty_buffer(corridor, 4).episodes._replace(achieved_goals=places, lengths=jnp.full(4, 3))
    options = HPPOOptions(**{**SMALL, "pairs": 20, "achieved_share": 1.0, "own_share": 0.0, "earlier_share": 0.0})
    draw = quick_jit(lambda buffer, key: draw_pairs(corridor, options, buffer, key))
    slots, goals, _ = draw(EpisodeBuffer(episodes, jnp.int32(4)), jax.random.key(0))
    moved = np.asarray(goals)[:, 0] == 7
    assert np.mean(moved) > 0.5, "about one in six were the goals drawn blindly"
    np.testing.assert_array_equal(np.asarray(slots)[moved], 2)
    _, goals, _ = draw(EpisodeBuffer(episodes._replace(achieved_goals=places * 0), jnp.int32(4)), jax.random.key(0))
    assert not np.any(goals)


def test_a_pace_shifts_returns_by_a_constant_whenever_the_goal_is_reached() -> None:
    """From the first decision on, every way to the goal or to the horizon gains as much by it."""
    corridor = Corridor(cells=6, start=1, goals=(2,), moves=(-1, 1), horizon=5)  # type: ignore[call-arg]
    episodes = empty_buffer(corridor, 3).episodes._replace(
        achieved_goals=jnp.tile(jnp.array([[1.0], [2], [3], [4], [5]]), (3, 1, 1)), lengths=jnp.full(3, 4)
    )
    goals = jnp.array([[2.0], [4], [0]])
    plain, paced = (jnp.sum(course_of(corridor, PPOOptions(), episodes, goals, pace).rewards, 1) for pace in (0, -0.1))
    np.testing.assert_allclose(paced - plain, 0.4, atol=1e-6)


def test_an_episode_is_over_once_it_has_reached_the_goal() -> None:
    """From cell 1: to 2, 3, 2; ended after three of four actions. Reaching is worth 1, less an offset of 0.5."""
    corridor = Corridor(cells=6, start=1, goals=(2,), moves=(-1, 1), horizon=5)  # type: ignore[call-arg]
    places = jnp.array([[1.0], [2], [3], [2], [0]])
    blank = empty_buffer(corridor, 5).episodes
    episodes = blank._replace(achieved_goals=jnp.tile(places, (5, 1, 1)), lengths=jnp.array([3, 3, 3, 3, 4]))
    goals = jnp.array([[2.0], [3], [1], [5], [5]])
    options = PPOOptions(reward_offset=-0.5, reward_scale=2.0)
    rewards, decides, ends = course_of(corridor, options, episodes, goals)
    np.testing.assert_array_equal(jnp.sum(decides, axis=1), [1, 2, 0, 3, 4])
    np.testing.assert_array_equal(rewards[0], [0.25, 0, 0, 0])
    np.testing.assert_array_equal(rewards[1], [-0.25, 0.25, 0, 0])
    np.testing.assert_array_equal(rewards[3], [-0.25, -0.25, -0.25, 0])
    assert bool(ends[0, 0])
    assert bool(ends[1, 1])
    assert not np.any(ends[3, :3]), "an episode that ended for another goal goes on under this one"
    assert bool(ends[4, 3]), "nothing follows at the horizon"


@pytest.mark.usefixtures("double_precision")
def test_pursued_goals_under_the_acting_policy_teach_as_plain_ppo_does() -> None:
    """Every ratio is one; advantages sum errors that decay with the trace, from the second next one on."""
    options = PPOOptions(**{**SMALL, "trace": 0.7})
    agent = hppo_agent(BITS, options)
    state = random_state(agent)
    episodes = episodes_of(BITS, agent, state, 12, 0)
    buffer = add_episodes(state.buffer, episodes)
    pairs = draw_pairs(BITS, options, buffer, jax.random.key(0))
    networks = Networks(state.learned.actor, state.learned.target, state.inputs)
    samples, ratios = quick_jit(functools.partial(samples_of, BITS, options))(buffer, pairs, networks)
    np.testing.assert_allclose(jnp.where(samples.decides, samples.weights, 1), 1, atol=1e-6)
    assert ratios.shape == (6, 3)
    expected, target = [], plain_hppo.weights_of(state.learned.target.network)
    for slot in np.asarray(pairs.slots):
        episode = one_of(episodes, slot)
        if np.all(episode.pursued_goals == 0):
            expected.append(np.zeros(3))
            continue
        rows = [
            np.append(shown(state)(row, episode.pursued_goals), t / 3) for t, row in enumerate(episode.observations)
        ]
        values = [plain_hppo.forward(target, row)[0][0] for row in rows]
        advantages, later = np.zeros(3), 0.0
        for time in reversed(range(int(episode.lengths))):
            reached = np.all(episode.achieved_goals[time + 1] == episode.pursued_goals)
            following = 0.0 if reached or time == 2 else values[time + 1]
            reward = (4 - (time + 1)) / 4 if reached else 0.0
            error = reward + following - values[time]
            advantages[time] = error + later
            later = error + 0.7 * later
        expected.append(advantages)
    flat = np.concatenate(expected)
    root = math.sqrt(np.sum(flat**2) / np.sum(samples.decides))
    np.testing.assert_allclose(samples.advantages, flat / (root + 1e-3), atol=1e-9)


def shown(state: HPPOState) -> Any:
    """Normalised rows in plain NumPy, numbers with two values as -1 and 1, and the product of observation and goal."""

    def scale(scaler: Scaler | None, row: np.ndarray) -> np.ndarray:
        if scaler is None or scaler.normaliser.count == 0:
            return row
        count, mean, squares = (np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(scaler.normaliser))
        usual = np.clip((row - mean) / np.maximum(np.sqrt(squares / count), 1e-2), -5, 5)
        switches = np.asarray(scaler.two & (scaler.low < scaler.high))
        return np.where(switches, np.where(row == np.asarray(scaler.high), 1.0, -1.0), usual)

    def show(observation: np.ndarray, goal: np.ndarray) -> np.ndarray:
        row, aim = scale(state.inputs.observations, observation), scale(state.inputs.goals, goal)
        return np.concatenate([row, row * aim, aim])

    return show


UPDATES = {
    "ppo": PPOOptions(**SMALL, normalise=False),
    "hppo": HPPOOptions(**SMALL, trace=0.8, clip=0.05),
    "earlier": HPPOOptions(**SMALL, achieved_share=0.2, earlier_share=0.7),
    "actions": HPPOOptions(**SMALL, critic="actions", trace=0.7),
    "together": HPPOOptions(**SMALL, goals_together=2, achieved_share=0.3, earlier_share=0.4),
    "actions together": HPPOOptions(**SMALL, critic="actions", goals_together=3),
    "limits": HPPOOptions(**SMALL, ratio_limit=1.5, trace_limit=0.7, entropy=0.5, target_rate=0.5, exploration=0.3),
}


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("options", UPDATES.values(), ids=UPDATES)
def test_two_updates_are_what_plain_loops_say(options: PPOOptions) -> None:
    """The same draws, in double precision: steps of both networks, and the target critic behind."""
    agent = hppo_agent(BITS, options)
    state = random_state(agent)
    together = options.goals_together or 1
    learned = state.learned
    actor, critic, target = (
        plain_hppo.weights_of(one.network) for one in (learned.actor, learned.critic, learned.target)
    )
    actor_adam, critic_adam = plain_hppo.Adam(actor), plain_hppo.Adam(critic)
    update = quick_jit(agent.update)
    for number in range(2):
        episodes = episodes_of(BITS, agent, state, 4, number)
        key = jax.random.key(20 + number)
        state, cause, metrics = update(state, episodes, traced(RATES), key)
        assert CAUSES[int(cause)] == ""
        assert float(metrics["gradient_steps"]) == 4
        for drawn in range(2):
            pair_key, order_key = jax.random.split(jax.random.fold_in(key, drawn))
            pairs = draw_pairs(BITS, options, state.buffer, pair_key)
            decisions, owners = [], []
            for pair, (slot, goal, left) in enumerate(zip(*map(np.asarray, pairs), strict=True)):
                episode = one_of(state.buffer.episodes, slot)
                looking = shown(state), actor, target, float(state.pace), int(left)
                made = plain_hppo.decisions_of(BITS, options, episode, goal, *looking)
                decisions += made
                owners += [(pair // together, round(3 * one.clock)) for one in made]
            flat = plain_hppo.normalised(decisions)
            of_state: dict[tuple[int, int], list[plain_hppo.Decision]] = {}
            for owner, one in zip(owners, flat, strict=True):
                of_state.setdefault(owner, []).append(one)
            lots = np.asarray(jax.random.uniform(order_key, (6 // together * 3,)))
            order = sorted(of_state, key=lambda owner: lots[owner[0] * 3 + owner[1]])
            states = 8 // together
            for step in range(2):
                chosen = [order[(step * states + row) % len(order)] for row in range(states)]
                minibatch = [one for owner in chosen for one in of_state[owner]]
                slope = plain_hppo.policy_gradient(actor, minibatch, options)
                actor = actor_adam.descend(actor, slope, RATES["learning_rate"])
                slope = plain_hppo.critic_gradient(critic, minibatch)
                critic = critic_adam.descend(critic, slope, RATES["critic_learning_rate"])
                target = [was + options.target_rate * (now - was) for was, now in zip(target, critic, strict=True)]
        for model, plain in zip(state.learned[:3], (actor, critic, target), strict=True):
            for found, expected in zip(plain_hppo.weights_of(model.network), plain, strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_goals_that_are_looked_at_together_are_of_one_episode() -> None:
    """Achieved goals are its own, later than its first state or left before its last, as far as it has such."""
    options = HPPOOptions(
        **{**SMALL, "pairs": 120}, goals_together=4, achieved_share=0.5, earlier_share=0.5, own_share=0
    )
    agent = hppo_agent(BITS, options)
    state = random_state(agent)
    buffer = add_episodes(state.buffer, episodes_of(BITS, agent, state, 8, 3))
    slots, goals, left = map(np.asarray, draw_pairs(BITS, options, buffer, jax.random.key(1)))
    groups = slots.reshape(30, 4)
    assert np.all(groups == groups[:, :1])
    assert len(set(groups[:, 0].tolist())) > 4
    achieved, lengths = np.asarray(buffer.episodes.achieved_goals), np.asarray(buffer.episodes.lengths)
    for slot, goal, time in zip(slots, goals, left, strict=True):
        reached = np.all(achieved[slot, : lengths[slot] + 1] == goal, axis=1)
        assert reached[1:].any() if time < 0 else reached[time]
    moved = [slot for slot in slots[left < 0] if np.any(achieved[slot, 1 : lengths[slot] + 1] != achieved[slot, :1])]
    at_once = [np.all(achieved[slot, 0] == goal) for slot, goal in zip(slots[left < 0], goals[left < 0], strict=True)]
    assert len(moved) > 20
    assert np.mean(at_once) < 0.1


def test_decisions_stand_before_padding_in_random_order() -> None:
    agent = hppo_agent(BITS, HPPOOptions(**SMALL))
    state = random_state(agent)
    buffer = add_episodes(state.buffer, episodes_of(BITS, agent, state, 8, 3))
    pairs = draw_pairs(BITS, HPPOOptions(**SMALL), buffer, jax.random.key(1))
    networks = Networks(state.learned.actor, state.learned.target, state.inputs)
    samples, _ = quick_jit(functools.partial(samples_of, BITS, HPPOOptions(**SMALL)))(buffer, pairs, networks)
    order, count = shuffled(samples, jax.random.key(2))
    assert 0 < int(count) < len(order)
    assert np.all(samples.decides[order[: int(count)]])
    assert not np.any(samples.decides[order[int(count) :]])
    assert sorted(order.tolist()) == list(range(len(order)))


def test_an_update_repeats_exactly_alone_and_among_other_runs() -> None:
    agent = hppo_agent(BITS, HPPOOptions(**SMALL))
    states = [random_state(agent, seed) for seed in (0, 5)]
    episodes = episodes_of(BITS, agent, states[0], 4, 0)
    key = jax.random.key(3)
    together = quick_jit(lambda states: jax.lax.map(lambda s: agent.update(s, episodes, traced(RATES), key), states))(
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    )
    update = quick_jit(lambda state: agent.update(state, episodes, traced(RATES), key))
    for number, state in enumerate(states):
        first, again = update(state), update(state)
        for one, two, three in zip(*map(jax.tree.leaves, (first, again, together)), strict=True):
            np.testing.assert_array_equal(one, two)
            np.testing.assert_allclose(one, three[number], rtol=1e-4, atol=1e-5)


def test_an_update_keeps_the_structure_shapes_and_types_of_the_state() -> None:
    for task in (BITS, Line()):
        agent = hppo_agent(task, HPPOOptions(**SMALL))
        state = jax.eval_shape(agent.init, jax.random.key(0))
        episodes = jax.eval_shape(
            lambda state, agent=agent, task=task: collect(
                task, functools.partial(agent.explore, state), 4, jax.random.key(0)
            ),
            state,
        )
        after = jax.eval_shape(agent.update, state, episodes, traced(RATES), jax.random.key(0)).state
        assert jax.tree.structure(after) == jax.tree.structure(state)  # type: ignore[operator]
        described = [[(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)] for tree in (after, state)]
        assert described[0] == described[1]


def test_what_is_not_finite_is_named_and_not_kept() -> None:
    agent = hppo_agent(BITS, HPPOOptions(**SMALL))
    state = random_state(agent)
    episodes = episodes_of(BITS, agent, state, 4, 0)
    update = quick_jit(agent.update)

    def cause_of(episodes: Episodes, rates: dict[str, float]) -> str:
        after, cause, _ = update(state, episodes, traced(rates), jax.random.key(0))
        for kept, old in zip(jax.tree.leaves(after.learned), jax.tree.leaves(state.learned), strict=True):
            assert np.array_equal(kept, old) == (int(cause) != 0) or kept.size <= 1
        return CAUSES[int(cause)]

    assert cause_of(episodes, RATES) == ""
    assert cause_of(episodes, {**RATES, "learning_rate": math.inf}) != ""
    assert cause_of(episodes, {**RATES, "critic_learning_rate": math.nan}) != ""
    broken = episodes._replace(log_probabilities=episodes.log_probabilities * jnp.nan)
    assert cause_of(broken, RATES) == "the policy gradient is not finite"


def test_steps_stop_at_the_divergence_limit() -> None:
    agent = hppo_agent(BITS, HPPOOptions(**{**SMALL, "divergence_limit": 1e-5}))
    state = random_state(agent)
    metrics = quick_jit(agent.update)(
        state, episodes_of(BITS, agent, state, 4, 0), traced(RATES), jax.random.key(0)
    ).metrics
    # The first step starts from the old policy itself, up to rounding; the second finds that it has moved.
    assert float(metrics["gradient_steps"]) == 2
    assert float(metrics["kl"]) > 1e-5
    assert {"entropy", "clipped", "effective_sample_size", "value_error", "reached"} < set(metrics)


@pytest.mark.parametrize("exploration", [0.0, 0.4, 1.0])
def test_the_log_probability_of_exploring_is_that_of_the_mixture(exploration: float) -> None:
    agent = hppo_agent(BITS, HPPOOptions(**SMALL, exploration=exploration))
    state = random_state(agent)
    row, goal = np.array([1.0, 0, 1]), np.array([0.0, 0, 1])
    actions, logs = quick_jit(agent.explore)(
        state, jnp.tile(row, (6000, 1)), jnp.tile(goal, (6000, 1)), 1, jax.random.key(1)
    )
    own = np.exp(
        plain_hppo.log_softmax(
            plain_hppo.forward(plain_hppo.weights_of(state.learned.actor.network), shown(state)(row, goal))[0]
        )
    )
    mixture = (1 - exploration) * own + exploration / 3
    np.testing.assert_allclose(np.exp(logs), mixture[np.asarray(actions)], rtol=1e-5)
    assert chisquare(np.bincount(actions, minlength=3), mixture / mixture.sum() * 6000).pvalue > 1e-3
    greedy = quick_jit(agent.exploit)(state, row[None], goal[None], 1)
    assert int(greedy[0]) == int(np.argmax(own)) == int(agent.policy(state).act(row, goal, 1))


def test_continuous_actions_have_the_density_of_a_normal_and_a_uniform_distribution() -> None:
    agent = hppo_agent(Line(), HPPOOptions(**SMALL, exploration=0.3, deviation_floor=0.2))
    state = random_state(agent)
    place, goal = jnp.full((4000, 1), 0.3), jnp.full((4000, 1), -0.5)
    actions, logs = (np.asarray(one) for one in quick_jit(agent.explore)(state, place, goal, 0, jax.random.key(4)))
    mean = float(agent.exploit(state, place[:1], goal[:1], 0)[0, 0])
    assert -2 < mean < 2
    head = state.learned.actor.head
    assert isinstance(head, Normal)
    # Bounds at -2 and 2 make a unit of 2.
    deviation = 2 * (0.2 + math.exp(float(head.log_deviation[0])))
    inside = np.abs(actions[:, 0]) <= 2
    expected = 0.7 * norm.pdf(actions[:, 0], mean, deviation) + 0.3 * inside / 4
    np.testing.assert_allclose(np.exp(logs), expected, rtol=1e-4)
    assert np.mean(inside) == pytest.approx(0.3 + 0.7 * np.diff(norm.cdf([-2, 2], mean, deviation))[0], abs=0.03)


def test_a_critic_of_actions_is_refused_where_they_are_vectors() -> None:
    with pytest.raises(HindsightError, match="'actions' only where there are a few"):
        hppo_agent(Line(), HPPOOptions(critic="actions"))


def test_a_batch_has_steps_in_proportion_to_what_it_says() -> None:
    """Five for an episode; more of long episodes, and where there are many actions to choose from."""
    options = HPPOOptions()
    steps = {sizes: options.steps_on_a_batch(16, options.work(*sizes)) for sizes in [(4, 32), (48, 49), (0, 301)]}
    assert steps == {(4, 32): 80, (48, 49): 288, (0, 301): 240}
    assert options.steps_on_a_batch(2, options.work(4, 32)) == 10
    assert options.work(4, 28, pictures=True) == (1, 256, 512, 8)
    asked = HPPOOptions(gradient_steps=7, pairs=5, minibatch=6)
    assert asked.steps_on_a_batch(16, asked.work(48, 301)) == 7
    assert asked.work(48, 301)[1:] == (5, 6, 1)
    assert asked.work(48, 301, pictures=True)[1:] == (8, 8, 8)
    asked = HPPOOptions(gradient_steps=7, pairs=5, minibatch=6, goals_together=2)
    assert asked.work(48, 301)[1:] == (4, 6, 2)
    assert [HPPOOptions(hidden_layers=None).widths(numbers) for numbers in (8, 9)] == [(128,) * 2, (256,) * 3]


def test_exploring_without_bounds_is_refused() -> None:
    class Endless(Line):
        @property
        def action_bounds(self) -> None:  # type: ignore[override]
            return None

    with pytest.raises(HindsightError, match="leave it at 0"):
        hppo_agent(Endless(), HPPOOptions(exploration=0.1))


def test_entropy_weighs_less_in_long_episodes_and_more_where_there_are_many_actions() -> None:
    options = HPPOOptions()
    sizes = {(4, 32): 2.5 / 31, (8, 51): 0.05, (16, 17): 0.1, (16, 51): 0.1, (4, 301): 2.5 / 300, (100, 101): 0.1}
    for (actions, horizon), weight in sizes.items():
        assert options.entropy_weight(actions, horizon) == pytest.approx(weight)
    assert options.entropy_weight(0, 51) == 0.01
    assert HPPOOptions(entropy=0.0).entropy_weight(100, 101) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"achieved_share": 0.8, "own_share": 0.3}, "must sum to at most 1, not 1.1"),
        ({"clip": 0.0}, "clip must be a finite number above zero"),
        ({"trace": 1.5}, "trace must be a number from 0 to 1"),
        ({"pairs": 0}, "pairs must be a whole number of at least 1"),
        ({"waves": -1}, "waves must be a whole number of at least 0"),
    ],
)
def test_impossible_options_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(HindsightError, match=message):
        HPPOOptions(**change)


def success(environment: Environment, options: PPOOptions, batches: int) -> float:
    """Of the greedy policy after so many batches of 8 episodes."""
    agent = hppo_agent(environment, options)
    rates = traced({"learning_rate": options.learning_rate, "critic_learning_rate": options.critic_learning_rate})

    def batch(number: Array, state: HPPOState) -> HPPOState:
        episode_key, update_key = jax.random.split(jax.random.fold_in(jax.random.key(1), number))
        episodes = collect(environment, functools.partial(agent.explore, state), 8, episode_key)
        return agent.update(state, episodes, rates, update_key).state

    def run(key: Array) -> Array:
        state = jax.lax.fori_loop(0, batches, batch, agent.init(key))
        return jnp.mean(play(environment, functools.partial(agent.exploit, state), 256, key).successes)

    return float(jax.jit(run)(jax.random.key(0)))


LEARNING: dict[str, Any] = {"hidden_layers": (32,), "pairs": 64, "minibatch": 128, "gradient_steps": 20}


def test_five_bits_are_learned_in_a_hundred_and_twenty_episodes() -> None:
    assert success(BitFlipping(5), HPPOOptions(**LEARNING, learning_rate=2e-3), 15) > 0.9


def test_a_continuous_point_is_moved_to_its_goal() -> None:
    """Rewards of -1 and 0, bounded actions, a share of them uniform."""
    options = HPPOOptions(**LEARNING, learning_rate=2e-3, entropy=0.01, exploration=0.1)
    assert success(Line(), options, 40) > 0.9
