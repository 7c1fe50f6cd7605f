"""Intervals against closed forms and against SciPy's bootstrap."""

from math import comb
from typing import Any

import numpy as np
import pytest
import scipy.stats

from hindsight_rl.analysis.statistics import bootstrap_interval, learning_curve
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.evaluations import Evaluations


def binomial_quantile(trials: int, probability: float) -> int:
    """The smallest count of heads, among fair coin tosses, whose cumulative probability reaches `probability`."""
    cumulative = np.cumsum([comb(trials, heads) for heads in range(trials + 1)]) / 2**trials
    return int(np.searchsorted(cumulative, probability))


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
def test_interval_of_coin_tosses_has_binomial_ends(confidence: float) -> None:
    # With half the runs 0 and half 1, the mean of a resample of 20 is binomial(20, 1/2) / 20.
    values = np.repeat([0.0, 1.0], 10)[:, None]
    low, high = bootstrap_interval(values, generator=np.random.default_rng(0), confidence=confidence, resamples=200_000)
    assert low[0] == pytest.approx(binomial_quantile(20, (1 - confidence) / 2) / 20, abs=1e-12)
    assert high[0] == pytest.approx(binomial_quantile(20, (1 + confidence) / 2) / 20, abs=1e-12)


def test_interval_agrees_with_scipy() -> None:
    values = np.random.default_rng(1).gamma(2.0, size=(12, 5))
    low, high = bootstrap_interval(values, generator=np.random.default_rng(2), resamples=40_000)
    expected = scipy.stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=40_000, rng=np.random.default_rng(3)
    ).confidence_interval
    spread = values.std(axis=0) / np.sqrt(12)
    np.testing.assert_allclose((low - expected.low) / spread, 0, atol=0.06)
    np.testing.assert_allclose((high - expected.high) / spread, 0, atol=0.06)


def test_interval_covers_the_mean_about_as_often_as_it_says() -> None:
    # Each point is an experiment of its own with true mean 0; the normal approximation holds for 100 runs.
    values = np.random.default_rng(4).normal(size=(100, 2000))
    low, high = bootstrap_interval(values, generator=np.random.default_rng(5), confidence=0.9, resamples=500)
    assert np.mean((low <= 0) & (high >= 0)) == pytest.approx(0.9, abs=0.03)


def test_interval_is_decided_by_the_generator() -> None:
    values = np.random.default_rng(0).normal(size=(6, 3))
    first, again, other = (bootstrap_interval(values, generator=np.random.default_rng(seed))[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


def test_single_run_gives_itself() -> None:
    values = np.array([[1.5, -2.0, 1 / 3]])
    low, high = bootstrap_interval(values, generator=np.random.default_rng(0))
    np.testing.assert_array_equal(low, values[0])
    np.testing.assert_array_equal(high, values[0])


@pytest.mark.parametrize("values", [np.zeros((0, 3)), np.zeros(3), np.array([[np.nan, 1.0]])])
def test_values_without_an_interval_are_refused(values: np.ndarray) -> None:
    with pytest.raises(HindsightError, match="An interval needs finite values"):
        bootstrap_interval(values, generator=np.random.default_rng(0))


@pytest.mark.parametrize("options", [{"confidence": 1.0}, {"confidence": 0.0}, {"resamples": 0}])
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(HindsightError, match="must"):
        bootstrap_interval(np.ones((2, 2)), generator=np.random.default_rng(0), **options)


def evaluations_of(mean_returns: np.ndarray) -> Evaluations:
    runs, evaluations = mean_returns.shape
    return Evaluations(
        seeds=np.arange(runs),
        rates={"learning_rate": np.full(runs, 1e-3)},
        batches=10 * np.arange(evaluations),
        episodes=160 * np.arange(evaluations),
        metrics={"mean_return": mean_returns, "success_rate": mean_returns / 10},
    )


def test_curve_leaves_failed_runs_out_altogether() -> None:
    mean_returns = np.array([[1.0, 2.0], [100.0, np.nan], [3.0, 6.0]])
    curve = learning_curve(evaluations_of(mean_returns))
    np.testing.assert_array_equal(curve.batches, [0, 10])
    np.testing.assert_array_equal(curve.mean, [2.0, 4.0])
    # Of two runs, a quarter of the resamples is twice the lower and a quarter twice the higher.
    np.testing.assert_array_equal(curve.low, [1.0, 2.0])
    np.testing.assert_array_equal(curve.high, [3.0, 6.0])
    assert curve.runs == 2


def test_curve_without_a_generator_is_always_the_same() -> None:
    evaluations = evaluations_of(np.random.default_rng(0).normal(size=(8, 4)))
    np.testing.assert_array_equal(learning_curve(evaluations).low, learning_curve(evaluations).low)
    other = learning_curve(evaluations, np.random.default_rng(7))
    assert np.any(other.low != learning_curve(evaluations).low)


def test_curve_of_failed_runs_only() -> None:
    curve = learning_curve(evaluations_of(np.array([[1.0, np.nan], [np.nan, np.nan]])))
    assert curve.runs == 0
    assert np.isnan([curve.mean, curve.low, curve.high]).all()
