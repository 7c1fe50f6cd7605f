"""A slice of a study: some of its cells, possibly with another search or other numbers of runs."""

from dataclasses import replace
from typing import Any

import pytest
from small_results import refusal
from small_studies import STAGE, small_study

from hindsight_rl.experiments.study.files import load_study
from hindsight_rl.experiments.study.plan import Stage


def test_a_slice_keeps_the_cells_that_are_wanted() -> None:
    study = load_study("paper")
    part = study.narrowed(["empty-room-11", "four-rooms"], ["hpg"], [2])
    assert [tuple(plan.cell) for plan in part.plans] == [("empty-room", 2, "hpg"), ("four-rooms", 2, "hpg")]
    assert study.narrowed() == study
    assert part.name == study.name


def test_a_slice_may_have_another_search_and_other_numbers_of_runs() -> None:
    (plan,) = small_study().narrowed(methods=["gcpg+b"], strategy="grid", runs=9, search_runs=5).plans
    assert (plan.strategy, plan.definitive.runs, plan.search.runs) == ("grid", 9, 5)
    assert replace(plan.definitive, runs=4) == Stage(**{**STAGE, "runs": 4})


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"methods": ["hgp"]}, "There is no method 'hgp' in this study. Did you mean 'hpg'? Known: hpg, gcpg+b."),
        ({"methods": ["gcpg"]}, "Did you mean 'gcpg+b'?"),
        (
            {"environments": ["bit-flipping-8"]},
            "There is no environment 'bit-flipping-8' in this study. Did you mean 'bit-flipping-4'?",
        ),
        ({"environments": ["bit-fliping-4"]}, "Did you mean 'bit-flipping'?"),
        ({"batch_sizes": [80]}, "There is no batch size '80' in this study. Did you mean '8'? Known: 8."),
        ({"strategy": "half"}, "There is no search 'half'. Did you mean 'halving'?"),
        ({"runs": 0}, "runs must be a whole number of at least 1, not 0."),
        ({"search_runs": 0}, "runs must be a whole number of at least 1, not 0."),
        ({"runs": -3}, "runs must be a whole number of at least 1, not -3."),
    ],
)
def test_slices_that_are_not_there_are_refused(choice: dict[str, Any], words: str) -> None:
    assert words in refusal(lambda: small_study().narrowed(**choice))
