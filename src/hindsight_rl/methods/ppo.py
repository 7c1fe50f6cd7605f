"""PPO, with hindsight and without."""

from typing import TYPE_CHECKING, Any

from hindsight_rl.agents.hppo_options import HPPOOptions, PPOOptions
from hindsight_rl.methods.interface import Method, Sizes

if TYPE_CHECKING:
    from hindsight_rl.agents.interface import Agent
    from hindsight_rl.environments.interface import Task

RATES = ("learning_rate", "critic_learning_rate")


def _make(task: "Task", options: PPOOptions) -> "Agent":
    from hindsight_rl.agents.hppo import hppo_agent

    return hppo_agent(task, options)


def _cost(sizes: Sizes, options: Any) -> float:
    """Two networks, forwards on the drawn pairs and both ways on each minibatch; steps as for few actions."""
    work = options.work(0, sizes.horizon)
    steps = options.steps_on_a_batch(sizes.batch_size, work)
    draws = -(-steps // options.steps_per_draw)
    return 2.0 * draws * work.pairs * sizes.horizon + 8.0 * steps * work.minibatch


def _defaults(hosted: bool) -> dict[str, Any]:
    """Simulators are slow, so evaluations take a tenth of their steps; and what they simulate goes on at the goal.

    The other options are those that learned best on robots.
    """
    if hosted:
        shown = {"batches": 300, "evaluate_every": 20, "evaluation_episodes": 32}
        return {**shown, "episodes_end": "horizon", "hidden_layers": None, "clip": 0.2, "trace": 0.95}
    return {"batches": 200, "evaluate_every": 4}


def _defaults_in_hindsight(hosted: bool) -> dict[str, Any]:
    """As without hindsight, and goals of every kind: runs from before there were earlier ones had 0.4 and 0."""
    return {**_defaults(hosted), "achieved_share": 0.2, "earlier_share": 0.3}


HPPO = Method(
    "Hindsight PPO: an actor-critic that learns about any goal from any kept episode.",
    HPPOOptions,
    _make,
    rates=RATES,
    searched=("learning_rate",),
    defaults=_defaults_in_hindsight,
    cost=_cost,
)
PPO = Method(
    "PPO: the same actor-critic without hindsight, about the pursued goal alone.",
    PPOOptions,
    _make,
    rates=RATES,
    searched=("learning_rate",),
    defaults=_defaults,
    cost=_cost,
)
