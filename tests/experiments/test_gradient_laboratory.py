"""The gradient laboratory: what it measures is right where the answer is known."""

from typing import Any

import jax
import numpy as np
import pytest

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.estimators.dials import Dials
from hindsight_rl.experiments.gradients import Setup, measure, setups, squared_bias
from hindsight_rl.networks.policy import Policy

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_squared_bias_is_unbiased_and_knows_its_error() -> None:
    """2,000 experiments of 10 groups with a known bias: the mean within four standard errors.

    A jackknife errs on the safe side: its error is 1 to 1.4 times the true one.
    """
    generator = np.random.default_rng(0)
    bias = np.array([0.3, -0.2, 0.0, 0.1])
    found = np.array([squared_bias(bias + generator.normal(scale=0.5, size=(10, 4))) for _ in range(2000)])
    spread = found[:, 0].std()
    assert found[:, 0].mean() == pytest.approx(bias @ bias, abs=4 * spread / np.sqrt(2000))
    assert 1 < np.sqrt(np.mean(found[:, 1] ** 2)) / spread < 1.4


def test_setups_that_do_not_differ_are_measured_once() -> None:
    chosen = setups(["gcpg", "weighted"], [4], [None, 1], ["goal", "horizon"], ["drop", "carry"])
    assert chosen == [
        Setup("gcpg", 4, None, "goal", "drop"),
        Setup("gcpg", 4, None, "horizon", "drop"),
        Setup("weighted", 4, None, "goal", "drop"),
        Setup("weighted", 4, None, "goal", "carry"),
        Setup("weighted", 4, None, "horizon", "drop"),
        Setup("weighted", 4, 1, "goal", "drop"),
        Setup("weighted", 4, 1, "goal", "carry"),
        Setup("weighted", 4, 1, "horizon", "drop"),
    ]


def test_floors_matter_to_weighted_estimators_only() -> None:
    chosen = setups(["per-decision", "weighted"], [4], [None], ["horizon"], ["drop"], [0.0, 1e-12])
    assert chosen == [
        Setup("per-decision", 4, None, "horizon", "drop"),
        Setup("weighted", 4, None, "horizon", "drop"),
        Setup("weighted", 4, None, "horizon", "drop", 1e-12),
    ]
    with pytest.raises(HindsightError, match="normaliser_floor must be a number from 0 to 1, not -1"):
        setups(["weighted"], [4], [None], ["horizon"], ["drop"], [-1.0])


def test_unknown_estimator_suggests_the_nearest() -> None:
    with pytest.raises(HindsightError, match="Did you mean 'weighted'"):
        setups(["weigted"], [4], [None], ["goal"], ["drop"])


def sharp_policy() -> Policy:
    generator = np.random.default_rng(3)
    policy = Policy(2, 2, 2, (4,), jax.random.key(0))
    return jax.tree.map(lambda leaf: generator.normal(size=leaf.shape).astype(np.float32), policy)


def test_bias_is_found_where_there_is_some_and_only_there() -> None:
    """2 bits, batches of 8, 2,000 of each, fixed seed: unbiased forms within 4 standard errors of zero bias."""
    chosen = [
        Setup("gcpg", 8, None, "goal", "drop"),
        Setup("per-decision", 8, None, "horizon", "drop"),
        Setup("per-decision+v", 8, None, "horizon", "drop"),
        Setup("per-decision", 8, None, "goal", "drop"),
        Setup("no-ratios", 8, None, "horizon", "drop"),
    ]
    unbiased: dict[str, Any] = {}
    biased: dict[str, Any] = {}
    for found in measure(BitFlipping(2), sharp_policy(), chosen, samples=2000):
        is_biased = found.setup in chosen[3:]
        (biased if is_biased else unbiased)[found.setup.estimator] = found
        assert found.variance > 0
        assert -1 <= found.cosine <= found.cosine_of_mean + 0.05
        assert len(found.effective_sample_sizes) == 2
        assert all(0 < size <= 1 + 1e-6 for size in found.effective_sample_sizes)
    for found in unbiased.values():
        assert abs(found.bias) < 4 * found.bias_error
        assert found.cosine_of_mean > 0.95
    for found in biased.values():
        assert found.bias > 4 * found.bias_error
    assert unbiased["per-decision+v"].variance < unbiased["per-decision"].variance


def test_dials_of_truncated_corrections_cost_bias_and_bring_down_variance() -> None:
    """2 bits, batches of 8, 2,000 of each, fixed seed: exact within 4 standard errors, truncated beyond 4."""
    exact, level = Dials(critic="zero"), Dials(rho=1.0, c=1.0, critic="zero")
    chosen = [Setup(dials.name, 8, None, "horizon", "drop") for dials in (exact, level)]
    untruncated, truncated = measure(BitFlipping(2), sharp_policy(), chosen, samples=2000)
    assert abs(untruncated.bias) < 4 * untruncated.bias_error
    assert untruncated.bias_error < 0.01
    assert truncated.bias > 4 * truncated.bias_error
    assert truncated.variance < 0.8 * untruncated.variance


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(HindsightError, match="samples must be at least 2"):
        next(measure(BitFlipping(2), sharp_policy(), [Setup("gcpg", 2, None, "horizon", "drop")], samples=1))
