"""Finite problems: an environment as tables, so that expectations can be computed rather than sampled."""

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from hindsight_rl.core.errors import HindsightError


class FiniteProblem(NamedTuple):
    """A goal problem with finitely many states, actions and goals, in float64.

    Time counts actions from 0: entry t of a table over time belongs to action t, or to the state that it leads to.
    """

    observations: Float[np.ndarray, "state features"]
    goals: Float[np.ndarray, "goal features"]
    start_probabilities: Float[np.ndarray, " state"]
    transition_probabilities: Float[np.ndarray, "time state action next"]
    """p(s' | s, a), which may change with time; an axis of length one serves all times."""
    goal_probabilities: Float[np.ndarray, " goal"]
    rewards: Float[np.ndarray, "time state goal"]
    """The reward under each goal of arriving in each state."""
    reached: Bool[np.ndarray, "state goal"]
    """Where arriving ends the episode of a goal; all false in a problem of a fixed horizon."""

    @property
    def actions_per_episode(self) -> int:
        """T - 1."""
        return self.rewards.shape[0]


@runtime_checkable
class Finite(Protocol):
    """An environment that can give its tables."""

    def finite_problem(self) -> FiniteProblem:
        """The tables."""
        ...


def finite_problem(environment: object) -> FiniteProblem:
    """The tables of an environment, checked."""
    if not isinstance(environment, Finite):
        raise HindsightError(
            f"{type(environment).__name__} has no method finite_problem(), so nothing exact can be said of it."
        )
    return check_problem(environment.finite_problem())


def check_problem(problem: FiniteProblem) -> FiniteProblem:
    """The problem itself, or a sentence about the first table that is wrong."""
    states, goals, times = len(problem.observations), len(problem.goals), len(problem.rewards)
    transitions = problem.transition_probabilities.shape
    if len(transitions) != 4 or transitions[0] not in (1, times) or transitions[1::2] != (states, states):
        raise HindsightError(
            f"transition_probabilities must have shape (1 or {times}, {states}, actions, {states}), not {transitions}."
        )
    shapes = {
        "start_probabilities": (states,),
        "goal_probabilities": (goals,),
        "rewards": (times, states, goals),
        "reached": (states, goals),
    }
    for name, shape in shapes.items():
        if getattr(problem, name).shape != shape:
            raise HindsightError(f"{name} must have shape {shape}, not {getattr(problem, name).shape}.")
    for name in ("start_probabilities", "transition_probabilities", "goal_probabilities"):
        table = getattr(problem, name)
        if np.any(table < 0) or not np.allclose(table.sum(axis=-1), 1, atol=1e-9):
            raise HindsightError(f"{name} must hold probabilities that sum to one.")
    return problem


def remaining_time_rewards(
    reached: Bool[np.ndarray, "state goal"], horizon: int
) -> Float[np.ndarray, "time state goal"]:
    """The paper's rewards as a table: the remaining time plus one for arriving in a state that reaches the goal."""
    times = np.arange(1, horizon, dtype=np.float64)
    return (horizon - times)[:, None, None] * reached
