"""Random episodes of small environments, for tests that need real ones."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from reference.compilation import quick_jit
from reference.random_weights import random_weights

from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.grid_world import GridWorld, four_rooms
from hindsight_rl.networks.policy import Policy
from hindsight_rl.networks.value import Value
from hindsight_rl.rollout.compiled import collect

ENVIRONMENTS: dict[str, BitFlipping | GridWorld] = {
    "3 bits": BitFlipping(3),
    "4 bits": BitFlipping(4),
    "four rooms": four_rooms(),
    # Two starts, which are no goals, so that episodes also arrive where p(g) = 0. Eight goals, so that p(g) is exact.
    "slippery ring": GridWorld("S...\n.##.\n...S", slip=0.3, horizon=9),
}

# Powers of two: rewards are in single precision, and dividing them by anything else would round.
BATCH_SIZES = {"3 bits": 8, "4 bits": 16, "four rooms": 4, "slippery ring": 8}


def sizes(environment: BitFlipping | GridWorld) -> tuple[int, int]:
    """How many numbers an observation and a goal have."""
    features = environment.bits if isinstance(environment, BitFlipping) else 2
    return features, features


def example_policy(name: str) -> Policy:
    """A policy whose probabilities differ clearly between states and goals."""
    environment = ENVIRONMENTS[name]
    scale = 0.3 if name == "four rooms" else 0.8
    return random_weights(lambda key: Policy(*sizes(environment), environment.action_count, (5,), key), 0, scale)


def example_value(name: str) -> Value:
    return random_weights(lambda key: Value(*sizes(ENVIRONMENTS[name]), (4,), key), 1)


def draw_actions(policy: Policy, observations: jax.Array, goals: jax.Array, key: jax.Array) -> tuple[Any, ...]:
    """Actions from the policy, and their log-probabilities."""
    table = policy.log_probabilities(observations, goals)
    actions = jax.random.categorical(key, table)
    return actions, jnp.take_along_axis(table, actions[:, None], axis=1)[:, 0]


@cache
def full_episodes(name: str) -> Episodes:
    """A batch over the full horizon; to be called in double precision only."""
    environment, policy = ENVIRONMENTS[name], example_policy(name)

    def explore(observations: jax.Array, goals: jax.Array, time: jax.Array, key: jax.Array) -> tuple[Any, ...]:
        return draw_actions(policy, observations, goals, key)

    program = quick_jit(lambda key: collect(environment, explore, BATCH_SIZES[name], key, "horizon"))
    return program(jax.random.key(4))


def example_episodes(name: str, episodes_end: str) -> Episodes:
    """A batch; with `goal` each episode ends where it first reaches its pursued goal."""
    episodes = full_episodes(name)
    if episodes_end == "horizon":
        return episodes
    achieved, pursued = np.asarray(episodes.achieved_goals), np.asarray(episodes.pursued_goals)
    lengths = np.asarray(episodes.lengths).copy()
    for episode, goal in enumerate(pursued):
        arrivals = np.flatnonzero(np.all(achieved[episode, 1:] == goal, axis=1))
        if len(arrivals):
            lengths[episode] = arrivals[0] + 1
    assert len(set(lengths)) > 1, f"the example on {name} should have episodes of unequal lengths"
    return episodes._replace(lengths=jnp.asarray(lengths))
