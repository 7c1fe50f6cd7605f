"""The paper's methods: one agent with different estimators."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hindsight_rl.agents.options import (
    HindsightBaselineOptions,
    HindsightOptions,
    PolicyBaselineOptions,
    PolicyOptions,
    UnweightedOptions,
)
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.methods.interface import Method, Sizes

if TYPE_CHECKING:
    from hindsight_rl.agents.interface import Agent
    from hindsight_rl.environments.interface import Task

BOTH_RATES = ("learning_rate", "baseline_learning_rate")


@dataclass(frozen=True)
class EstimatorOptions(HindsightBaselineOptions):
    """A policy gradient with any estimator."""

    estimator: str = "weighted"
    """The gradient estimator: one that `hindsight gradients` measures, or your own as module:name."""


def _with(estimator: str) -> Callable[["Task", Any], "Agent"]:
    def make(task: "Task", options: Any) -> "Agent":
        from hindsight_rl.agents.policy_gradient import policy_gradient_agent
        from hindsight_rl.estimators.table import find_estimator

        return policy_gradient_agent(task, find_estimator(estimator), options)

    return make


def _with_any(task: "Task", options: EstimatorOptions) -> "Agent":
    from hindsight_rl.estimators.table import find_estimator

    given = asdict(options)
    name = given.pop("estimator")
    if options.normaliser_floor and not find_estimator(name).weighted:
        raise HindsightError(
            f"The estimator '{name}' normalises no ratios, so that normaliser_floor means nothing to it: leave it out."
        )
    return _with(name)(task, HindsightBaselineOptions(**given))


def _pursued(networks: int) -> Callable[[Sizes, Any], float]:
    return lambda sizes, options: 4.0 * networks * sizes.decisions


def _active(share: float) -> Callable[[Sizes, Any], float]:
    """`share` of the pairs of state and goal go through a network."""

    def cost(sizes: Sizes, options: UnweightedOptions) -> float:
        goals = min(sizes.decisions, sizes.goal_count)
        if options.max_active_goals is not None:
            goals = min(goals, sizes.batch_size * options.max_active_goals)
        return 4.0 * sizes.decisions + share * goals * min(sizes.decisions, sizes.state_limit or sizes.decisions)

    return cost


GCPG = Method(
    "Goal-conditional policy gradient: learns about the pursued goal alone (Thm 3.1).",
    PolicyOptions,
    _with("gcpg"),
    cost=_pursued(1),
)
GCPG_BASELINE = Method(
    "GCPG with a learned value as its baseline (Thm 3.2).",
    PolicyBaselineOptions,
    _with("gcpg+v"),
    rates=BOTH_RATES,
    cost=_pursued(2),
)
HPG = Method(
    "Hindsight policy gradient: weighted per-decision ratios, all goals reached (Thm 5.2).",
    HindsightOptions,
    _with("weighted"),
    cost=_active(1),
)
HPG_BASELINE = Method(
    "HPG with a weighted baseline on the active goals (Thm 5.2 and C.1).",
    HindsightBaselineOptions,
    _with("weighted+v-active"),
    rates=BOTH_RATES,
    cost=_active(5),
)
HPG_NO_RATIOS = Method(
    "The paper's ablation: hindsight without the likelihood ratios (biased).",
    UnweightedOptions,
    _with("no-ratios"),
    cost=_active(0.5),
)
POLICY_GRADIENT = Method(
    "A policy gradient with any estimator that `hindsight gradients` measures, or your own.",
    EstimatorOptions,
    _with_any,
    rates=BOTH_RATES,
    searched=("learning_rate",),
    cost=_active(5),
)
