"""The paper's convolutions for pictures, as matrix products over small tiles of the batch: fast on a CPU."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Shaped

from hindsight.core.errors import HindsightError
from hindsight.networks.perceptron import Activation, scaled_uniform

LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Channels, width of the kernel, and stride."""
TILE = 16
"""Pictures that are worked on at once, so that their patches stay in the cache."""


class ImageTrunk(eqx.Module):
    """From a picture to the state's share of the first hidden layer, and from a goal to the goal's.

    The goal enters after the convolutions: what a picture costs is paid once, whatever the number of goals.
    """

    kernels: list[Float[Array, "patch channels"]]
    biases: list[Float[Array, " channels"]]
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
        height, width, depth = shape
        *kernel_keys, joint_key = jax.random.split(key, len(LAYERS) + 1)
        self.shape, self.activation = tuple(shape), activation
        self.kernels, self.biases = [], []
        for (channels, size, stride), kernel_key in zip(LAYERS, kernel_keys, strict=True):
            self.kernels.append(_kernel(kernel_key, size, depth, channels))
            self.biases.append(jnp.zeros(channels))
            height, width, depth = (height - size) // stride + 1, (width - size) // stride + 1, channels
            if min(height, width) < 1:
                raise HindsightError(f"Pictures of {shape[0]}x{shape[1]} are too small for the convolutions.")
        features = height * width * depth
        joint = scaled_uniform(joint_key, (features + goal_size, hidden))
        self.state_weight, self.goal_weight = joint[:features], joint[features:]
        self.bias = jnp.zeros(hidden)

    def encode(self, pictures: Shaped[Array, "row height width depth"]) -> Float[Array, "row hidden"]:
        """The share of the first hidden layer that depends on the state alone."""
        rows = pictures.shape[0]
        tile = min(TILE, rows)
        padded = jnp.pad(pictures, ((0, -rows % tile), *((0, 0),) * 3))
        tiles = padded.reshape(-1, tile, *self.shape)
        features = jax.lax.map(self._convolve_tile, tiles)
        return features.reshape(-1, self.state_weight.shape[0])[:rows] @ self.state_weight

    def _convolve_tile(self, pictures: Shaped[Array, "row height width depth"]) -> Float[Array, "row features"]:
        # Patches are made again on the way back: they are many times larger than the maps that they are cut from.
        convolve = jax.checkpoint(_convolve, static_argnums=(2, 3))
        maps = pictures
        for kernel, bias, (_, size, stride) in zip(self.kernels, self.biases, LAYERS, strict=True):
            maps = self.activation(convolve(maps, kernel, size, stride) + bias[None, None, None])
        return maps.reshape(pictures.shape[0], -1)

    def join(self, states: Float[Array, "row hidden"], goals: Float[Array, "row goal"]) -> Float[Array, "row hidden"]:
        """The first hidden layer of pairs of an encoded state and a goal."""
        return self.activation(states + goals @ self.goal_weight + self.bias[None])


def _kernel(key: Key[Array, ""], size: int, depth: int, channels: int) -> Float[Array, "patch channels"]:
    """Uniform with variance 2 / (fan in + fan out), as for the other layers."""
    area = size * size
    bound = math.sqrt(6 / (area * (depth + channels)))
    return jax.random.uniform(key, (area * depth, channels), minval=-bound, maxval=bound)


def _convolve(
    maps: Shaped[Array, "row height width depth"], kernel: Float[Array, "patch channels"], size: int, stride: int
) -> Float[Array, "row height width channels"]:
    """A convolution whose stride divides its kernel: space to depth, then one product for all patches.

    Bytes, which stand for numbers from 0 to 1, stay bytes until that product. The rows of the kernel are ordered by
    block (down, then across), then by place within a block, then by depth.
    """
    rows, height, width, depth = maps.shape
    blocks = size // stride
    down, across = (height - size) // stride + 1, (width - size) // stride + 1
    tall, wide = (down + blocks - 1) * stride, (across + blocks - 1) * stride
    maps = maps[:, :tall, :wide].reshape(rows, tall // stride, stride, wide // stride, stride, depth)
    maps = maps.transpose(0, 1, 3, 2, 4, 5).reshape(rows, tall // stride, wide // stride, stride * stride * depth)
    shifted = [maps[:, y : y + down, x : x + across] for y in range(blocks) for x in range(blocks)]
    patches = jnp.concatenate(shifted, axis=3)
    if patches.dtype == jnp.uint8:
        patches = patches.astype(kernel.dtype) / 255
    return (patches.reshape(-1, patches.shape[3]) @ kernel).reshape(rows, down, across, -1)
