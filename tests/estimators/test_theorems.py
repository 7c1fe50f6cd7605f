"""Each theorem and lemma of the paper, on a random problem small enough to write every trajectory down.

Transitions are random and change with time, goals are unequally likely, rewards have either sign.
"""

from typing import Any

import jax
import numpy as np
import pytest
from reference.cases import Case, random_case, softmax_table, sum_over_goals
from reference.compilation import quick_jit
from reference.enumeration import action_log_probabilities, largest_component, largest_difference

from hindsight_rl import estimators
from hindsight_rl.environments.finite import FiniteProblem
from hindsight_rl.exact import exact_values

TOLERANCE = 1e-9

pytestmark = pytest.mark.usefixtures("double_precision")


@pytest.fixture
def case(double_precision: None) -> Case:
    return random_case()


def as_finite_problem(case: Case) -> FiniteProblem:
    problem = case.problem
    goals, _, states = problem.rewards.shape
    return FiniteProblem(
        observations=np.eye(states),
        goals=np.eye(goals),
        start_probabilities=problem.start,
        transition_probabilities=problem.transitions,
        goal_probabilities=problem.goal_probabilities,
        rewards=np.moveaxis(problem.rewards, 0, 2),
        reached=problem.ends.T,
    )


class Along:
    """Exact values along every trajectory, with the axes of the estimators: [goal, trajectory, time]."""

    def __init__(self, case: Case):
        self.table = exact_values(np.moveaxis(np.exp(case.table), 0, 1), as_finite_problem(case))
        states, actions = case.trajectories.states, case.trajectories.actions
        times = np.arange(actions.shape[1])
        self.values = np.moveaxis(self.table.values[np.arange(len(times) + 1)[None], states], 2, 0)
        self.action_values = np.moveaxis(self.table.action_values[times[None], states[:, :-1], :, actions], 2, 0)
        self.advantages = np.moveaxis(self.table.advantages[times[None], states[:, :-1], :, actions], 2, 0)


def random_baselines(case: Case) -> np.ndarray:
    """[goal, trajectory, time] any function of goal, time and state."""
    goals, _, times = case.rewards.shape
    table = np.random.default_rng(11).normal(size=(goals, times, len(case.problem.start)))
    return table[:, np.arange(times)[None], case.trajectories.states[:, :-1]]


def log_ratios(case: Case, pursued: int) -> np.ndarray:
    taken = np.ones(case.trajectories.actions.shape, bool)
    behaviour = case.log_probabilities[pursued]
    return np.asarray(quick_jit(estimators.cumulative_log_ratios)(case.log_probabilities, behaviour, taken))


def expectations(case: Case, estimator: Any, *values: np.ndarray) -> list[Any]:
    """The exact expectation of a hindsight estimator, for each goal that may have been pursued."""
    compiled, count = quick_jit(estimator), len(case.trajectories.actions)
    found = []
    for pursued in range(len(case.problem.goal_probabilities)):
        coefficients = compiled(log_ratios(case, pursued), *values, case.problem.goal_probabilities)
        found.append(case.estimate(case.probabilities[pursued], np.asarray(coefficients) * count))
    return found


def assert_exact(case: Case, estimates: list[Any]) -> None:
    assert largest_component(case.true_gradient) > 1e-2
    for estimate in estimates:
        assert largest_difference(estimate, case.true_gradient) < TOLERANCE


def test_theorem_3_1_goal_conditional(case: Case) -> None:
    coefficients = [np.asarray(estimators.goal_conditional(own)) * len(own) for own in case.rewards]
    assert_exact(case, [sum_over_goals(case, coefficients)])


def test_theorem_3_2_goal_conditional_baseline(case: Case) -> None:
    pairs = zip(case.rewards, random_baselines(case), strict=True)
    coefficients = [np.asarray(estimators.goal_conditional_baseline(*pair)) * len(pair[0]) for pair in pairs]
    assert_exact(case, [sum_over_goals(case, coefficients)])


def test_lemma_a_2_goal_conditional_action_value(case: Case) -> None:
    own = Along(case).action_values
    assert_exact(
        case, [sum_over_goals(case, [np.asarray(estimators.goal_conditional_action_value(q)) * len(q) for q in own])]
    )


def test_theorem_3_3_goal_conditional_advantage(case: Case) -> None:
    own = Along(case).advantages
    assert_exact(
        case, [sum_over_goals(case, [np.asarray(estimators.goal_conditional_advantage(a)) * len(a) for a in own])]
    )


def test_theorem_4_1_every_decision(case: Case) -> None:
    assert_exact(case, expectations(case, estimators.every_decision, case.rewards))


def test_theorem_4_2_and_5_1_per_decision(case: Case) -> None:
    assert_exact(case, expectations(case, estimators.per_decision, case.rewards))


def test_lemma_4_1_hindsight_baseline_has_expectation_zero(case: Case) -> None:
    for estimate in expectations(case, estimators.hindsight_baseline, random_baselines(case)):
        assert largest_component(estimate) < TOLERANCE


def test_theorem_b_1_per_decision_with_baseline(case: Case) -> None:
    def with_baseline(ratios: Any, rewards: Any, baselines: Any, probabilities: Any) -> Any:
        per_decision = estimators.per_decision(ratios, rewards, probabilities)
        return per_decision - estimators.hindsight_baseline(ratios, baselines, probabilities)

    assert_exact(case, expectations(case, with_baseline, case.rewards, random_baselines(case)))


def test_lemma_b_1_hindsight_action_value(case: Case) -> None:
    assert_exact(case, expectations(case, estimators.hindsight_action_value, Along(case).action_values))


def test_theorem_4_3_hindsight_advantage(case: Case) -> None:
    assert_exact(case, expectations(case, estimators.hindsight_advantage, Along(case).advantages))


def test_theorem_4_4_one_step_advantage(case: Case) -> None:
    """Its expectation over the next state is Q - V, and it may stand in for the advantage in Theorem 4.3."""
    along = Along(case)
    sampled = np.asarray(estimators.one_step_advantage(case.rewards, along.values))
    assert_exact(case, expectations(case, estimators.hindsight_advantage, sampled))
    problem, times = case.problem, case.rewards.shape[2]
    rewards_and_values = problem.rewards + np.moveaxis(along.table.values[1:], 2, 0)
    following = np.einsum("tsan,gtn->tsga", problem.transitions, rewards_and_values)
    expected = following - along.table.values[:times, :, :, None]
    np.testing.assert_allclose(expected, along.table.advantages, atol=1e-12)
    np.testing.assert_allclose(
        along.table.advantages, along.table.action_values - along.table.values[:-1, :, :, None], atol=1e-12
    )


def scores(case: Case) -> np.ndarray:
    """[goal, trajectory, time, parameter] of grad log p(a | s, g)."""

    def logs(parameters: Any) -> Any:
        return action_log_probabilities(case.trajectories, softmax_table(parameters))

    jacobian = np.asarray(quick_jit(jax.jacrev(logs))(case.parameters))
    return jacobian.reshape(*jacobian.shape[:3], -1)


def variance(values: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    return probabilities @ values**2 - (probabilities @ values) ** 2


def assert_minimises_variance(f: np.ndarray, h: np.ndarray, probabilities: np.ndarray) -> None:
    """A step to either side of the baseline raises the variance of f - b h, wherever h varies."""
    best = np.asarray(estimators.optimal_constant_baseline(f, h, probabilities))
    matters = variance(h, probabilities) > 1e-12
    assert matters.any()
    np.testing.assert_allclose(probabilities @ h, 0, atol=1e-12)
    lowest = variance(f - best * h, probabilities)
    for step in (-1e-3, 1e-3):
        assert np.all((variance(f - (best + step) * h, probabilities) > lowest)[matters])


def test_theorem_a_2_optimal_constant_baseline_of_goal_conditional(case: Case) -> None:
    to_go = np.cumsum(case.rewards[..., ::-1], axis=2)[..., ::-1]
    every_score = scores(case)
    f = np.einsum("git,gitp->gip", to_go, every_score)
    h = every_score.sum(axis=2)
    probabilities = case.problem.goal_probabilities[:, None] * case.probabilities
    assert_minimises_variance(f.reshape(-1, f.shape[2]), h.reshape(-1, h.shape[2]), probabilities.ravel())


def test_theorem_b_2_optimal_constant_baseline_of_hindsight(case: Case) -> None:
    every_score, count = scores(case), len(case.trajectories.actions)
    for pursued in range(len(case.problem.goal_probabilities)):
        ratios, probabilities = log_ratios(case, pursued), case.problem.goal_probabilities
        f = np.asarray(estimators.per_decision(ratios, case.rewards, probabilities)) * count
        h = np.asarray(estimators.hindsight_baseline(ratios, np.ones_like(f), probabilities)) * count
        assert_minimises_variance(
            np.einsum("git,gitp->ip", f, every_score),
            np.einsum("git,gitp->ip", h, every_score),
            case.probabilities[pursued],
        )


class Batches:
    """Random batches of one problem, and what the weighted estimators make of them."""

    def __init__(self, case: Case, size: int, count: int, seed: int):
        generator = np.random.default_rng(seed)
        mixture = (case.problem.goal_probabilities[:, None] * case.probabilities).ravel()
        chosen = generator.choice(len(mixture), size=(count, size), p=mixture / mixture.sum())
        self.pursued, self.numbers = np.unravel_index(chosen, case.probabilities.shape)
        self.case = case

    def gradients(self, which: str) -> np.ndarray:
        """[batch, parameter]"""
        case, every_score = self.case, scores(self.case)
        baselines = random_baselines(case)

        @quick_jit
        def one(pursued: Any, numbers: Any) -> Any:
            taken = np.ones((len(self.numbers[0]), case.rewards.shape[2]), bool)
            logs = jax.numpy.asarray(case.log_probabilities)
            ratios = estimators.cumulative_log_ratios(logs[:, numbers], logs[pursued, numbers], taken)
            probabilities = jax.numpy.asarray(case.problem.goal_probabilities)
            if which == "weighted_per_decision":
                values = jax.numpy.asarray(case.rewards)[:, numbers]
                coefficients = estimators.weighted_per_decision(ratios, values, probabilities, taken)
            else:
                values = jax.numpy.asarray(baselines)[:, numbers]
                coefficients = estimators.weighted_baseline(ratios, values, probabilities, taken)
            return jax.numpy.einsum("git,gitp->p", coefficients, jax.numpy.asarray(every_score)[:, numbers])

        return np.stack([one(*batch) for batch in zip(self.pursued, self.numbers, strict=True)])


@pytest.mark.parametrize("which", ["weighted_per_decision", "weighted_baseline"])
def test_theorems_5_2_and_c_1_converge_at_the_rate_of_a_mean(which: str, case: Case) -> None:
    """The root mean squared error falls with the square root of the batch: by 4 when batches grow 16 times.

    With 200 batches of each size and fixed seeds; the error of the ratio is about 10 %, the tolerance 25 %.
    """
    target = np.ravel(case.true_gradient) if which == "weighted_per_decision" else 0.0
    errors = [
        np.sqrt(np.mean((Batches(case, size, 200, seed).gradients(which) - target) ** 2))
        for seed, size in enumerate((100, 1600))
    ]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.25)


@pytest.mark.parametrize("spread", [1e-300, 1e300])
def test_horizon_200_with_extreme_ratios_is_right(spread: float) -> None:
    """Against exact rational arithmetic."""
    from fractions import Fraction

    generator = np.random.default_rng(4)
    exponents = generator.integers(-996, 996, size=(2, 5, 200)).astype(float)
    exponents[:, :, -1] = np.log2(spread).round()
    rewards = generator.integers(-3, 4, size=exponents.shape).astype(float)
    taken = np.ones((5, 200), bool)
    probabilities = np.array([0.25, 0.5])
    found = np.asarray(estimators.weighted_per_decision(exponents * np.log(2), rewards, probabilities, taken))
    assert np.all(np.isfinite(found))
    ratios = [[[Fraction(2) ** int(e) for e in row] for row in goal] for goal in exponents]
    for goal, episode in np.ndindex(2, 5):
        total = Fraction(0)
        for time in reversed(range(200)):
            normaliser = sum(ratios[goal][other][time] for other in range(5))
            total += ratios[goal][episode][time] / normaliser * int(rewards[goal, episode, time])
            expected = float(total * Fraction(float(probabilities[goal])))
            assert found[goal, episode, time] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    unweighted = np.asarray(estimators.per_decision(exponents * np.log(2), rewards, probabilities))
    assert np.all(np.isfinite(unweighted))
