"""The ranking of settings, and that it agrees with the choice that the protocol makes."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from reference.studies import failed, keep_runs, synthetic_study

from hindsight_rl.analysis.study.runs import definitive, rung, settings_tried
from hindsight_rl.analysis.study.sensitivity import sensitivities, sensitivity
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.experiments.study.plan import Stage
from hindsight_rl.experiments.study.protocol import Round, ranked
from hindsight_rl.records.runs import DEFINITIVE, Cell, Choices, FinishedRun, RunKey, StudyResults

CELL = Cell("bit-flipping-8", 2, "hpg")


def run(stage: str, rate: float, seed: int, performance: float) -> FinishedRun:
    value = np.array([performance])
    place = np.array([0])
    metrics = {"mean_return": value, "success_rate": value}
    return FinishedRun(CELL, RunKey(stage, (("learning_rate", rate),), seed), {}, place, place, metrics, 1.0)


def study_of(runs: list[FinishedRun]) -> StudyResults:
    return StudyResults({}, {CELL: {}}, runs, {})


def ranking(runs: list[FinishedRun]) -> list[float]:
    return [row.choices["learning_rate"] for row in sensitivity(study_of(runs), CELL)]


def test_rows_of_a_grid() -> None:
    runs = [
        run("search", 0.1, 0, 2.0),
        run("search", 0.1, 1, 4.0),
        run("search", 0.2, 0, 2.5),
        run("search", 0.2, 1, 2.5),
    ]
    best, second = sensitivity(study_of([*runs, run(DEFINITIVE, 0.2, 0, 9.0)]), CELL)
    assert (best.rank, best.choices, best.mean, best.std, best.score) == (1, {"learning_rate": 0.2}, 2.5, 0.0, 2.5)
    assert (second.rank, second.choices, second.mean) == (2, {"learning_rate": 0.1}, 3.0)
    assert (second.std, second.score) == (1.0, 2.0)
    assert (best.chosen, second.chosen) == (True, False)
    assert (best.stage, best.rung, best.finished, best.failed) == ("search", 0, 2, 0)


def test_settings_with_failed_runs_come_last() -> None:
    runs = [
        failed(run("search", 0.1, 0, 9.0), batch=0),
        run("search", 0.1, 1, 9.0),
        run("search", 0.2, 0, 1.0),
        run("search", 0.3, 0, 2.0),
        failed(run("search", 0.4, 0, 9.0), batch=-1),
    ]
    rows = sensitivity(study_of(runs), CELL)
    assert [row.choices["learning_rate"] for row in rows] == [0.3, 0.2, 0.1, 0.4]
    assert [(row.finished, row.failed) for row in rows] == [(1, 0), (1, 0), (1, 1), (0, 1)]
    assert rows[2].mean == 9.0
    assert (rows[3].mean, rows[3].std, rows[3].score) == (None, None, None)


def test_each_setting_of_halving_is_shown_at_its_last_rung() -> None:
    runs = [
        *(run("search 1", rate, 0, value) for rate, value in ((0.1, 8.0), (0.2, 7.0), (0.3, 6.0), (0.4, 5.0))),
        *(run("search 2", rate, 0, value) for rate, value in ((0.1, 1.0), (0.2, 2.0))),
        run("search 10", 0.1, 0, 0.5),
    ]
    rows = sensitivity(study_of(runs), CELL)
    assert [(row.choices["learning_rate"], row.stage, row.rung, row.mean) for row in rows] == [
        (0.1, "search 10", 10, 0.5),
        (0.2, "search 2", 2, 2.0),
        (0.3, "search 1", 1, 6.0),
        (0.4, "search 1", 1, 5.0),
    ]


def test_failure_in_an_earlier_rung_is_forgotten_but_one_in_the_last_is_not() -> None:
    runs = [
        failed(run("search 1", 0.1, 0, 1.0), batch=0),
        run("search 2", 0.1, 0, 3.0),
        run("search 1", 0.2, 0, 1.0),
        failed(run("search 2", 0.2, 0, 3.0), batch=0),
        run("search 1", 0.3, 0, 0.0),
    ]
    assert ranking(runs) == [0.1, 0.3, 0.2]


def test_equal_settings_leave_the_lower_rate_in_front() -> None:
    assert ranking([run("search", rate, 0, 1.0) for rate in (0.3, 0.1, 0.2)]) == [0.1, 0.2, 0.3]


@pytest.mark.parametrize("seed", range(5))
def test_order_is_that_of_the_protocol(seed: int) -> None:
    # Few distinct values, so that scores tie; one run in five fails.
    generator = np.random.default_rng(seed)
    settings: tuple[Choices, ...] = tuple(
        (("learning_rate", rate), ("clip", clip)) for rate, clip in product((1e-4, 1e-3, 1e-2), (0.1, 0.2))
    )
    this = Round("search", settings, Stage(runs=3, batches=1, evaluate_every=1, evaluation_episodes=1), first_seed=0)
    runs = []
    for key in this.keys:
        made = replace(run("search", 0.0, 0, float(generator.integers(3))), key=key)
        runs.append(failed(made, batch=0) if generator.random() < 0.2 else made)
    expected = ranked(this, {made.key: made.average_performance for made in runs})
    assert [tried[0].key.choices for tried in settings_tried(runs)] == expected
    # Of definitive runs with several settings, those that the protocol chose count.
    extra = [replace(runs[0], key=RunKey(DEFINITIVE, choices, 0)) for choices in settings]
    assert [made.key.choices for made in definitive([*runs, *extra])] == expected[:1]


def test_choice_is_made_in_the_last_rung() -> None:
    runs = [run("search 1", 0.1, 0, 5.0), run("search 1", 0.2, 0, 9.0), failed(run("search 2", 0.2, 0, 1.0), batch=0)]
    extra = [run(DEFINITIVE, rate, 0, 1.0) for rate in (0.1, 0.2)]
    assert [made.key.choices for made in definitive([*runs, *extra])] == [(("learning_rate", 0.2),)]


def test_rows_of_a_whole_study() -> None:
    study = synthetic_study(methods=("gcpg", "hpg+b"), strategy="halving")
    rows = sensitivities(study)
    assert list(dict.fromkeys(row.cell for row in rows)) == list(study.plans)
    assert len(rows) == 4 * (3 + 6)
    best = [row for row in rows if row.rank == 1]
    assert {(row.choices["learning_rate"], row.chosen, row.stage) for row in best} == {(1e-3, True, "search 2")}
    assert {row.choices.get("baseline_learning_rate") for row in best} == {None, 1e-3}
    assert sum(row.chosen for row in rows) == len(study.plans)


def test_search_that_has_just_begun() -> None:
    study = synthetic_study()
    assert sensitivities(keep_runs(study, lambda made: False)) == []
    rows = sensitivities(keep_runs(study, lambda made: made.key.stage != DEFINITIVE and made.key.seed == 1_000_000))
    assert {(row.finished + row.failed, row.chosen) for row in rows} == {(1, False)}


def test_number_of_a_stage() -> None:
    assert [rung(stage) for stage in ("search", "search 1", "search 12")] == [0, 1, 12]
    for stage in ("definitive", "search ", "search one", "search -1", "searching 1"):
        with pytest.raises(HindsightError, match="A stage of the search"):
            rung(stage)
