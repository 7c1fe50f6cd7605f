"""Rows of studies that lack runs: not yet made, failed, or made for a choice that changed."""

from dataclasses import replace

import numpy as np
import pytest
from reference.studies import definitive_run, failed, keep_runs, synthetic_study

from hindsight_rl.analysis.study.curves import learning_curves
from hindsight_rl.analysis.study.summaries import (
    comparisons,
    missing,
    performance,
    ratio_histogram,
    thresholds,
)
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.runs import DEFINITIVE, Cause, Cell, FinishedRun, RunKey, StudyResults

STUDY = synthetic_study()
CELLS = list(STUDY.plans)
BEST = {"bit-flipping-8": 5.0, "four-rooms": 10.0}
HPG, GCPG = Cell("bit-flipping-8", 2, "hpg"), Cell("bit-flipping-8", 2, "gcpg")


def no_paper(environment: str, method: str, batch_size: int) -> None:
    return None


def with_runs(runs: list[FinishedRun]) -> StudyResults:
    return replace(STUDY, plans={cell: STUDY.plans[cell] for cell in (GCPG, HPG)}, runs=runs)


# What is missing


def test_finished_study_lacks_only_what_failed() -> None:
    rows = missing(STUDY)
    assert [row.cell for row in rows] == CELLS
    assert [row.complete for row in rows] == [True] * (len(CELLS) - 1) + [False]
    last = rows[-1]
    assert (last.planned, last.missing, last.search_runs, last.search_unfinished) == (6, 0, 6, False)
    assert last.failures == ((5, Cause(40, "The gradient was not finite.")),)


def test_half_finished_study() -> None:
    study = keep_runs(STUDY, lambda run: run.cell != GCPG and (run.cell != HPG or run.key.seed not in (2, 3)))
    rows = {row.cell: row for row in missing(study)}
    assert (rows[GCPG].missing, rows[GCPG].search_runs, rows[GCPG].search_unfinished) == (6, 0, True)
    assert (rows[HPG].missing, rows[HPG].search_unfinished, rows[HPG].complete) == (2, False, False)


def test_single_setting_needs_no_search() -> None:
    plans = {HPG: {**STUDY.plans[HPG], "choices": {"learning_rate": [1e-3]}}}
    (row,) = missing(replace(STUDY, plans=plans, runs=[]))
    assert (row.missing, row.search_unfinished) == (6, False)


def test_more_runs_than_planned_lack_nothing() -> None:
    plans = {HPG: {**STUDY.plans[HPG], "definitive": {**STUDY.plans[HPG]["definitive"], "runs": 4}}}
    (row,) = missing(replace(STUDY, plans=plans, runs=STUDY.of(HPG)))
    assert (row.planned, row.missing, row.complete) == (4, 0, True)


# Unfinished studies


@pytest.mark.parametrize("searched", [False, True])
def test_study_without_definitive_runs(searched: bool) -> None:
    study = keep_runs(STUDY, lambda run: searched and run.key.stage != DEFINITIVE)
    for row in performance(study, lambda *cell: (4.0, 0.5)):
        assert (row.planned, row.finished, row.failed, row.paper_mean, row.paper_std) == (6, 0, 0, 4.0, 0.5)
        assert row.choices == {"learning_rate": None}
        numbers = (row.mean, row.std, row.interquartile_mean, row.low, row.high, row.final_return)
        assert {*numbers, row.final_success_rate, row.difference, row.difference_in_stds} == {None}
    assert {(row.reached, row.median_episodes) for row in thresholds(study, BEST)} == {(0, None)}
    assert {(row.probability, row.low, row.high, row.first_runs) for row in comparisons(study)} == {(*[None] * 3, 0)}
    assert {(row.search_unfinished, row.missing) for row in missing(study)} == {(not searched, 6)}
    assert {curve.curve.runs for curve in learning_curves(study)} == {0}
    assert ratio_histogram(study, HPG) is None


def test_study_without_cells() -> None:
    study = StudyResults({}, {}, [], {})
    assert performance(study, no_paper) == []
    assert thresholds(study, BEST) == []
    assert comparisons(study) == []
    assert missing(study) == []
    assert learning_curves(study) == []


def test_cell_of_failed_runs_only_keeps_its_rates() -> None:
    row = performance(with_runs([failed(definitive_run(HPG, 0, [1.0]), batch=-1)]), no_paper)[1]
    assert (row.finished, row.failed, row.mean, row.choices["learning_rate"]) == (0, 1, None, 1e-3)


# A choice that changed


def test_only_runs_with_the_rates_that_the_search_chose_count() -> None:
    # As when a search run that raised is tried again and turns out best: definitive runs of both choices are there.
    old = [
        replace(run, key=run.key._replace(choices=(("learning_rate", 1e-4),))) for run in STUDY.of(HPG, DEFINITIVE)[:2]
    ]
    study = replace(STUDY, runs=[*old, *STUDY.runs])
    assert performance(study, no_paper) == performance(STUDY, no_paper)
    assert missing(study) == missing(STUDY)
    np.testing.assert_array_equal(ratio_histogram(study, HPG), ratio_histogram(STUDY, HPG))


def test_rates_that_no_search_chose_are_refused() -> None:
    other = replace(definitive_run(HPG, 0, [1.0]), key=RunKey(DEFINITIVE, (("learning_rate", 5e-3),), 0))
    with pytest.raises(HindsightError, match="bit-flipping-8-batch2-hpg have different settings"):
        performance(with_runs([definitive_run(HPG, 0, [1.0]), other]), no_paper)
