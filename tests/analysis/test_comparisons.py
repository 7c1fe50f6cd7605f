"""Comparisons against SciPy, enumeration of all resamples, closed forms and simulated coverage."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from hindsight_rl.analysis.comparisons import (
    interquartile_mean,
    pooled_interquartile_mean,
    probability_of_improvement,
    probability_of_improvement_interval,
    stratified_bootstrap_interval,
)
from hindsight_rl.core.errors import HindsightError

MANY = 200_000


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def exact_interval(values: Sequence[float], confidence: float) -> tuple[float, float]:
    """Percentiles of equally likely values, as the limit of infinitely many draws."""
    # Five standard errors of a share of `MANY` draws: within them the percentile must not jump to another value.
    shares = np.add.outer([(1 - confidence) / 2, (1 + confidence) / 2], [-0.005, 0.005])
    ends = np.sort(values)[np.ceil(shares * len(values)).astype(int) - 1]
    assert np.all(np.ptp(ends, axis=1) < 1e-12)
    return float(ends[0, 0]), float(ends[1, 0])


def all_resamples(task: Sequence[float]) -> list[tuple[float, ...]]:
    return list(product(task, repeat=len(task)))


# Interquartile mean


@pytest.mark.parametrize("runs", range(1, 26))
def test_interquartile_mean_is_scipys_trimmed_mean(runs: int) -> None:
    values = generator(runs).gamma(2.0, size=runs)
    assert interquartile_mean(values) == pytest.approx(scipy.stats.trim_mean(values, 0.25), rel=1e-12)
    assert interquartile_mean(list(values)) == interquartile_mean(values)


def test_tasks_are_pooled_before_trimming() -> None:
    tasks = [generator(1).normal(size=7), generator(2).normal(5.0, 1.0, size=12), generator(3).normal(size=1)]
    expected = scipy.stats.trim_mean(np.concatenate(tasks), 0.25)
    assert interquartile_mean(tasks) == pytest.approx(expected, rel=1e-12)
    assert interquartile_mean(tasks) != pytest.approx(np.mean([interquartile_mean(task) for task in tasks]), rel=0.01)


def test_each_resample_has_its_own_interquartile_mean() -> None:
    tasks = [generator(1).normal(size=(4, 6)), generator(2).normal(size=(4, 3))]
    expected = [interquartile_mean([task[index] for task in tasks]) for index in range(4)]
    np.testing.assert_allclose(pooled_interquartile_mean(tasks), expected, rtol=1e-12)


# Stratified bootstrap


@pytest.mark.parametrize("confidence", [0.6, 0.8, 0.9])
def test_interval_is_that_of_all_resamples(confidence: float) -> None:
    tasks = [[0.0, 1.0, 4.0], [2.0, 9.5]]
    every = [interquartile_mean(first + second) for first, second in product(*map(all_resamples, tasks))]
    assert len(every) == 27 * 4
    arrays = [np.array(task) for task in tasks]
    found = stratified_bootstrap_interval(arrays, pooled_interquartile_mean, generator(), confidence, MANY)
    assert found == pytest.approx(exact_interval(every, confidence), abs=1e-12)


def test_bootstrap_variance_of_a_mean_is_known() -> None:
    # The mean of all runs has variance sum_k n_k s_k^2 / N^2 over resamples within tasks, with s_k of ddof 0.
    tasks = [generator(1).gamma(2.0, size=5), generator(2).normal(10.0, 3.0, size=8)]
    seen: list[np.ndarray] = []

    def mean(drawn: Sequence[np.ndarray]) -> np.ndarray:
        seen.append(np.concatenate(drawn, axis=1).mean(axis=1))
        return seen[-1]

    stratified_bootstrap_interval(tasks, mean, generator(3), resamples=MANY)
    expected = sum(len(task) * task.var() for task in tasks) / 13**2
    # The relative standard error of a variance over 200,000 draws is about 0.3 %.
    assert seen[0].var() == pytest.approx(expected, rel=0.015)
    assert seen[0].mean() == pytest.approx(np.concatenate(tasks).mean(), abs=5 * np.sqrt(expected / MANY))


def test_interval_agrees_with_scipy_over_two_tasks() -> None:
    tasks = (generator(1).gamma(2.0, size=9), generator(2).normal(3.0, 1.0, size=14))

    def statistic(first: np.ndarray, second: np.ndarray, axis: int) -> np.ndarray:
        return scipy.stats.trim_mean(np.concatenate([first, second], axis=axis), 0.25, axis=axis)

    expected = scipy.stats.bootstrap(
        tasks, statistic, method="percentile", n_resamples=40_000, rng=generator(3)
    ).confidence_interval
    low, high = stratified_bootstrap_interval(tasks, pooled_interquartile_mean, generator(4), resamples=40_000)
    width = expected.high - expected.low
    assert (low - expected.low) / width == pytest.approx(0, abs=0.02)
    assert (high - expected.high) / width == pytest.approx(0, abs=0.02)


def test_runs_are_never_drawn_from_another_task() -> None:
    tasks = [np.zeros(4), np.full(4, 100.0)]
    interval = stratified_bootstrap_interval(
        tasks, lambda drawn: np.concatenate(drawn, axis=1).mean(axis=1), generator()
    )
    assert interval == (50.0, 50.0)


def test_interval_covers_the_interquartile_mean_about_as_often_as_it_says() -> None:
    # Symmetric tasks around the same value, so that the pooled interquartile mean is truly zero. The standard error
    # of a coverage over 500 experiments is 1.3 %; the percentile interval of 45 runs is about 2 % too narrow.
    draws = generator(5)
    covered = 0
    for _ in range(500):
        tasks = [draws.normal(size=15), draws.uniform(-2, 2, size=15), draws.normal(scale=0.5, size=15)]
        low, high = stratified_bootstrap_interval(tasks, pooled_interquartile_mean, draws, 0.9, resamples=400)
        covered += low <= 0 <= high
    assert covered / 500 == pytest.approx(0.9, abs=0.05)


def test_interval_is_decided_by_the_generator() -> None:
    values = generator(1).normal(size=9)
    first, again, other = (
        stratified_bootstrap_interval(values, pooled_interquartile_mean, generator(seed)) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_single_run_gives_itself() -> None:
    assert stratified_bootstrap_interval([1 / 3], pooled_interquartile_mean, generator()) == (1 / 3, 1 / 3)


# Probability of improvement

few_values = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=8)


@given(few_values, few_values)
def test_probability_is_mann_whitneys_statistic(left: list[float], right: list[float]) -> None:
    expected = scipy.stats.mannwhitneyu(left, right, method="asymptotic").statistic / (len(left) * len(right))
    assert probability_of_improvement(left, right) == pytest.approx(expected, abs=1e-12)
    assert probability_of_improvement(right, left) == pytest.approx(1 - expected, abs=1e-12)


def test_probability_of_several_tasks_is_their_mean() -> None:
    left, right = [[1.0, 2.0], [5.0, 5.0, 5.0]], [[0.0], [5.0, 6.0]]
    assert probability_of_improvement(left, right) == pytest.approx((1 + 0.25) / 2)


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9])
def test_interval_of_the_probability_is_that_of_all_resamples(confidence: float) -> None:
    left, right = [1.0, 3.0, 6.0], [0.0, 3.0, 4.0]
    every = [probability_of_improvement(x, y) for x, y in product(all_resamples(left), all_resamples(right))]
    found = probability_of_improvement_interval(left, right, generator(), confidence, MANY)
    assert found == pytest.approx(exact_interval(every, confidence), abs=1e-12)


def test_interval_of_the_probability_agrees_with_scipy() -> None:
    left, right = generator(1).normal(0.5, 1.0, size=15), generator(2).normal(size=11)

    def statistic(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
        return np.mean(np.sign(x[..., :, None] - y[..., None, :]) / 2 + 0.5, axis=(-2, -1))

    expected = scipy.stats.bootstrap(
        (left, right), statistic, method="percentile", n_resamples=20_000, batch=2000, rng=generator(3)
    ).confidence_interval
    found = probability_of_improvement_interval(left, right, generator(4), resamples=20_000)
    assert found == pytest.approx((expected.low, expected.high), abs=0.01)


def test_interval_of_the_probability_over_tasks_is_narrower_by_their_root() -> None:
    # Four independent copies of a task: the variance of the mean over tasks is a quarter.
    left, right = generator(1).normal(size=20), generator(2).normal(size=20)
    ends = [
        probability_of_improvement_interval([left] * tasks, [right] * tasks, generator(3), resamples=20_000)
        for tasks in (1, 4)
    ]
    one, four = (high - low for low, high in ends)
    assert one / four == pytest.approx(2, rel=0.05)


def test_interval_covers_the_probability_about_as_often_as_it_says() -> None:
    # P(X > Y) of two normals one apart. Tolerance: standard error 1.3 %, and a percentile interval of 20 runs.
    truth = scipy.stats.norm.cdf(1 / np.sqrt(2))
    draws = generator(6)
    covered = 0
    for _ in range(500):
        left, right = draws.normal(1.0, 1.0, size=20), draws.normal(size=20)
        low, high = probability_of_improvement_interval(left, right, draws, 0.9, resamples=400)
        covered += low <= truth <= high
    assert covered / 500 == pytest.approx(0.9, abs=0.05)


def test_clear_win_has_no_width() -> None:
    assert probability_of_improvement_interval([2.0, 3.0], [0.0, 1.0], generator()) == (1.0, 1.0)


# Errors

BAD_TASKS = [
    ([], "at least one task"),
    (np.zeros(0), "at least one run"),
    ([np.ones(3), np.zeros(0)], "at least one run"),
    (np.ones((2, 3)), r"not shape \(2, 3\)"),
    ([np.ones((2, 3))], r"not shape \(2, 3\)"),
    ([1.0, np.nan], "leave failed runs out"),
    ([np.ones(2), np.array([np.inf])], "leave failed runs out"),
]


@pytest.mark.parametrize(("tasks", "message"), BAD_TASKS)
def test_tasks_without_a_statistic_are_refused(tasks: Sequence[Any], message: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: interquartile_mean(tasks),
        lambda: stratified_bootstrap_interval(tasks, pooled_interquartile_mean, generator()),
        lambda: probability_of_improvement(tasks, [1.0]),
        lambda: probability_of_improvement([1.0], tasks),
        lambda: probability_of_improvement_interval([1.0], tasks, generator()),
    ]
    for call in calls:
        with pytest.raises(HindsightError, match=message):
            call()


def test_sides_with_different_tasks_are_refused() -> None:
    with pytest.raises(HindsightError, match="there are 2 and 1"):
        probability_of_improvement([[1.0], [2.0]], [[1.0]])


@pytest.mark.parametrize("options", [{"confidence": 0.0}, {"confidence": 1.0}, {"confidence": 95}, {"resamples": 0}])
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(HindsightError, match="must"):
        stratified_bootstrap_interval([1.0], pooled_interquartile_mean, generator(), **options)
    with pytest.raises(HindsightError, match="must"):
        probability_of_improvement_interval([1.0], [1.0], generator(), **options)


@pytest.mark.parametrize("statistic", [lambda drawn: 1.0, lambda drawn: np.full(len(drawn[0]), np.nan)])
def test_statistic_without_a_number_for_each_resample_is_refused(statistic: Callable[..., Any]) -> None:
    with pytest.raises(HindsightError, match="finite number for each of the 2000 resamples"):
        stratified_bootstrap_interval([1.0, 2.0], statistic, generator())
