"""The estimators that the gradient laboratory compares: what each needs, and the coefficients it gives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from hindsight_rl.core.errors import unknown
from hindsight_rl.estimators import (
    every_decision,
    goal_conditional,
    goal_conditional_advantage,
    goal_conditional_baseline,
    hindsight_advantage,
    hindsight_baseline,
    one_step_advantage,
    per_decision,
    weighted_baseline,
    weighted_per_decision,
    without_ratios,
)

Ended = Literal["drop", "carry"]
Goals = Literal["pursued", "active", "all"]


class Ingredients(NamedTuple):
    """All that a coefficient can depend on, for a batch and a set of goals."""

    log_ratios: Float[Array, "goal episode time"]
    rewards: Float[Array, "goal episode time"]
    values: Float[Array, "goal episode state"]
    """The exact V_t(s, g), zero once the goal is reached."""
    goal_probabilities: Float[Array, " goal"]
    taken: Bool[Array, "episode time"]
    ended: Ended

    @property
    def own_rewards(self) -> Float[Array, "episode time"]:
        """The rewards of each episode's own goal, where goal i is the one that episode i pursued."""
        return jnp.einsum("iit->it", self.rewards)

    @property
    def own_values(self) -> Float[Array, "episode state"]:
        """The values of each episode's own goal."""
        return jnp.einsum("iit->it", self.values)


Coefficients = Callable[[Ingredients], Float[Array, "goal episode time"]]


@dataclass(frozen=True)
class Form:
    """One row of the laboratory's table of estimators."""

    summary: str
    goals: Goals
    """The goals it sums over. Forms with a baseline need all of them to be unbiased."""
    coefficients: Coefficients
    weighted: bool = False
    """Normalises its ratios, so that the choice of what ended episodes count matters."""


def _own(coefficients: Float[Array, "episode time"]) -> Float[Array, "goal episode time"]:
    """Coefficients of each episode's own goal, with zeros for the others' goals."""
    return jnp.eye(coefficients.shape[0])[:, :, None] * coefficients[None]


def _weighted(given: Ingredients) -> Array:
    return weighted_per_decision(given.log_ratios, given.rewards, given.goal_probabilities, given.taken, given.ended)


def _weighted_with_values(given: Ingredients) -> Array:
    baselines = given.values[:, :, :-1]
    return _weighted(given) - weighted_baseline(
        given.log_ratios, baselines, given.goal_probabilities, given.taken, given.ended
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


def _own_advantage(given: Ingredients) -> Array:
    advantages = one_step_advantage(given.own_rewards[None], given.own_values[None])[0]
    return _own(goal_conditional_advantage(advantages))


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "gcpg": Form("Thm 3.1", "pursued", lambda given: _own(goal_conditional(given.own_rewards))),
        "gcpg+v": Form(
            "Thm 3.2, baseline V",
            "pursued",
            lambda given: _own(goal_conditional_baseline(given.own_rewards, given.own_values[:, :-1])),
        ),
        "gcpg-advantage": Form("Thm 3.3, one-step advantage", "pursued", _own_advantage),
        "every-decision": Form(
            "Thm 4.1",
            "active",
            lambda given: every_decision(given.log_ratios, given.rewards, given.goal_probabilities),
        ),
        "per-decision": Form("Thm 5.1", "active", _per_decision),
        "per-decision+v": Form("Thm B.1, baseline V, all goals", "all", _per_decision_with_values),
        "advantage": Form("Thm 4.3, one-step advantage, all goals", "all", _advantage),
        "weighted": Form("Thm 5.2", "active", _weighted, weighted=True),
        "weighted+v": Form("Thm 5.2 and C.1, baseline V, all goals", "all", _weighted_with_values, weighted=True),
        "weighted+v-active": Form(
            "Thm 5.2 and C.1, baseline V, active goals", "active", _weighted_with_values, weighted=True
        ),
        "no-ratios": Form(
            "the ablation", "active", lambda given: without_ratios(given.rewards, given.goal_probabilities)
        ),
    }
)


def find_form(name: str) -> Form:
    """The form of that name."""
    if name not in FORMS:
        raise unknown("estimator", name, FORMS)
    return FORMS[name]
