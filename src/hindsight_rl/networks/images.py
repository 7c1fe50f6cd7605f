"""The paper's convolutions for pictures, as matrix products over small tiles of the batch: fast on a CPU."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.networks.perceptron import Activation, scaled_uniform

LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Channels, width of the kernel, and stride."""
TILE = 8
"""Pictures that are worked on at once, so that their patches stay in the cache."""
SLOPES: dict[Activation, Activation] = {
    jnp.tanh: lambda value: 1 - value * value,
    jax.nn.relu: lambda value: (value > 0).astype(value.dtype),
}
"""The slope of each activation from its value, so that nothing but values is kept for the way back."""


class ImageTrunk(eqx.Module):
    """From a picture to the state's share of the first hidden layer, and from a goal to the goal's.

    The goal enters after the convolutions: what a picture costs is paid once, whatever the number of goals.
    """

    kernels: list[Float[Array, "_patch _channels"]]
    biases: list[Float[Array, " _channels"]]
    state_weight: Float[Array, "features hidden"]
    goal_weight: Float[Array, "goal hidden"]
    bias: Float[Array, " hidden"]
    shape: tuple[int, ...] = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)

    def __init__(
        self,
        shape: Sequence[int],
        goal_size: int,
        hidden: int,
        key: Key[Array, ""],
        activation: Activation = jnp.tanh,
    ):
        *kernel_keys, joint_key = jax.random.split(key, len(LAYERS) + 1)
        self.shape, self.activation = tuple(shape), activation
        self.kernels, self.biases = [], []
        shapes = map_shapes(shape)
        for (channels, size, _), before, kernel_key in zip(
            LAYERS, [tuple(shape), *shapes[:-1]], kernel_keys, strict=True
        ):
            self.kernels.append(_kernel(kernel_key, size, before[2], channels))
            self.biases.append(jnp.zeros(channels))
        features = math.prod(shapes[-1])
        joint = scaled_uniform(joint_key, (features + goal_size, hidden))
        self.state_weight, self.goal_weight = joint[:features], joint[features:]
        self.bias = jnp.zeros(hidden)

    def encode(
        self, pictures: Shaped[Array, "row height width depth"], wanted: Bool[Array, " row"] | None = None
    ) -> Float[Array, "row hidden"]:
        """The share of the first hidden layer that depends on the state alone; it means nothing where it is not wanted.

        Pictures that are not wanted cost nothing, and neither do, on the way back, those on which nothing depends.
        """
        rows = pictures.shape[0]
        order = jnp.arange(rows) if wanted is None else jnp.argsort(~wanted)
        count = jnp.int32(rows) if wanted is None else jnp.sum(wanted)
        first, *others = self.kernels
        # Bytes stand for numbers from 0 to 1: scaling the kernel costs less than scaling every patch.
        kernels = [first / 255 if pictures.dtype == jnp.uint8 else first, *others]
        features = _features(self.activation, pictures, order, count, kernels, self.biases)
        encoded = features.reshape(rows, -1) @ self.state_weight
        return encoded if wanted is None else jnp.zeros_like(encoded).at[order].set(encoded, unique_indices=True)

    def join(self, states: Float[Array, "row hidden"], goals: Float[Array, "row goal"]) -> Float[Array, "row hidden"]:
        """The first hidden layer of pairs of an encoded state and a goal."""
        return self.activation(states + goals @ self.goal_weight + self.bias[None])


def map_shapes(shape: Sequence[int]) -> list[tuple[int, int, int]]:
    """Height, width and channels after each layer."""
    height, width, _ = shape
    shapes = []
    for channels, size, stride in LAYERS:
        height, width = (height - size) // stride + 1, (width - size) // stride + 1
        shapes.append((height, width, channels))
    if min(height, width) < 1:
        raise HindsightError(f"Pictures of {shape[0]}x{shape[1]} are too small for the convolutions.")
    return shapes


def _kernel(key: Key[Array, ""], size: int, depth: int, channels: int) -> Float[Array, "patch channels"]:
    """Uniform with variance 2 / (fan in + fan out), as for the other layers."""
    area = size * size
    bound = math.sqrt(6 / (area * (depth + channels)))
    return jax.random.uniform(key, (area * depth, channels), minval=-bound, maxval=bound)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _features(
    activation: Activation,
    pictures: Shaped[Array, "row height width depth"],
    order: Int[Array, " row"],
    count: Int[Array, ""],
    kernels: list[Float[Array, "_patch _channels"]],
    biases: list[Float[Array, " _channels"]],
) -> Float[Array, "row down across channels"]:
    """The last maps of the first `count` pictures in this order; those of the others are not worked out.

    Only kernels and biases have gradients.
    """
    return _all_maps(activation, pictures, order, count, kernels, biases, keep=1)[-1][: len(order)]


def _all_maps(
    activation: Activation,
    pictures: Array,
    order: Array,
    count: Array,
    kernels: list[Array],
    biases: list[Array],
    keep: int,
) -> list[Float[Array, "_row _down _across _channels"]]:
    """The maps after each of the last `keep` layers; rows are added until they fill tiles."""
    tile = min(TILE, len(order))
    padded = jnp.pad(order, (0, -len(order) % tile))

    def work(number: Array, kept: list[Array]) -> list[Array]:
        maps, found = _take(pictures, _part(padded, number, tile)), []
        for kernel, bias, (_, size, stride) in zip(kernels, biases, LAYERS, strict=True):
            maps = activation(_convolve(maps, kernel, size, stride) + bias[None, None, None])
            found.append(maps)
        put = functools.partial(jax.lax.dynamic_update_slice_in_dim, start_index=number * tile, axis=0)
        return [put(whole, part) for whole, part in zip(kept, found[-keep:], strict=True)]

    empty = [jnp.zeros((len(padded), *shape), kernels[0].dtype) for shape in map_shapes(pictures.shape[1:])[-keep:]]
    return jax.lax.fori_loop(0, (count + tile - 1) // tile, work, empty)


def _forward(
    activation: Activation, pictures: Array, order: Array, count: Array, kernels: list[Array], biases: list[Array]
) -> tuple[Array, tuple[Any, ...]]:
    found = _all_maps(activation, pictures, order, count, kernels, biases, keep=len(LAYERS))
    return found[-1][: len(order)], (pictures, order, kernels, found)


def _backward(
    activation: Activation, kept: tuple[Any, ...], change: Float[Array, "row down across channels"]
) -> tuple[Any, ...]:
    """Gradients of kernels and biases, from the pictures alone on which something depends."""
    pictures, order, kernels, found = kept
    tile, more = min(TILE, len(order)), len(found[-1]) - len(order)
    order, change = jnp.pad(order, (0, more)), jnp.pad(change, ((0, more), *((0, 0),) * 3))
    # Not a number differs from zero too, so that it reaches the gradient and is noticed.
    matters = jnp.any(change != 0, axis=(1, 2, 3))
    first = jnp.argsort(~matters)

    def work(number: Array, totals: list[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
        rows = _part(first, number, tile)
        values = [_take(pictures, order[rows]), *(_take(maps, rows) for maps in found)]
        behind = _take(change, rows)
        gradients: list[tuple[Array, Array]] = []
        for layer in reversed(range(len(LAYERS))):
            behind = behind * SLOPES[activation](values[layer + 1])
            _, size, stride = LAYERS[layer]
            of_kernel = _kernel_gradient(values[layer], size, stride, behind)
            gradients.insert(0, (of_kernel, jnp.sum(behind, axis=(0, 1, 2))))
            if layer > 0:
                behind = _maps_gradient(values[layer], kernels[layer], size, stride, behind)
        return jax.tree.map(jnp.add, totals, gradients)

    zero = [(jnp.zeros_like(kernel), jnp.zeros(kernel.shape[1], kernel.dtype)) for kernel in kernels]
    totals = jax.lax.fori_loop(0, (jnp.sum(matters) + tile - 1) // tile, work, zero)
    of_kernels, of_biases = zip(*totals, strict=True)
    return None, None, None, list(of_kernels), list(of_biases)


_features.defvjp(_forward, _backward)


def _part(numbers: Int[Array, " row"], tile: Array, size: int) -> Int[Array, " number"]:
    return jax.lax.dynamic_slice_in_dim(numbers, tile * size, size)


def _take(rows: Shaped[Array, "row *rest"], numbers: Int[Array, " number"]) -> Shaped[Array, "number *rest"]:
    """The rows with these numbers, copied one by one: a gather would be merged into the patches, and slow them down."""
    return jnp.concatenate([jax.lax.dynamic_slice_in_dim(rows, numbers[place], 1) for place in range(len(numbers))])


def _convolve(
    maps: Shaped[Array, "row height width depth"], kernel: Float[Array, "patch channels"], size: int, stride: int
) -> Float[Array, "row down across channels"]:
    """A convolution whose stride divides its kernel, as one product for all patches; bytes stay bytes until then.

    The rows of the kernel are ordered by block (down, then across), then by place within a block, then by depth.
    """
    patches = _patches(_blocks(maps, stride), size // stride)
    flat = patches.reshape(-1, kernel.shape[0]).astype(kernel.dtype)
    return (flat @ kernel).reshape(*patches.shape[:3], -1)


def _kernel_gradient(maps: Array, size: int, stride: int, change: Array) -> Float[Array, "patch channels"]:
    # The product over all patches is twice as fast with patches along the last axis, cut from maps with channels first.
    patches = _patches(jnp.moveaxis(_blocks(maps, stride), 3, 0), size // stride, places=0)
    return patches.reshape(patches.shape[0], -1).astype(change.dtype) @ change.reshape(-1, change.shape[3])


def _maps_gradient(maps: Array, kernel: Array, size: int, stride: int, change: Array) -> Array:
    cut = jax.linear_transpose(lambda maps: _patches(_blocks(maps, stride), size // stride), maps)
    return cut((change.reshape(-1, change.shape[3]) @ kernel.T).reshape(*change.shape[:3], -1))[0]


def _blocks(maps: Shaped[Array, "row height width depth"], stride: int) -> Shaped[Array, "row y x place"]:
    """Space to depth: squares as wide as the stride."""
    rows, height, width, depth = maps.shape
    down, across = height // stride, width // stride
    split = maps[:, : down * stride, : across * stride].reshape(rows, down, stride, across, stride, depth)
    return split.transpose(0, 1, 3, 2, 4, 5).reshape(rows, down, across, stride * stride * depth)


def _patches(blocks: Shaped[Array, "..."], width: int, places: int = 3) -> Shaped[Array, "..."]:
    """All squares of so many blocks, whose places go side by side along the axis of places, the first or the last."""
    y, x = (2, 3) if places == 0 else (1, 2)
    down, across = blocks.shape[y] - width + 1, blocks.shape[x] - width + 1
    strips = [jax.lax.slice_in_dim(blocks, top, top + down, axis=y) for top in range(width)]
    squares = [jax.lax.slice_in_dim(strip, left, left + across, axis=x) for strip in strips for left in range(width)]
    return jnp.concatenate(squares, axis=places)
