"""The hosted loop learns what the compiled one does, and resumes to the same bytes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from reference.hosted_bits import hosted_bits
from reference.methods import learning_rates

from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.rollout.compiled import collect
from hindsight_rl.rollout.hosted import collect_hosted, open_pool
from hindsight_rl.training.loop import training
from hindsight_rl.training.program import make_program
from hindsight_rl.training.settings import make_settings

BITS = 4
SETTINGS = make_settings(
    {
        "method": "hpg+b",
        "batch_size": 6,
        "batches": 4,
        "evaluate_every": 2,
        "evaluation_episodes": 20,
        "hidden_layers": (8,),
    }
)
KEY = jax.random.key(5)


def test_same_gradient_as_compiled() -> None:
    agent, hosted = (make_program(task, SETTINGS).agent for task in (BitFlipping(BITS), hosted_bits(BITS)))
    state = jax.jit(agent.init)(jax.random.key(1))
    state = jax.tree.map(lambda leaf: 30 * leaf if leaf.dtype == jnp.float32 else leaf, state)
    rates = learning_rates(1e-3, 1e-3)
    explore = functools.partial(agent.explore, state)
    with open_pool(hosted_bits(BITS), 6, 0) as pool:
        ours = collect_hosted(hosted_bits(BITS), pool, jax.jit(explore), 6, KEY)
    compiled = jax.jit(lambda key: collect(BitFlipping(BITS), explore, 6, key))(KEY)
    mine, *_ = jax.jit(hosted.update)(state, ours, rates, KEY)
    theirs, *_ = jax.jit(agent.update)(state, compiled, rates, KEY)
    # Adam's first moment is a tenth of the gradient.
    for left, right in zip(
        jax.tree.leaves(mine.policy_optimiser), jax.tree.leaves(theirs.policy_optimiser), strict=True
    ):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-7)


def test_training_resumes_to_the_same_bytes() -> None:
    program = make_program(hosted_bits(BITS), SETTINGS)
    whole = list(training(program, SETTINGS))
    assert [snapshot.batch for snapshot in whole] == [0, 2, 4]
    *_, resumed = training(program, SETTINGS, snapshot=whole[1])
    for left, right in zip(jax.tree.leaves(whole[-1].states), jax.tree.leaves(resumed.states), strict=True):
        np.testing.assert_array_equal(left, right)
    for name, values in whole[-1].evaluations.metrics.items():
        np.testing.assert_array_equal(values, resumed.evaluations.metrics[name])
