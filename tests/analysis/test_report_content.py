"""The small tables and sentences of a report."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from reference.studies import synthetic_study

from hindsight_rl.analysis.report.build import build_report, render_report
from hindsight_rl.analysis.report.content import (
    cell_settings_table,
    common_settings_table,
    headline_table,
    origins_table,
    runs_behind,
    shortcomings,
)
from hindsight_rl.analysis.study.summaries import missing, performance
from hindsight_rl.records.runs import DEFINITIVE, Cell, FinishedRun

STUDY = synthetic_study(methods=("gcpg", "hpg"), batch_sizes=(2,))


def no_paper(environment: str, method: str, batch_size: int) -> None:
    return None


def test_settings_are_split_into_shared_and_own() -> None:
    first, second = Cell("maze", 2, "hpg"), Cell("maze", 2, "hpg+b")
    plans: Mapping[Cell, Mapping[str, Any]] = {
        first: {"definitive": {"runs": 5, "batches": 100}, "strategy": "grid", "goals": None, "rates": [0.1, 1e-05]},
        second: {"definitive": {"runs": 9, "batches": 100}, "strategy": "halving", "goals": None, "rates": []},
    }
    assert common_settings_table(plans).rows == (("definitive batches", "100"), ("goals", None))
    own = cell_settings_table(plans)
    assert [(column.header, column.kind) for column in own.columns[3:]] == [
        ("definitive runs", "count"),
        ("strategy", "text"),
        ("rates", "text"),
    ]
    assert own.rows == ((*first, 5, "grid", "0.1, 1e-05"), (*second, 9, "halving", None))
    assert common_settings_table({}).rows == cell_settings_table({}).rows == ()


def test_origins_have_a_column_each() -> None:
    two = replace(STUDY, origins={1: {"jax": "0.10", "code": {"commit": "abc"}}, 2: {"jax": "0.11"}})
    table = origins_table(two)
    assert [column.header for column in table.columns] == ["what", "origin 1", "origin 2"]
    assert table.rows[1:] == (("jax", "0.10", "0.11"), ("code commit", "abc", None))
    assert table.rows[0] == ("runs made", str(len(STUDY.runs)), "0")


def test_runs_of_several_places_are_summed_up() -> None:
    rows = performance(STUDY, no_paper)
    assert runs_behind(rows) == "23 of 24 planned runs finished (1 failed)."
    assert shortcomings(missing(synthetic_study(failures=False))) == []


def test_headline_of_methods_that_are_not_everywhere() -> None:
    rows = [row for row in performance(STUDY, no_paper) if row.cell[::2] != ("four-rooms", "gcpg")]
    assert headline_table(rows).rows[1][2] is None


def test_a_study_of_what_the_paper_has_not_is_not_set_beside_it() -> None:
    for paper, shown in ((no_paper, False), (lambda *_: (4.6, 0.1), True)):
        text = render_report(build_report(STUDY, paper, {}, None))
        assert ("Beside the paper" in text) == shown


def test_a_search_at_chance_is_shown() -> None:
    """gcpg's search never succeeds, hpg's does: only the first one's choice means nothing."""

    def evaluated(run: FinishedRun, hopeless: bool) -> FinishedRun:
        learned = not hopeless or run.key.stage == DEFINITIVE
        metrics = run.metrics if learned else {name: np.zeros_like(of) for name, of in run.metrics.items()}
        return replace(run, metrics=metrics, settings={**run.settings, "evaluation_episodes": 256})

    for strategy in ("grid", "halving"):
        study = synthetic_study(["maze"], ["gcpg", "hpg"], [2], failures=False, strategy=strategy)
        noise = replace(study, runs=[evaluated(run, run.cell.method == "gcpg") for run in study.runs])
        report = build_report(noise, no_paper, {})
        (note,) = report.notes
        assert note.endswith("the rates of the definitive runs mean nothing: gcpg on maze, batch size 2.")
        caption = report.figures["sensitivity-maze-batch2"].caption
        assert caption.endswith("No run is above chance, so that nothing was chosen: gcpg.")
        assert note in render_report(report)
        decided = replace(study, runs=[evaluated(run, False) for run in study.runs])
        assert build_report(decided, no_paper, {}).notes == ()
        searched = replace(noise, runs=[run for run in noise.runs if run.key.stage != DEFINITIVE])
        assert not any("above chance" in note for note in build_report(searched, no_paper, {}).notes)
