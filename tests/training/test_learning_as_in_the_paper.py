"""Whole jobs with the paper's settings; minutes, so `make test-slow` runs them."""

import numpy as np
import pytest

import hindsight_rl
from hindsight_rl.experiments.paper import paper_result

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("environment", ["bit-flipping-8", "empty-room"])
def test_hpg_does_as_well_as_in_the_paper_and_far_better_than_gcpg(environment: str) -> None:
    """4 runs, batch size 16; within three of the paper's standard deviations, at least 0.1, or above."""
    hpg, gcpg = (
        hindsight_rl.train(environment, method=method, batch_size=16, runs=4).evaluations.average_performance
        for method in ("hpg", "gcpg")
    )
    paper = paper_result(environment, "hpg", 16)
    assert paper is not None
    assert np.mean(hpg) > paper.mean - max(3 * paper.std, 0.1)
    assert np.mean(hpg) > 1.2 * np.mean(gcpg)
