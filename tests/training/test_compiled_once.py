"""A state has the same types before its first update as after it: else every program would be compiled twice."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from hindsight_rl.environments.registry import make_compiled
from hindsight_rl.rollout.compiled import collect
from hindsight_rl.training.program import make_program
from hindsight_rl.training.settings import make_settings


def types(tree: Any) -> list[tuple[Any, ...]]:
    return [(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize("method", ["hppo", "dqn+her", "hpg+b"])
def test_an_update_keeps_the_types_of_a_state(method: str) -> None:
    settings = make_settings({"method": method, "batch_size": 2, "batches": 2, "hidden_layers": (4,)})
    environment = make_compiled("bit-flipping-3")
    agent = make_program(environment, settings).agent
    rates = {name: jnp.float32(rate) for name, rate in settings.rates.items()}

    def update(key: Any) -> tuple[Any, Any]:
        state = agent.init(key)
        episodes = collect(environment, functools.partial(agent.explore, state), 2, key, settings.episodes_end)
        return state, agent.update(state, episodes, rates, key).state

    before, after = jax.eval_shape(update, jax.random.key(0))
    assert types(after) == types(before)
