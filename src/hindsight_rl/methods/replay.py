"""Deep Q-networks, with hindsight experience replay and without."""

from typing import TYPE_CHECKING, Any

from hindsight_rl.agents.replay_options import DQNOptions, HEROptions
from hindsight_rl.methods.interface import Method, Sizes

if TYPE_CHECKING:
    from hindsight_rl.agents.interface import Agent
    from hindsight_rl.environments.interface import Task


def _make(task: "Task", options: DQNOptions) -> "Agent":
    from hindsight_rl.agents.dqn import dqn_agent

    return dqn_agent(task, options)


def _cost(sizes: Sizes, options: Any) -> float:
    return 4.0 * options.gradient_steps * options.minibatch_size


DQN = Method("Deep Q-network with a replay buffer (appendix E.3.7).", DQNOptions, _make, cost=_cost)
DQN_HER = Method("DQN with hindsight experience replay: goals reached, relabelled.", HEROptions, _make, cost=_cost)
