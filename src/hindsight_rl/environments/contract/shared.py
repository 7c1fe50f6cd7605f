"""Checks of what compiled and hosted tasks have in common: sizes, and rewards and goals of states that were met."""

from functools import cached_property
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from hindsight_rl.core.numbers import is_positive_integer
from hindsight_rl.environments.contract.findings import Broken, require
from hindsight_rl.environments.interface import Task

MOST_PAIRED = 12
"""Achieved goals that are paired with one another."""


class Subject(Protocol):
    """A task, and goals that were met when it was tried."""

    @property
    def task(self) -> Task:
        """The task."""
        ...

    @cached_property
    def achieved(self) -> np.ndarray:
        """The distinct goals that states achieved."""
        ...

    @cached_property
    def drawn(self) -> np.ndarray:
        """Goals that were drawn, one for each of many episodes."""
        ...


def distinct(rows: np.ndarray) -> np.ndarray:
    """The distinct rows."""
    return np.unique(rows.reshape(len(rows), -1), axis=0).reshape(-1, *rows.shape[1:])


def random_actions(task: Task, generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Actions within their bounds."""
    if not task.continuous:
        return generator.integers(task.action_count, size=shape, dtype=np.int32)
    drawn = generator.normal(size=(*shape, task.action_count))
    if task.action_bounds is not None:
        low, high = map(np.asarray, task.action_bounds)
        bounded = np.isfinite(low) & np.isfinite(high)
        low_end, width = np.where(bounded, low, 0), np.where(bounded, high - low, 1)
        drawn = np.clip(np.where(bounded, low_end + width * generator.uniform(size=drawn.shape), drawn), low, high)
    return drawn.astype(np.float32)


def sizes(subject: Subject) -> str:
    """Counts are whole numbers that make sense."""
    task = subject.task
    for name in ("horizon", "action_count", "goal_count"):
        value = getattr(task, name)
        require(is_positive_integer(value), f"{name} must be a whole number of at least 1, not {value}.")
    require(task.horizon >= 2, f"horizon counts states, so it must be at least 2, not {task.horizon}.")
    limit = task.state_limit
    require(limit is None or is_positive_integer(limit), f"state_limit must be a whole number or None, not {limit}.")
    if task.continuous and task.action_bounds is not None:
        low, high = map(np.asarray, task.action_bounds)
        fits = low.shape == high.shape == (task.action_count,) and np.all(low <= high)
        require(fits, f"action_bounds must be {task.action_count} lowest and as many highest numbers.")
    kind = "numbers in an action" if task.continuous else "actions"
    return f"A horizon of {task.horizon} states, {task.action_count} {kind}."


def goals_reach_themselves(subject: Subject) -> str:
    """A state that achieves a goal reaches it, where that goal is ever drawn."""
    task, goals = subject.task, jnp.asarray(subject.achieved)
    drawn = np.asarray(jax.jit(jax.vmap(task.goal_probability))(goals)) > 0
    reached = np.asarray(jax.jit(jax.vmap(task.reached))(goals, goals))
    wrong = np.flatnonzero(drawn & ~reached)
    if len(wrong):
        goal = subject.achieved[wrong[0]].tolist()
        raise Broken(f"A state that achieves {goal} does not reach that goal, which has a probability above 0.")
    return f"{int(drawn.sum())} of {len(goals)} distinct achieved goals are ever drawn, and reach themselves."


def rewards(subject: Subject) -> str:
    """Under any goal and at any time a reward is a finite number, the same however it is asked for."""
    task = subject.task
    achieved = jnp.asarray(subject.achieved[:MOST_PAIRED])
    goals = jnp.concatenate([achieved, jnp.asarray(subject.drawn[:MOST_PAIRED])])
    times = jnp.asarray(sorted({1, task.horizon // 2, task.horizon - 1} - {0}), jnp.int32)

    def table() -> np.ndarray:
        over_times = jax.vmap(task.reward, (None, None, 0))
        over_goals = jax.vmap(over_times, (None, 0, None))
        return np.asarray(jax.jit(jax.vmap(over_goals, (0, None, None)))(achieved, goals, times))

    found, again = table(), table()
    for state, goal, time in np.argwhere(~np.isfinite(found)):
        pair = f"{np.asarray(achieved[state]).tolist()} under the goal {np.asarray(goals[goal]).tolist()}"
        raise Broken(f"The reward of {pair} at time {times[time]} is {found[state, goal, time]}.")
    sentence = (
        "reward must follow from the achieved goal, the goal and the time alone, but it differs from call to call."
    )
    require(np.array_equal(found, again), sentence)
    for state, goal, time in ((0, 0, 0), (len(achieved) - 1, len(goals) - 1, len(times) - 1)):
        alone = np.asarray(task.reward(achieved[state], goals[goal], times[time]))
        require(np.allclose(alone, found[state, goal, time], rtol=1e-4, atol=1e-5), sentence)
    return f"{found.size} rewards from {found.min() + 0.0:g} to {found.max() + 0.0:g}."


def probabilities(subject: Subject) -> str:
    """No probability is negative, and what is drawn has one above zero."""
    probability = jax.jit(jax.vmap(subject.task.goal_probability))
    achieved, drawn = (np.asarray(probability(jnp.asarray(goals))) for goals in (subject.achieved, subject.drawn))
    for goals, found in ((subject.achieved, achieved), (subject.drawn, drawn)):
        for goal, value in zip(goals, found, strict=True):
            require(value >= 0 and np.isfinite(value), f"The probability of the goal {goal.tolist()} is {value}.")
    for goal in subject.drawn[drawn == 0]:
        raise Broken(f"The goal {goal.tolist()} was drawn, but has a probability of 0.")
    return f"{len(drawn)} drawn goals have a probability above 0."
