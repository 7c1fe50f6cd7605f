"""A method of your own: the paper's hindsight policy gradient with a step that shrinks as the policy makes up its mind.

hindsight train four-rooms --method examples.own_method:careful --shortest-step 0.2
"""

from dataclasses import dataclass

import jax.numpy as jnp

import hindsight_rl
from hindsight_rl.agents.options import HindsightOptions
from hindsight_rl.agents.policy_gradient import policy_gradient_agent
from hindsight_rl.core.options import PositiveShare
from hindsight_rl.estimators.table import find_estimator


@dataclass(frozen=True)
class CarefulOptions(HindsightOptions):
    """What can be told: all that `hpg` can, and one thing more."""

    shortest_step: PositiveShare = 0.1
    """The share of the learning rate that is left once every action was taken with certainty."""


def make(task, options):
    """An agent like that of `hpg`, with its own update around the one of the package."""
    agent = policy_gradient_agent(task, find_estimator("weighted"), options)

    def update(state, episodes, rates, key):
        decisions = jnp.arange(episodes.log_probabilities.shape[1])[None] < episodes.lengths[:, None]
        certainty = jnp.sum(jnp.where(decisions, jnp.exp(episodes.log_probabilities), 0)) / jnp.sum(decisions)
        share = 1 - (1 - options.shortest_step) * certainty
        learned = agent.update(state, episodes, {**rates, "learning_rate": rates["learning_rate"] * share}, key)
        return learned._replace(metrics={**learned.metrics, "step_share": share})

    return agent._replace(update=update)


careful = hindsight_rl.Method("hpg with shorter steps where the policy is certain", CarefulOptions, make)
