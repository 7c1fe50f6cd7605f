"""Deep Q-learning: values that are known, exploration, one cycle against plain loops, and what is not finite."""

import functools
import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import plain_replay
from reference.compilation import quick_jit
from reference.methods import hindsight, learning_rates
from reference.plain_replay import PlainReplay
from reference.probes import ConstantReward, Corridor
from reference.random_weights import random_weights
from scipy.stats import chisquare

from hindsight_rl.agents.dqn import DQNState, dqn_agent
from hindsight_rl.agents.interface import CAUSES, Agent
from hindsight_rl.agents.replay_options import DQNOptions, HEROptions, goals_per_transition
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.interface import Environment
from hindsight_rl.rollout.compiled import collect

BITS = BitFlipping(3)
SMALL = DQNOptions(replay_capacity=400, gradient_steps=3, minibatch_size=8, hidden_layers=(6, 5))
PROBING = DQNOptions(
    replay_capacity=4000, epsilon=0.5, discount=0.5, gradient_steps=20, minibatch_size=32, hidden_layers=(32,)
)
"""A discount that is easily told from 1, and half of the actions random, so that every one is tried."""


def random_state(agent: Agent) -> DQNState:
    """A network with large random weights; optimiser and buffer have seen nothing."""
    shapes = jax.eval_shape(agent.init, jax.random.key(0))
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return nothing._replace(network=random_weights(lambda key: agent.init(key).network, seed=0))


def random_episodes(environment: Environment, batch_size: int, seed: int) -> Episodes:
    def explore(observations: jax.Array, goals: jax.Array, time: jax.Array, key: jax.Array) -> tuple[Any, ...]:
        return jax.random.randint(key, (batch_size,), 0, environment.action_count), jnp.zeros(batch_size)

    return quick_jit(lambda key: collect(environment, explore, batch_size, key))(jax.random.key(seed))


def train(environment: Environment, options: DQNOptions, cycles: int, batch_size: int, rate: float) -> DQNState:
    """Collect and learn, cycle by cycle."""
    agent = dqn_agent(environment, options)

    def cycle(number: jax.Array, state: DQNState) -> DQNState:
        episode_key, update_key = jax.random.split(jax.random.fold_in(jax.random.key(1), number))
        episodes = collect(environment, functools.partial(agent.explore, state), batch_size, episode_key)
        return agent.update(state, episodes, learning_rates(rate), update_key)[0]

    program = quick_jit(lambda key: jax.lax.fori_loop(0, cycles, cycle, agent.init(key)))
    return program(jax.random.key(0))


def values(state: DQNState, cell: float, goal: float, time: int) -> list[float]:
    return np.asarray(state.network(jnp.full((1, 1), cell), jnp.full((1, 1), goal), jnp.array([time])))[0].tolist()


def test_the_value_of_a_constant_reward_is_its_discounted_sum_up_to_the_horizon() -> None:
    """Nothing follows the third action: 1 + 1/2 + 1/4, then 1 + 1/2, then 1."""
    state = train(ConstantReward(horizon=4), PROBING, cycles=60, batch_size=2, rate=1e-2)
    found = [values(state, 0, 1, time)[0] for time in range(3)]
    np.testing.assert_allclose(found, [1.75, 1.5, 1], atol=0.05)


@pytest.mark.parametrize("relabel", [False, True])
def test_the_values_of_a_chain_are_discounted_once_for_each_further_step(relabel: bool) -> None:
    """Reaching the end is worth 1 and ends the episode, although the horizon would leave time for more."""
    chain = Corridor(cells=3, start=0, goals=(2,), moves=(1,), horizon=6)  # type: ignore[call-arg]
    state = train(chain, hindsight(PROBING) if relabel else PROBING, cycles=60, batch_size=2, rate=1e-2)
    np.testing.assert_allclose([values(state, 0, 2, 0)[0], values(state, 1, 2, 1)[0]], [0.5, 1], atol=0.05)


def test_the_value_of_a_single_step_is_its_reward() -> None:
    """To the left or to the right of the start, with one action in all: the goal decides which is worth something."""
    fork = Corridor(cells=3, start=1, goals=(0, 2), moves=(-1, 1), horizon=2)  # type: ignore[call-arg]
    state = train(fork, PROBING, cycles=60, batch_size=4, rate=1e-2)
    np.testing.assert_allclose([values(state, 1, 0, 0), values(state, 1, 2, 0)], [[1, 0], [0, 1]], atol=0.05)


STRATEGIES = [
    PROBING,
    hindsight(PROBING),
    hindsight(PROBING, relabelling="future", relabelled_goals=4),
    hindsight(PROBING, relabelling="episode", relabelled_goals=4),
]


@pytest.mark.parametrize("options", STRATEGIES, ids=["dqn", "final", "future", "episode"])
def test_the_values_of_a_corridor_with_two_goals_are_those_of_looking_ahead(options: DQNOptions) -> None:
    """Whatever the agent learned in hindsight, its values under the two goals that it pursues are the true ones."""
    corridor = Corridor(cells=5, start=2, goals=(0, 4), moves=(-1, 1), horizon=5)  # type: ignore[call-arg]
    state = train(corridor, replace(options, hidden_layers=(64, 64)), cycles=250, batch_size=8, rate=2e-3)
    for goal in corridor.goals:
        # At time t the cells t steps from the start; a goal ends the episode, so that no action is taken there.
        for time, cell in [(0, 2), (1, 1), (1, 3), (2, 2)]:
            expected = corridor.action_values(cell, goal, time, options.discount)
            # Eight seeds with each strategy missed by 0.08 at most; the values are 1, 1/2, 1/4, 1/8 and 0.
            np.testing.assert_allclose(values(state, cell, goal, time), expected, atol=0.1)


def exact_return(state: DQNState, environment: BitFlipping) -> float:
    """The mean return of the greedy policy over all goals; nothing is random here."""
    goals = np.array(list(itertools.product((0.0, 1.0), repeat=environment.bits)), np.float32)
    states, returns = np.zeros_like(goals), np.zeros(len(goals))
    for time in range(environment.bits):
        actions = np.argmax(state.network(states, goals, np.full(len(goals), time)), axis=1)
        states[np.arange(len(goals)), actions] = 1 - states[np.arange(len(goals)), actions]
        reached = np.all(states == goals, axis=1)
        returns = np.where((returns == 0) & reached, environment.bits - time, returns)
    return float(np.mean(returns))


def test_hindsight_replay_learns_to_flip_four_bits() -> None:
    """The best possible mean return is 46/16, to which ten seeds came in 40 cycles; before training 0.4 on average."""
    environment = BitFlipping(4)
    options = HEROptions(replay_capacity=20000, hidden_layers=(64, 64), minibatch_size=64)
    before = exact_return(dqn_agent(environment, options).init(jax.random.key(0)), environment)
    after = exact_return(train(environment, options, cycles=50, batch_size=16, rate=3e-3), environment)
    assert before < 0.4 * 46 / 16
    assert after > 0.95 * 46 / 16


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_exploring_is_greedy_but_for_a_share_of_random_actions(epsilon: float) -> None:
    """Chi-square over 6000 draws with a fixed key; the log-probabilities are those of the actions drawn."""
    agent = dqn_agent(BITS, replace(SMALL, epsilon=epsilon))
    state = random_state(agent)
    observations, goals = jnp.tile(jnp.array([[1.0, 0, 1]]), (6000, 1)), jnp.tile(jnp.array([[0.0, 0, 1]]), (6000, 1))
    actions, log_probabilities = quick_jit(agent.explore)(state, observations, goals, 1, jax.random.key(1))
    best = int(np.argmax(plain_replay.action_values(state.network, observations[0], goals[0], 1)))
    probabilities = np.full(3, epsilon / 3)
    probabilities[best] += 1 - epsilon
    counts = np.bincount(actions, minlength=3)
    possible = probabilities > 0
    assert counts[~possible].sum() == 0
    if possible.sum() > 1:
        assert chisquare(counts, probabilities * 6000).pvalue > 1e-3
    np.testing.assert_allclose(np.exp(log_probabilities), probabilities[np.asarray(actions)], rtol=1e-5)


def test_exploiting_takes_the_best_action_of_the_time_as_the_policy_does() -> None:
    agent = dqn_agent(BITS, replace(SMALL, hidden_layers=(20,)))
    state = random_state(agent)
    rows = np.random.default_rng(5).normal(size=(40, 2, 3)).astype(np.float32)
    observations, goals = rows[:, 0], rows[:, 1]
    exploit = quick_jit(agent.exploit)
    early, late = (np.asarray(exploit(state, observations, goals, time)) for time in (0, 2))
    expected = [
        np.argmax(plain_replay.action_values(state.network, seen, goal, 2))
        for seen, goal in zip(observations, goals, strict=True)
    ]
    np.testing.assert_array_equal(late, expected)
    assert not np.array_equal(early, late), "the time is an input"
    act = quick_jit(jax.vmap(lambda observation, goal: agent.policy(state).act(observation, goal, 2)))
    np.testing.assert_array_equal(late, act(observations, goals))


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("options", [SMALL, hindsight(SMALL)], ids=["dqn", "final"])
def test_two_cycles_are_what_plain_loops_say(options: DQNOptions) -> None:
    """The same lots and draws, in double precision: three steps in each cycle, towards targets of the cycle's start."""
    agent = dqn_agent(BITS, options)
    state = random_state(agent)
    network = state.network
    plain = PlainReplay(
        BITS.horizon, options.replay_capacity, 1000, "final" if isinstance(options, HEROptions) else None
    )
    rates = {"learning_rate": jnp.asarray(0.01)}
    update = quick_jit(lambda state, episodes, key: agent.update(state, episodes, rates, key))
    for cycle in range(2):
        episodes, key = random_episodes(BITS, 4, cycle), jax.random.key(10 + cycle)
        # Adam's averages are private to each plain cycle.
        state, cause, _ = update(state._replace(optimiser=fresh(state.optimiser)), episodes, key)
        assert CAUSES[int(cause)] == ""
        lot_key, draw_key = jax.random.split(key)
        plain.add(episodes, np.asarray(jax.random.uniform(lot_key, (4, 3, goals_per_transition(options) - 1))))
        content = plain.content()
        numbers = jax.random.randint(draw_key, (3 * 8,), 0, jnp.asarray(len(content)))
        minibatches = [[content[number] for number in row] for row in np.asarray(numbers).reshape(3, 8)]
        network = plain_replay.descend(network, minibatches, options.discount, 0.01)
        for found, expected in zip(jax.tree.leaves(state.network), jax.tree.leaves(network), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def fresh(optimiser: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, optimiser)


@cache
def updating() -> tuple[DQNState, Episodes, Any]:
    agent = dqn_agent(BITS, hindsight(SMALL))
    return random_state(agent), random_episodes(BITS, 4, 0), quick_jit(agent.update)


def test_a_network_that_would_not_be_finite_is_not_kept() -> None:
    state, episodes, update = updating()
    after, cause, _ = update(state, episodes, learning_rates(np.inf), jax.random.key(0))
    assert CAUSES[int(cause)] == "a parameter is not finite"
    for kept, old in zip(jax.tree.leaves(after[:2]), jax.tree.leaves(state[:2]), strict=True):
        np.testing.assert_array_equal(kept, old)
    good, cause, _ = update(state, episodes, learning_rates(1e-3), jax.random.key(0))
    assert CAUSES[int(cause)] == ""
    assert not np.array_equal(good.network.network.weights[0], state.network.network.weights[0])


def test_a_network_that_is_not_finite_is_named() -> None:
    state, episodes, update = updating()
    broken = eqx.tree_at(lambda s: s.network.network.biases[-1], state, np.full(3, np.nan, np.float32))
    assert (
        CAUSES[int(update(broken, episodes, learning_rates(1e-3), jax.random.key(0))[1])] == "a parameter is not finite"
    )


def test_a_buffer_with_less_than_a_minibatch_serves_as_well() -> None:
    agent = dqn_agent(BITS, replace(SMALL, minibatch_size=64))
    after, cause, _ = quick_jit(agent.update)(
        random_state(agent), random_episodes(BITS, 1, 0), learning_rates(1e-3), jax.random.key(0)
    )
    assert 1 <= int(after.replay.counts.sum()) <= 3
    assert CAUSES[int(cause)] == ""


def test_an_update_keeps_the_structure_shapes_and_types_of_the_state() -> None:
    for options in (SMALL, hindsight(SMALL, relabelling="future", relabelled_goals=4)):
        agent = dqn_agent(BITS, options)
        state = jax.eval_shape(agent.init, jax.random.key(0))
        episodes = random_episodes(BITS, 4, 0)
        after, _, _ = jax.eval_shape(agent.update, state, episodes, learning_rates(1e-3), jax.random.key(0))
        assert jax.tree.structure(after) == jax.tree.structure(state)  # type: ignore[operator]
        described = [[(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)] for tree in (after, state)]
        assert described[0] == described[1]


def test_impossible_options_are_refused_when_the_agent_is_made() -> None:
    with pytest.raises(HindsightError, match="at least one episode"):
        dqn_agent(BITS, replace(SMALL, replay_capacity=2))
