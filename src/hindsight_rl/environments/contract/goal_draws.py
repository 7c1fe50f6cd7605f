"""Checks of how a compiled environment draws its goals: how many there are, and how often each."""

import jax
import jax.numpy as jnp
import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.contract.findings import Broken, require
from hindsight_rl.environments.contract.shared import Subject
from hindsight_rl.environments.finite import Finite, FiniteProblem, check_problem

DRAWS_PER_GOAL, MOST_DRAWS = 20, 20_000
FEW = MOST_DRAWS // DRAWS_PER_GOAL
"""Goals that can be drawn often enough to tell how probable each is."""
TOLERANCE = 1e-3
"""By how much probabilities may miss a sum of one."""
FEWEST_EXPECTED = 5
"""Rarer goals are counted together: one draw of them says nothing."""


def goal_counts(subject: Subject) -> str:
    """The probabilities of all goals add up to one, and there are as many goals as the environment says."""
    task = subject.task
    problem = _tables(task)
    if problem is not None:
        return _like_the_tables(subject, check_problem(problem))
    goals, _, probabilities = _distinct_draws(subject)
    if task.goal_count == 1 and len(goals) > 1:
        return "Goals form a continuum: goal_count is 1, and probabilities are relative to uniform."
    count, total = task.goal_count, float(probabilities.sum())
    require(len(goals) <= count, f"goal_count says {count}, but {len(goals)} different goals were drawn.")
    require(total <= 1 + TOLERANCE, f"The probabilities of {len(goals)} goals add up to {total:g}, more than one.")
    if len(goals) == count:
        require(total >= 1 - TOLERANCE, f"The probabilities of all {count} goals add up to {total:g}, not one.")
    else:
        missing = f"goal_count says {count}, but the probabilities of {len(goals)} goals already add up to one."
        require(total < 1 - TOLERANCE, missing)
    return f"{len(goals)} of {count} goals were drawn; their probabilities add up to {total:g}."


def goal_frequencies(subject: Subject) -> str:
    """Goals are drawn as often as their probability says: a chi-square test that a sound sampler hardly ever fails."""
    goals, counts, probabilities = _distinct_draws(subject)
    if not 1 < subject.task.goal_count <= FEW:
        return "There are too many goals, or only one, to count how often each is drawn."
    draws = counts.sum()
    rare = draws * probabilities < FEWEST_EXPECTED
    expected = draws * np.append(probabilities[~rare], max(0.0, 1 - probabilities[~rare].sum()))
    found = np.append(counts[~rare], counts[rare].sum())
    counted = expected >= FEWEST_EXPECTED
    statistic = float(np.sum((found - expected)[counted] ** 2 / expected[counted]))
    freedom = max(int(counted.sum()) - 1, 1)
    # Its mean is the degrees of freedom, its variance twice that: six deviations off, and some more for its long tail.
    bound = freedom + 6 * np.sqrt(2 * freedom) + 10
    if statistic > bound:
        worst = int(np.argmax(np.abs(counts - draws * probabilities)))
        often = f"{counts[worst] / draws:.4f} of {draws} draws, but its probability is {probabilities[worst]:.4f}"
        raise Broken(f"The goal {goals[worst].tolist()} was {often}.")
    test = f"chi-square {statistic:.0f}, at most {bound:.0f}"
    return f"{draws} draws of {len(goals)} goals agree with their probabilities ({test})."


def _distinct_draws(subject: Subject) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct goals among those drawn, how often each was, and its probability."""
    drawn = subject.drawn
    goals, counts = np.unique(drawn.reshape(len(drawn), -1), axis=0, return_counts=True)
    goals = goals.reshape(-1, *drawn.shape[1:])
    found = jax.jit(jax.vmap(subject.task.goal_probability))(jnp.asarray(goals))
    return goals, counts, np.asarray(found, np.float64)


def _tables(task: object) -> FiniteProblem | None:
    if not isinstance(task, Finite):
        return None
    try:
        return task.finite_problem()
    except HindsightError:  # Too large, say.
        return None


def _like_the_tables(subject: Subject, problem: FiniteProblem) -> str:
    task = subject.task
    goals = jnp.asarray(problem.goals, jnp.float32)
    found = np.asarray(jax.jit(jax.vmap(task.goal_probability))(goals), np.float64)
    same = np.allclose(found, problem.goal_probabilities, rtol=1e-4, atol=1e-6)
    require(same, "goal_probability differs from the goal_probabilities of finite_problem().")
    count = int(np.sum(problem.goal_probabilities > 0))
    require(count == task.goal_count, f"goal_count says {task.goal_count}, but finite_problem() has {count} goals.")
    actions = problem.actions_per_episode
    require(
        actions == task.horizon - 1, f"finite_problem() has {actions} actions in a horizon of {task.horizon} states."
    )
    return f"The probabilities of all {count} goals add up to one."
