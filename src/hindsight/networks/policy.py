"""The goal-conditional policy: a distribution over actions for every pair of observation and goal."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from hindsight.networks.perceptron import Perceptron

PROBABILITY_FLOOR = 1e-12
"""Added to every probability, as in the published experiments, so that no likelihood ratio is undefined."""


class Policy(eqx.Module):
    """p(a | s, g): observation and goal side by side into tanh layers, then a softmax over the actions."""

    network: Perceptron

    def __init__(
        self,
        observation_size: int,
        goal_size: int,
        action_count: int,
        hidden_layers: Sequence[int],
        key: Key[Array, ""],
    ):
        self.network = Perceptron(observation_size + goal_size, hidden_layers, action_count, key)

    def log_probabilities(
        self, observations: Float[Array, "row features"], goals: Float[Array, "row goal"]
    ) -> Float[Array, "row action"]:
        """log(p(a | s, g) + 1e-12) of every action, in log space: a tiny probability does not round to zero."""
        logits = self.network(jnp.concatenate([observations, goals], axis=1))
        return jnp.logaddexp(jax.nn.log_softmax(logits), math.log(PROBABILITY_FLOOR))

    def sample(
        self, observations: Float[Array, "row features"], goals: Float[Array, "row goal"], key: Key[Array, ""]
    ) -> tuple[Int[Array, " row"], Float[Array, " row"]]:
        """An action for each row, drawn with its probability, and the logarithm of that probability."""
        table = self.log_probabilities(observations, goals)
        actions = jnp.argmax(table + jax.random.gumbel(key, table.shape), axis=1)
        return actions, jnp.take_along_axis(table, actions[:, None], axis=1)[:, 0]

    def act(self, observation: Float[Array, "*features"], goal: Float[Array, "*goal"]) -> Int[Array, ""]:
        """The action with the largest probability for one observation and goal."""
        observation, goal = jnp.asarray(observation, jnp.float32), jnp.asarray(goal, jnp.float32)
        return jnp.argmax(self.log_probabilities(observation.reshape(1, -1), goal.reshape(1, -1))[0])
