"""The replay buffer for pictures: each is stored once, compressed without loss, outside of the compiled program.

A `Replay` serves as the catalogue: in the place of each observation it has three numbers that say where the picture is.
So which transitions there are, how they are relabelled and drawn is the same code for every buffer.
"""

import zlib
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from hindsight_rl.agents.replay import Replay, Transitions, add_episodes, draw, empty_replay, with_more_slots
from hindsight_rl.agents.replay_options import DQNOptions, goals_per_transition
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.interface import Task
from hindsight_rl.networks.perceptron import flat_size

BLOCKS = 64
"""Parts of the store. An update copies those that it writes into, and the oldest one is emptied at a time."""
SHRINKAGE = 20
"""Room for pictures that take up that many times less than their raw bytes; Ms. Pac-man's take up 30 times less."""
LEVEL = 6
"""Of zlib's effort. Less would be faster, but it is little beside the gradient steps; more gains hardly a byte."""
PLACE = jax.ShapeDtypeStruct((3,), jnp.int32)
"""Where a picture is: the number of its block, counted from the first one ever begun, its first byte, and its size."""


Stored = Array | np.ndarray


class PictureReplay(NamedTuple):
    """Episodes and transitions in the catalogue, pictures in a ring of blocks.

    An episode leaves as a whole: when it is the oldest and the capacity, in transitions, is exceeded; or when the block
    with its first picture is begun anew.
    """

    catalogue: Replay
    blocks: tuple[UInt8[Stored, " byte"], ...]
    """Block number n is at n modulo their number, until the one that takes its place is begun. They are separate arrays
    so that a buffer and the one before it share all blocks but the newest."""
    newest: Int[Array, ""]
    """The number of the block that is being filled."""
    filled: Int[Array, ""]
    """Bytes used in it."""
    background: UInt8[Stored, "height width"]
    """The first picture's first channel, from which others differ in few pixels."""


class Programs(NamedTuple):
    """The compiled functions of a buffer's catalogue."""

    add: Callable[[Replay, Episodes, Array, Array], Replay]
    """(catalogue, episodes with places, lots, number of the oldest block still there): the catalogue with them."""
    draw: Callable[[Replay, Key[Array, ""]], Transitions]
    """(catalogue, key): minibatches of transitions with places."""


def empty_picture_replay(environment: Task, options: DQNOptions) -> PictureReplay:
    """A buffer without any episode."""
    size = block_size(environment, options)
    return PictureReplay(
        catalogue=empty_replay(environment, options, PLACE),
        blocks=tuple(jnp.zeros(size, jnp.uint8) for _ in range(BLOCKS)),
        newest=jnp.int32(0),
        filled=jnp.int32(0),
        background=jnp.zeros(environment.observation_shape[:2], jnp.uint8),
    )


def with_more_room(replay: PictureReplay, empty: PictureReplay) -> PictureReplay:
    """The same pictures in a buffer with at least as much room. What its older blocks gained in room stays unused."""
    size = len(empty.blocks[0])
    blocks = tuple(np.pad(np.asarray(block), (0, size - len(block))) for block in replay.blocks)
    return replay._replace(catalogue=with_more_slots(replay.catalogue, empty.catalogue), blocks=blocks)


def block_size(environment: Task, options: DQNOptions) -> int:
    """Bytes of a block, for the capacity or the episodes that there will ever be; an episode fits even as pure noise.

    The newest episode begins in a block that is partly filled, so the others must be enough for it.
    """
    actions, raw = environment.horizon - 1, flat_size(environment.observation_shape)
    pictures = options.replay_capacity // goals_per_transition(options)
    if options.episode_limit is not None:
        pictures = min(pictures, options.episode_limit * actions)
    # Noise grows by a little when it is compressed.
    noise = raw + raw // 8 + 64
    return max(-(-pictures * raw // (SHRINKAGE * BLOCKS)), -(-actions // (BLOCKS - 1)) * noise)


def compile_programs(environment: Task, options: DQNOptions) -> Programs:
    """Compile (at first use) what is done with the catalogue."""
    minibatches = (options.gradient_steps, options.minibatch_size)

    def add(catalogue: Replay, episodes: Episodes, lots: Array, oldest: Array) -> Replay:
        catalogue = add_episodes(environment, options, catalogue, episodes, lots)
        # An episode's first picture is the first one to be overwritten.
        stands = catalogue.observations[:, 0, 0] >= oldest
        return catalogue._replace(counts=jnp.where(stands, catalogue.counts, 0))

    def draw_minibatches(catalogue: Replay, key: Key[Array, ""]) -> Transitions:
        transitions = draw(environment, options, catalogue, flat_size(minibatches), key)
        return jax.tree.map(lambda leaf: leaf.reshape(*minibatches, *leaf.shape[1:]), transitions)

    return Programs(jax.jit(add), jax.jit(draw_minibatches))


def add_pictures(
    programs: Programs, replay: PictureReplay, episodes: Episodes, lots: Float[Array, "episode time relabelled"]
) -> PictureReplay:
    """The buffer with a batch of episodes in the place of its oldest ones; the lots decide which goals are drawn.

    The given buffer stays as it is.
    """
    pictures, lengths = np.asarray(episodes.observations), np.asarray(episodes.lengths)
    fresh = int(replay.newest) == 0 and int(replay.filled) == 0
    background = pictures[0, 0, ..., 0] if fresh else np.asarray(replay.background)
    writer = _Writer(replay)
    places = np.zeros((*pictures.shape[:2], *PLACE.shape), np.int32)
    # What the last action led to is not kept, as in every buffer: nothing ever looks at it.
    for episode, length in enumerate(lengths):
        for time in range(length):
            places[episode, time] = writer.write(_compress(pictures[episode, time], background))
    stored = episodes._replace(observations=jnp.asarray(places))
    return PictureReplay(
        catalogue=programs.add(replay.catalogue, stored, lots, jnp.int32(writer.newest - len(writer.blocks) + 1)),
        blocks=tuple(writer.blocks),
        newest=jnp.int32(writer.newest),
        filled=jnp.int32(writer.filled),
        background=np.array(background),
    )


def with_pictures(replay: PictureReplay, transitions: Transitions) -> Transitions:
    """Transitions with pictures instead of places."""
    return transitions._replace(
        observations=jnp.asarray(look_at(replay, transitions.observations)),
        next_observations=jnp.asarray(look_at(replay, transitions.next_observations)),
    )


def look_at(replay: PictureReplay, places: Int[Stored, "row 3"]) -> UInt8[np.ndarray, "row height width depth"]:
    """The pictures at these places."""
    background = np.asarray(replay.background)
    found = []
    for number, start, size in np.asarray(places).tolist():
        block = np.asarray(replay.blocks[number % len(replay.blocks)])
        found.append(np.frombuffer(zlib.decompress(block[start : start + size].data), np.uint8))
    channels = np.stack(found).reshape(len(found), -1, *background.shape)
    channels[:, 0] ^= background
    for channel in range(1, channels.shape[1]):
        channels[:, channel] ^= channels[:, channel - 1]
    return np.moveaxis(channels, 1, 3)


def _compress(picture: UInt8[np.ndarray, "height width depth"], background: UInt8[np.ndarray, "height width"]) -> bytes:
    """Channels are frames in their order, nearly the same: most differences are zero."""
    channels = np.moveaxis(picture, 2, 0)
    differences = np.concatenate([channels[:1] ^ background, channels[1:] ^ channels[:-1]])
    return zlib.compress(differences.tobytes(), LEVEL)


class _Writer:
    """Writes on behind a buffer's newest picture, into copies."""

    def __init__(self, replay: PictureReplay):
        self.blocks = list(replay.blocks)
        self.newest, self.filled = int(replay.newest), int(replay.filled)
        self._size = len(self.blocks[0])
        self._open(np.array(self.blocks[self.newest % len(self.blocks)]))

    def write(self, content: bytes) -> tuple[int, int, int]:
        """Store the bytes, and say where."""
        if self.filled + len(content) > self._size:
            self.newest, self.filled = self.newest + 1, 0
            self._open(np.zeros(self._size, np.uint8))
        start, self.filled = self.filled, self.filled + len(content)
        self._block[start : self.filled] = np.frombuffer(content, np.uint8)
        return self.newest, start, len(content)

    def _open(self, block: UInt8[np.ndarray, " byte"]) -> None:
        self._block = self.blocks[self.newest % len(self.blocks)] = block
