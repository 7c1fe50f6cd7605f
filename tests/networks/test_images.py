"""Convolutions as matrix products equal plain convolutions, forward and backward, and goals share them."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hindsight_rl.networks.images import LAYERS, ImageTrunk, _convolve
from hindsight_rl.networks.perceptron import Activation
from hindsight_rl.networks.policy import Policy

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.mark.parametrize(
    ("size", "stride", "height", "width"), [(8, 4, 84, 84), (4, 2, 20, 20), (3, 1, 9, 9), (4, 2, 9, 13)]
)
def test_convolution_equals_the_plain_one(size: int, stride: int, height: int, width: int) -> None:
    generator = np.random.default_rng(0)
    maps = generator.normal(size=(3, height, width, 5)).astype(np.float32)
    blocks = size // stride
    kernel = generator.normal(size=(size, size, 5, 7)).astype(np.float32)
    # Our rows run over blocks, then over places within a block.
    rows = kernel.reshape(blocks, stride, blocks, stride, 5, 7).transpose(0, 2, 1, 3, 4, 5).reshape(-1, 7)
    expected = jax.lax.conv_general_dilated(
        maps, kernel, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    np.testing.assert_allclose(_convolve(jnp.asarray(maps), jnp.asarray(rows), size, stride), expected, atol=2e-4)


def plain_encoding(trunk: ImageTrunk, pictures: jax.Array) -> jax.Array:
    maps = pictures.astype(jnp.float32) / 255
    for kernel, bias, (_, size, stride) in zip(trunk.kernels, trunk.biases, LAYERS, strict=True):
        blocks, depth = size // stride, maps.shape[3]
        square = kernel.reshape(blocks, blocks, stride, stride, depth, -1).transpose(0, 2, 1, 3, 4, 5)
        square = square.reshape(size, size, depth, -1)
        maps = jax.lax.conv_general_dilated(
            maps, square, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        maps = trunk.activation(maps + bias[None, None, None])
    return maps.reshape(len(pictures), -1) @ trunk.state_weight


@pytest.mark.parametrize(("activation", "some"), [(jnp.tanh, False), (jnp.tanh, True), (jax.nn.relu, True)])
def test_encoding_and_its_gradient_equal_the_plain_ones_for_any_number_of_pictures(
    activation: Activation, some: bool
) -> None:
    trunk = ImageTrunk((84, 84, 4), 2, 16, jax.random.key(0), activation)
    pictures = jax.random.randint(jax.random.key(1), (19, 84, 84, 4), 0, 256).astype(jnp.uint8)
    weights = jax.random.normal(jax.random.key(2), (19, 16))
    wanted = jnp.arange(19) % 3 != 1 if some else None
    if some:
        # Of the pictures that are wanted, most do not matter to the gradient.
        weights = jnp.where((jnp.arange(19) % 3 == 2)[:, None], weights, 0)

    def loss(encode: Callable[[ImageTrunk], jax.Array]) -> tuple[jax.Array, ImageTrunk]:
        return jax.jit(jax.value_and_grad(lambda trunk: jnp.sum(weights * encode(trunk))))(trunk)

    ours, our_gradient = loss(lambda trunk: trunk.encode(pictures, wanted))
    theirs, their_gradient = loss(lambda trunk: plain_encoding(trunk, pictures))
    np.testing.assert_allclose(ours, theirs, rtol=1e-3)
    for left, right in zip(jax.tree.leaves(our_gradient), jax.tree.leaves(their_gradient), strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-3, atol=2e-3 * float(jnp.abs(right).max()) + 1e-6)


def test_only_wanted_pictures_are_encoded() -> None:
    trunk = ImageTrunk((84, 84, 4), 2, 16, jax.random.key(0))
    pictures = jax.random.randint(jax.random.key(1), (19, 84, 84, 4), 0, 256).astype(jnp.uint8)
    wanted = jnp.arange(19) % 5 == 3
    found = jax.jit(ImageTrunk.encode)(trunk, pictures, wanted)
    expected = jax.jit(plain_encoding)(trunk, pictures)
    np.testing.assert_allclose(found[wanted], expected[wanted], rtol=1e-3, atol=1e-4)
    # Wanted pictures are packed into tiles, so that this leaves whole tiles out.
    nothing = jax.jit(ImageTrunk.encode)(trunk, pictures, jnp.zeros(19, bool))
    assert not nothing.any()


def test_a_policy_for_pictures_gives_probabilities() -> None:
    policy = Policy((84, 84, 4), 2, 4, (16, 16, 16), jax.random.key(0))
    pictures = jax.random.randint(jax.random.key(1), (5, 84, 84, 4), 0, 256).astype(jnp.uint8)
    goals = jnp.arange(10.0).reshape(5, 2)
    table = jax.jit(Policy.log_probabilities)(policy, pictures, goals)
    np.testing.assert_allclose(np.exp(table).sum(axis=1), 1, rtol=1e-5)
    assert policy.act(pictures[0], goals[0]) == jnp.argmax(table[0])
