"""The buffer for pictures keeps what the compiled one keeps, in little memory."""

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.compilation import quick_jit
from reference.screens import CORRIDOR, Screen, random_walks
from reference.walks import content, filled, lots_for

from hindsight_rl.agents.picture_replay import (
    BLOCKS,
    PictureReplay,
    Programs,
    add_pictures,
    block_size,
    compile_programs,
    empty_picture_replay,
    with_pictures,
)
from hindsight_rl.agents.replay import Replay, Transitions, directory, look_up
from hindsight_rl.agents.replay_options import DQNOptions, HEROptions, most_transitions
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.ms_pacman.game import MsPacmanTask

NOISE = (9, 10, 5)
"""The shape of pictures that nothing can compress: a block then has room for one of them."""


SCREEN = Screen(**CORRIDOR)
STRATEGIES = {
    "dqn": DQNOptions(),
    "final": HEROptions(),
    "future": HEROptions(relabelling="future", relabelled_goals=3),
    "episode": HEROptions(relabelling="episode", relabelled_goals=2),
}


@functools.cache
def programs(screen: Screen, options: DQNOptions) -> tuple[Programs, Any]:
    """Those of the buffer, and one to look everything up."""

    def read(catalogue: Replay) -> tuple[Transitions, jax.Array]:
        where = directory(catalogue, options.replay_capacity)
        return look_up(screen, options, catalogue, where, jnp.arange(options.replay_capacity)), where.size

    return compile_programs(screen, options), quick_jit(read)


def stored(screen: Screen, options: DQNOptions, *batches: Episodes) -> PictureReplay:
    """The batches in a buffer for pictures, with the lots that `filled` takes."""
    replay = empty_picture_replay(screen, options)
    for number, episodes in enumerate(batches):
        replay = add_pictures(programs(screen, options)[0], replay, episodes, lots_for(episodes, options, number))
    return replay


def everything(screen: Screen, options: DQNOptions, replay: PictureReplay) -> Transitions:
    """All transitions in the buffer."""
    found, size = programs(screen, options)[1](replay.catalogue)
    return with_pictures(replay, jax.tree.map(lambda leaf: np.asarray(leaf)[: int(size)], found))


def assert_same(found: Transitions, expected: Transitions) -> None:
    for name, one, other in zip(Transitions._fields, found, expected, strict=True):
        assert one.dtype == other.dtype, name
        np.testing.assert_array_equal(one, other, name)


@pytest.mark.parametrize("name", STRATEGIES)
def test_it_holds_the_transitions_of_the_compiled_buffer(name: str) -> None:
    """While a ring of eleven slots takes seven batches of three episodes and its capacity binds."""
    capacity = 9 * most_transitions(STRATEGIES[name], SCREEN.horizon)
    options = replace(STRATEGIES[name], replay_capacity=capacity, minibatch_size=8, episode_limit=11)
    batches = [random_walks(SCREEN, 3, seed) for seed in range(7)]
    for count in (1, 4, 7):
        found = everything(SCREEN, options, stored(SCREEN, options, *batches[:count]))
        assert_same(found, content(options, filled(options, *batches[:count], environment=SCREEN), SCREEN))
    assert len(found.times) > 11
    assert 99 not in found.actions
    assert any(found.rewards > 0)


def test_episodes_leave_whole_when_their_bytes_are_overwritten() -> None:
    """A block holds one picture of noise, so the newest episodes with up to 64 pictures together are there."""
    screen = Screen(**CORRIDOR, shape=NOISE, noise=True)
    options = HEROptions(replay_capacity=1000)
    batches = [random_walks(screen, 5, seed) for seed in range(14)]
    replay = stored(screen, options, *batches)
    lengths = np.concatenate([episodes.lengths for episodes in batches])
    kept = int(np.sum(np.cumsum(lengths[::-1]) <= BLOCKS))
    assert int(replay.newest) == lengths.sum() - 1 > 2 * BLOCKS, "more than twice around"
    assert replay.catalogue.counts.shape[0] > len(lengths), "slots are not what binds"
    assert np.sum(np.asarray(replay.catalogue.counts) > 0) == kept < len(lengths)
    all_of_them = content(options, filled(options, *batches, environment=screen), screen)
    found = everything(screen, options, replay)
    # The newest come first, so what is left is the beginning of what there would be.
    assert_same(found, Transitions(*(leaf[: len(found.times)] for leaf in all_of_them)))
    assert len(found.times) == np.sum(replay.catalogue.counts)


def test_of_a_batch_larger_than_the_memory_for_pictures_the_newest_are_kept() -> None:
    screen = Screen(**CORRIDOR, shape=NOISE, noise=True)
    options = HEROptions(replay_capacity=1000)
    batch = random_walks(screen, 60, 0)
    replay = stored(screen, options, batch)
    kept = int(np.sum(np.cumsum(np.asarray(batch.lengths)[::-1]) <= BLOCKS))
    assert np.flatnonzero(replay.catalogue.counts).tolist() == list(range(60 - kept, 60))
    found = everything(screen, options, replay)
    all_of_them = content(options, filled(options, batch, environment=screen), screen)
    assert_same(found, Transitions(*(leaf[: len(found.times)] for leaf in all_of_them)))


@pytest.mark.parametrize("horizon", [2, 28, 300])
def test_no_episode_is_too_large_even_as_noise(horizon: int) -> None:
    """Memory for a single episode, and a full one of noise comes behind a shorter one that ended somewhere."""
    screen = Screen(**{**CORRIDOR, "horizon": horizon}, shape=NOISE, noise=True)
    options = DQNOptions(replay_capacity=horizon - 1, minibatch_size=1)
    pictures = np.random.default_rng(0).integers(0, 256, (2, horizon, *NOISE), np.uint8)
    goals = jnp.zeros((2, horizon, 1))
    lengths = jnp.array([max(1, horizon // 3), horizon - 1])
    nothing = jnp.zeros((2, horizon - 1))
    batch = Episodes(jnp.asarray(pictures), goals, nothing.astype(int), jnp.full((2, 1), 8.0), lengths, nothing)
    found = everything(screen, options, stored(screen, options, batch))
    np.testing.assert_array_equal(found.observations, pictures[1, :-1])


def test_adding_leaves_the_old_buffer_as_it_was_and_shares_its_memory() -> None:
    """A checkpoint may still be written from the old one, and a copy of every picture would be slow."""
    options = HEROptions(replay_capacity=400)
    first, second = (random_walks(SCREEN, 3, seed) for seed in (0, 1))
    old = stored(SCREEN, options, first)
    before = [np.array(leaf) for leaf in jax.tree.leaves(old)]
    new = add_pictures(programs(SCREEN, options)[0], old, second, lots_for(second, options, 1))
    for leaf, value in zip(jax.tree.leaves(old), before, strict=True):
        np.testing.assert_array_equal(leaf, value)
    shared = sum(one is other for one, other in zip(old.blocks, new.blocks, strict=True))
    assert BLOCKS - 5 < shared < BLOCKS


def size_of(replay: PictureReplay) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(replay))


@pytest.mark.parametrize(
    ("name", "measured", "most"), [("final", 590e6, 750e6), ("dqn", 960e6, 1.5e9), ("future", 350e6, 400e6)]
)
def test_a_million_transitions_of_ms_pacman_fit_into_what_the_manual_says(
    name: str, measured: float, most: float
) -> None:
    environment, options = MsPacmanTask(), STRATEGIES[name]
    assert size_of(jax.eval_shape(lambda: empty_picture_replay(environment, options))) < most
    short = replace(options, episode_limit=16 * 100)
    assert size_of(jax.eval_shape(lambda: empty_picture_replay(environment, short))) < 70e6
    assert BLOCKS * block_size(environment, options) > measured
