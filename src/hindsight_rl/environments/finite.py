"""Finite problems: an environment as tables, so that expectations can be computed rather than sampled."""

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from hindsight_rl.core.errors import HindsightError

MOST_BYTES = 2**30
"""Of the tables of a problem: what is computed from them takes a small multiple of it."""


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


def require_room_for_tables(states: int, goals: int, actions: int, horizon: int) -> None:
    """Refuse a problem whose tables would be larger than `MOST_BYTES`, before they are made."""
    needed = 8 * states * (actions * states + horizon * goals)
    if needed > MOST_BYTES:
        raise HindsightError(
            f"The tables of {states} states and {goals} goals over {horizon} time steps would take "
            f"{needed / 2**30:,.1f} GiB; at most {MOST_BYTES / 2**30:g} GiB is used for exact computations."
        )


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
