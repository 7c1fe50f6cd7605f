"""What a replay buffer keeps: against plain loops, when it is full, in a checkpoint, in its types and its size."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.compilation import quick_jit
from reference.methods import learning_rates
from reference.plain_replay import PlainReplay
from reference.probes import Corridor
from reference.walks import FINAL, WALK, content, filled, lots_for, programs, rows, walks

from hindsight_rl.agents.dqn import dqn_agent
from hindsight_rl.agents.replay import draw, empty_replay
from hindsight_rl.agents.replay_options import DQNOptions, HEROptions, goals_per_transition, most_transitions
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.grid_world import GridWorld
from hindsight_rl.environments.interface import Environment
from hindsight_rl.records.checkpoints import load_checkpoint, save_checkpoint
from hindsight_rl.rollout.compiled import collect
from hindsight_rl.training.state import RunState, state_from_arrays, state_to_arrays


def test_old_episodes_are_overwritten_as_a_whole() -> None:
    """Three slots and five episodes: the first two are gone, and of the others nothing is missing."""
    options = HEROptions(replay_capacity=24, episode_limit=3)
    episodes = [[4, 3, 2, 1, 0], [4, 5], [4, 5, 6, 7, 6], [4, 3], [4, 3, 2]]
    replay = filled(options, *[walks(cells) for cells in episodes])
    expected = [row for cells in episodes[2:] for row in rows(content(FINAL, filled(FINAL, walks(cells))))]
    assert rows(content(options, replay)) == sorted(expected)


def test_the_capacity_counts_transitions_and_drops_whole_episodes() -> None:
    """Sixteen transitions: 6 + 4 + 6 of the newest three episodes; the 8 of the one before do not fit, even in part."""
    options = HEROptions(replay_capacity=16, minibatch_size=16)
    batches = [walks(cells) for cells in ([4, 5, 6, 7, 8], [4, 3, 2, 1], [4, 3, 2], [4, 5, 6, 7])]
    assert empty_replay(WALK, options).counts.shape == (4,), "memory for twice as many as have full length"
    transitions = content(options, filled(options, *batches))
    assert len(transitions.times) == 16
    assert 8 not in transitions.next_observations
    shorter = content(options, filled(options, *batches[:3]))
    assert len(shorter.times) == 10, "8 more would not fit"


def test_of_a_batch_larger_than_the_buffer_the_newest_are_kept() -> None:
    options = HEROptions(replay_capacity=24, episode_limit=2)
    at_once = filled(options, walks([4, 5], [4, 3], [4, 3, 2], [4, 5, 6]))
    assert rows(content(options, at_once)) == rows(content(options, filled(options, walks([4, 3, 2], [4, 5, 6]))))


RING = GridWorld("S...\n.##.\n...S", slip=0.3, horizon=9)
BITS = BitFlipping(4)
OPTIONS = {
    "dqn": DQNOptions(),
    "final": HEROptions(),
    "future": HEROptions(relabelling="future", relabelled_goals=3),
    "episode": HEROptions(relabelling="episode", relabelled_goals=2),
}


@cache
def random_batches(environment: Environment, episodes_end: Any) -> list[Episodes]:
    """Seven batches of three episodes with uniformly random actions."""

    def explore(observations: jax.Array, goals: jax.Array, time: jax.Array, key: jax.Array) -> tuple[Any, ...]:
        actions = jax.random.randint(key, (3,), 0, environment.action_count)
        return actions, jnp.zeros(3)

    program = quick_jit(lambda key: collect(environment, explore, 3, key, episodes_end))
    return [program(key) for key in jax.random.split(jax.random.key(5), 7)]


@pytest.mark.parametrize("episodes_end", ["goal", "horizon"])
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("environment", [RING, BITS], ids=["slippery ring", "4 bits"])
def test_the_compiled_buffer_holds_what_plain_loops_say(environment: Any, name: str, episodes_end: str) -> None:
    """Every transition in its place, while a buffer for eleven episodes takes twenty-one and its capacity binds."""
    capacity = 9 * most_transitions(OPTIONS[name], environment.horizon)
    options = replace(OPTIONS[name], replay_capacity=capacity, minibatch_size=8, episode_limit=11)
    strategy = options.relabelling if isinstance(options, HEROptions) else None
    plain = PlainReplay(environment.horizon, capacity, 11, strategy, goals_per_transition(options) - 1)
    replay = empty_replay(environment, options)
    for number, episodes in enumerate(random_batches(environment, episodes_end)):
        lots = lots_for(episodes, options, number)
        replay = programs(environment, options)[0](replay, episodes, lots)
        plain.add(episodes, lots)
        found, expected = content(options, replay, environment), plain.content()
        assert len(found.times) == len(expected)
        np.testing.assert_array_equal(found.observations, [one.observation for one in expected])
        np.testing.assert_array_equal(found.goals, [one.goal for one in expected])
        assert found.actions.tolist() == [one.action for one in expected]
        assert found.times.tolist() == [one.time for one in expected]
        assert found.rewards.tolist() == [one.reward for one in expected]
        assert found.terminal.tolist() == [one.next_observation is None for one in expected]
        following = [one.next_observation for one in expected if one.next_observation is not None]
        np.testing.assert_array_equal(found.next_observations[~found.terminal], following)
    assert any(one.reward > 0 for one in expected)
    assert any(one.relabelled for one in expected) == isinstance(options, HEROptions)


def test_a_buffer_that_was_saved_and_loaded_gives_the_same_minibatches(tmp_path: Path) -> None:
    """Through the files of a checkpoint, for two runs, and learning goes on to the same bytes."""
    options = HEROptions(
        relabelling="future", relabelled_goals=2, replay_capacity=100, minibatch_size=8, gradient_steps=3
    )
    agent = dqn_agent(BITS, replace(options, hidden_layers=(6,)))
    batches = random_batches(BITS, "goal")
    rates, keys = learning_rates(1e-2, 1), jax.random.split(jax.random.key(0), 2)
    update = quick_jit(
        lambda states, episodes, keys: jax.lax.map(
            lambda run: agent.update(run[0], episodes, rates, run[1])[0], (states, keys)
        )
    )
    states = quick_jit(jax.vmap(agent.init))(keys)
    for episodes in batches[:4]:
        states = update(states, episodes, keys)
    whole = RunState(states, jnp.full(2, -1), jnp.zeros(2, jnp.int32))
    save_checkpoint(tmp_path / "buffer.npz", state_to_arrays(whole), {})
    loaded = state_from_arrays(jax.eval_shape(lambda: whole), load_checkpoint(tmp_path / "buffer.npz")[0]).agent
    first = jax.tree.map(lambda leaf: leaf[1], (states.replay, loaded.replay))
    drawn = [quick_jit(lambda replay: draw(BITS, options, replay, 64, keys[0]))(replay) for replay in first]
    for one, other in zip(*drawn, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(*(jax.tree.leaves(update(s, batches[4], keys)) for s in (states, loaded)), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_observations_keep_their_type_and_shape() -> None:
    class Screen(Corridor):
        def observe(self, state: jax.Array) -> jax.Array:
            return jnp.full((3, 2), state[0]).astype(jnp.uint8)

    screen = Screen(cells=9, start=4, goals=(0, 8), moves=(-1, 1), horizon=5)  # type: ignore[call-arg]
    episodes = walks([4, 5, 6])
    pictures = jnp.tile(jnp.nan_to_num(episodes.observations)[:, :, None], (1, 1, 3, 2)).astype(jnp.uint8)
    replay = filled(FINAL, episodes._replace(observations=pictures), environment=screen)
    transitions = content(FINAL, replay, screen)
    assert transitions.observations.dtype == np.uint8
    assert transitions.observations.shape == (4, 3, 2)
    assert np.all(transitions.observations == 4 + transitions.times[:, None, None])


def test_a_million_transitions_of_16_bits_fit_into_300_megabytes() -> None:
    environment = BitFlipping(16)
    for options in (HEROptions(), DQNOptions(), OPTIONS["future"]):
        leaves = jax.tree.leaves(jax.eval_shape(lambda options=options: empty_replay(environment, options)))
        size = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
        assert size < 300e6
        slots = jax.eval_shape(lambda options=options: empty_replay(environment, options)).counts.shape[0]
        assert slots * most_transitions(options, environment.horizon) >= options.replay_capacity
