"""The estimators by name: what each needs, and the coefficients it gives. For training and for the laboratory alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

from jaxtyping import Array, Bool, Float

from hindsight_rl.core.errors import HindsightError, unknown
from hindsight_rl.core.plugins import is_reference, load_object, refuse_path
from hindsight_rl.estimators.dials import TRUNCATED, Dials, parse_dials, truncated_coefficients
from hindsight_rl.estimators.hindsight import (
    every_decision,
    hindsight_advantage,
    hindsight_baseline,
    one_step_advantage,
    per_decision,
    without_ratios,
)
from hindsight_rl.estimators.pursued_goal import (
    goal_conditional,
    goal_conditional_advantage,
    goal_conditional_baseline,
)
from hindsight_rl.estimators.weighted import weighted_baseline, weighted_per_decision


class Ingredients(NamedTuple):
    """All that a coefficient can depend on, for a batch and a set of goals.

    Of an estimator over the pursued goals they have no goal axis: each episode stands beside its own goal.
    """

    log_ratios: Float[Array, "*goal episode time"]
    """Zero for an estimator that needs no ratios."""
    rewards: Float[Array, "*goal episode time"]
    values: Float[Array, "*goal episode state"]
    """V_t(s, g), exact or learned: zero once the goal is reached, and for an estimator that needs no values."""
    goal_probabilities: Float[Array, " goal"]
    taken: Bool[Array, "episode time"]
    ended: Literal["drop", "carry"]
    floor: float = 0.0
    """Added to every ratio before normalisation."""
    decides: Bool[Array, "*goal episode time"] | None = None
    """Actions taken before the goal was reached. This and the next are given in the laboratory, not in training."""
    following: Float[Array, "*goal episode time"] | None = None
    """The value of the state that each action led to, also of that in which an episode ended at another goal, where
    `values` has none. Zero where nothing follows."""


@dataclass(frozen=True)
class Estimator:
    """One row of the table."""

    summary: str
    goals: Literal["pursued", "active", "all"]
    """The goals it sums over. With a baseline it needs all of them to be unbiased; no learner knows all goals."""
    coefficients: Callable[[Ingredients], Float[Array, "*goal episode time"]]
    ratios: bool = False
    """Needs likelihood ratios."""
    values: bool = False
    """Needs values, which training learns."""
    weighted: bool = False
    """Normalises its ratios: what ended episodes count matters, and training takes a batch mean on top."""
    ratios_where_rewarded: bool = False
    """Looks at ratios only up to the last reward of their goal, so that training need not compute the others."""
    values_where_weighed: bool = False
    """Looks at a value only times its own normalised ratio, so that training need not compute it where that is tiny."""

    def __post_init__(self) -> None:
        if self.ratios and self.goals == "pursued":
            raise HindsightError(f"The estimator '{self.summary}' has no ratios: those of a pursued goal are 1.")
        if self.weighted and not self.ratios:
            raise HindsightError(f"The estimator '{self.summary}' cannot normalise ratios that it does not need.")


def _weighted(given: Ingredients) -> Array:
    return weighted_per_decision(
        given.log_ratios, given.rewards, given.goal_probabilities, given.taken, given.ended, given.floor
    )


def _weighted_with_values(given: Ingredients) -> Array:
    baselines = given.values[:, :, :-1]
    return _weighted(given) - weighted_baseline(
        given.log_ratios, baselines, given.goal_probabilities, given.taken, given.ended, given.floor
    )


def _per_decision(given: Ingredients) -> Array:
    return per_decision(given.log_ratios, given.rewards, given.goal_probabilities)


def _per_decision_with_values(given: Ingredients) -> Array:
    return _per_decision(given) - hindsight_baseline(
        given.log_ratios, given.values[:, :, :-1], given.goal_probabilities
    )


def _advantage(given: Ingredients) -> Array:
    advantages = one_step_advantage(given.rewards, given.values)
    return hindsight_advantage(given.log_ratios, advantages, given.goal_probabilities)


def truncated(dials: Dials) -> Estimator:
    """The row of truncated corrections with these dials."""

    def coefficients(given: Ingredients) -> Array:
        assert given.decides is not None
        assert given.following is not None
        return truncated_coefficients(
            dials,
            given.log_ratios,
            given.rewards,
            given.values,
            given.following,
            given.decides,
            given.goal_probabilities,
        )

    return Estimator("Thm 4.3 and 4.4, truncated", "all", coefficients, ratios=True, values=dials.critic == "exact")


ESTIMATORS: Mapping[str, Estimator] = MappingProxyType(
    {
        "gcpg": Estimator("Thm 3.1", "pursued", lambda given: goal_conditional(given.rewards)),
        "gcpg+v": Estimator(
            "Thm 3.2, baseline V",
            "pursued",
            lambda given: goal_conditional_baseline(given.rewards, given.values[:, :-1]),
            values=True,
        ),
        "gcpg-advantage": Estimator(
            "Thm 3.3, one-step advantage",
            "pursued",
            lambda given: goal_conditional_advantage(one_step_advantage(given.rewards[None], given.values[None])[0]),
            values=True,
        ),
        "every-decision": Estimator(
            "Thm 4.1",
            "active",
            lambda given: every_decision(given.log_ratios, given.rewards, given.goal_probabilities),
            ratios=True,
        ),
        "per-decision": Estimator("Thm 5.1", "active", _per_decision, ratios=True, ratios_where_rewarded=True),
        "per-decision+v": Estimator(
            "Thm B.1, baseline V, all goals", "all", _per_decision_with_values, ratios=True, values=True
        ),
        "advantage": Estimator("Thm 4.3, one-step advantage, all goals", "all", _advantage, ratios=True, values=True),
        "weighted": Estimator("Thm 5.2", "active", _weighted, ratios=True, weighted=True, ratios_where_rewarded=True),
        "weighted+v": Estimator(
            "Thm 5.2 and C.1, baseline V, all goals",
            "all",
            _weighted_with_values,
            ratios=True,
            values=True,
            weighted=True,
        ),
        "weighted+v-active": Estimator(
            "Thm 5.2 and C.1, baseline V, active goals",
            "active",
            _weighted_with_values,
            ratios=True,
            values=True,
            weighted=True,
            values_where_weighed=True,
        ),
        "no-ratios": Estimator(
            "the ablation", "active", lambda given: without_ratios(given.rewards, given.goal_probabilities)
        ),
    }
)


def find_estimator(name: str) -> Estimator:
    """The estimator of that name, the one that `module:name` names, or `truncated,dial=value,...`."""
    if name.partition(",")[0] == TRUNCATED:
        return truncated(parse_dials(name))
    if not is_reference(name):
        if name not in ESTIMATORS:
            refuse_path(name, "estimator")
            raise unknown("estimator", name, (*ESTIMATORS, TRUNCATED))
        return ESTIMATORS[name]
    found = load_object(name, "estimator")
    if not isinstance(found, Estimator):
        raise HindsightError(
            f"'{name}' must be a hindsight_rl.estimators.table.Estimator, but it is a {type(found).__name__}."
        )
    return found
