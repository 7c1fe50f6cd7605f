"""What is added to rewards changes what an agent learns from, and nothing else."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.compilation import quick_jit
from reference.methods import learning_rates

from hindsight_rl.agents.interface import Agent
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.interface import Environment
from hindsight_rl.rollout.compiled import collect
from hindsight_rl.training.program import make_program
from hindsight_rl.training.settings import make_settings

OFFSET = 2.5
SMALL: dict[str, Any] = {"hidden_layers": (6,)}
REPLAY: dict[str, Any] = {"gradient_steps": 2, "minibatch_size": 8, "replay_capacity": 1000}


class GenerousBits(BitFlipping):
    """Bit flipping in which every action is rewarded with so much more."""

    def reward(self, achieved: jax.Array, goal: jax.Array, time: jax.Array) -> jax.Array:
        return super().reward(achieved, goal, time) + OFFSET


def make_agent(environment: Environment, method: str, **changes: Any) -> Agent:
    replay = REPLAY if method.startswith("dqn") else {}
    return make_program(environment, make_settings({"method": method, **SMALL, **replay, **changes})).agent


@functools.cache
def episodes() -> Episodes:
    """Four of them; rewards are no part of an episode."""
    agent = make_agent(BitFlipping(3), "gcpg")

    @quick_jit
    def play(key: jax.Array) -> Episodes:
        return collect(BitFlipping(3), functools.partial(agent.explore, agent.init(key)), 4, key)

    return play(jax.random.key(0))


@functools.cache
def first_state(method: str) -> Any:
    return quick_jit(make_agent(BitFlipping(3), method).init)(jax.random.key(0))


def learned(environment: Environment, method: str, offset: float = 0.0) -> list[np.ndarray]:
    """The parameters after one update from fixed episodes."""
    agent = make_agent(environment, method, reward_offset=offset)
    rates = learning_rates(0.1, 0.1)
    state, cause, _ = quick_jit(agent.update)(first_state(method), episodes(), rates, jax.random.key(0))
    assert int(cause) == 0
    return [leaf for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)]


@pytest.mark.parametrize("method", ["gcpg+b", "hpg", "dqn+her"])
def test_it_teaches_what_such_an_environment_would(method: str) -> None:
    shifted = learned(BitFlipping(3), method, OFFSET)
    for ours, theirs in zip(shifted, learned(GenerousBits(3), method), strict=True):  # type: ignore[call-arg]
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    plain = learned(BitFlipping(3), method)
    assert not all(np.allclose(ours, theirs, rtol=1e-3) for ours, theirs in zip(shifted, plain, strict=True))


@pytest.mark.parametrize("method", ["hppo", "hpg", "dqn"])
@pytest.mark.parametrize("offset", ["1", float("nan"), None])
def test_what_is_no_number_is_refused(offset: Any, method: str) -> None:
    """But for hindsight PPO, which chooses one where none is given."""
    settings = {"reward_offset": offset, "method": method}
    if offset is None and method == "hppo":
        assert make_settings(settings).options.reward_offset is None
        return
    with pytest.raises(HindsightError, match="reward_offset must be a finite number"):
        make_settings(settings)
