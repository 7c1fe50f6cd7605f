"""An actor and a critic that look at pictures, or rows, under several goals each."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hindsight_rl.networks.actor_critic import Actor, Critic, Inputs

SHAPES = {"pictures": (36, 40, 2), "rows": (5,)}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_states_under_several_goals_are_as_under_one_after_another(shape: tuple[int, ...]) -> None:
    """Values, and their gradients, are those of a state repeated for each of its goals."""
    generator = np.random.default_rng(0)
    states = generator.integers(0, 256, (3, *shape), np.uint8)
    goals = generator.normal(size=(12, 2)).astype(np.float32)
    inputs = Inputs(shape, 2, normalise=False, interactions=False)
    sizes = inputs.sizes(shape, 2)
    actor = Actor(*sizes, 4, (8, 8), jax.random.key(1))
    critic = Critic(*sizes, (8, 8), jax.random.key(2))
    shares = jnp.linspace(0, 1, 12)
    weights = generator.normal(size=(12, 5)).astype(np.float32)

    @jax.jit
    def looked(states: jax.Array) -> tuple[jax.Array, tuple[Actor, Critic]]:
        def total(networks: tuple[Actor, Critic]) -> jax.Array:
            seen = inputs(states, goals)
            rows = jnp.concatenate([networks[0](*seen), networks[1](*seen, shares)[:, None]], axis=1)
            return jnp.sum(weights * rows)

        return jax.value_and_grad(total)((actor, critic))

    together, repeated = looked(jnp.asarray(states)), looked(jnp.repeat(states, 4, axis=0))
    for one, other in zip(jax.tree.leaves(together), jax.tree.leaves(repeated), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6 * np.abs(other).max())
    assert all(np.any(leaf) for leaf in jax.tree.leaves(together[1]))
