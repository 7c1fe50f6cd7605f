"""How much a study asks for, and how long that takes."""

import os
from dataclasses import replace

import numpy as np
import pytest
from small_studies import results_in, simulate, small_plan, small_study

from hindsight_rl.experiments.study.estimates import (
    Speed,
    Work,
    guessed_speeds,
    measured_speed,
    observed_speeds,
    work_ahead,
)
from hindsight_rl.experiments.study.files import load_study
from hindsight_rl.experiments.study.run import run_study
from hindsight_rl.records.runs import DEFINITIVE, Cell, FinishedRun, RunKey

CELL = Cell("bit-flipping-4", 8, "hpg")


def test_work_of_the_papers_grid() -> None:
    """8 settings and 10 runs of 1400 batches, then 20 runs of 1400, each with 101 evaluations and 16 episodes."""
    (plan,) = load_study("paper").narrowed(["bit-flipping-8"], ["hpg"], [16]).plans
    assert work_ahead(plan, {}) == Work(
        search_runs=80, definitive_runs=20, updates=140_000, evaluations=10_100, episodes=2_240_000
    )


def test_work_of_successive_halving() -> None:
    """64 settings with 3 runs of 350 batches, 16 with 5 of 700, 4 with 10 of 1400; then 20 runs of 1400."""
    (plan,) = load_study("paper").narrowed(["bit-flipping-8"], ["gcpg+b"], [16]).plans
    updates = 64 * 3 * 350 + 16 * 5 * 700 + 4 * 10 * 1400 + 20 * 1400
    evaluations = 64 * 3 * 26 + 16 * 5 * 51 + 4 * 10 * 101 + 20 * 101
    assert work_ahead(plan, {}) == Work(192 + 80 + 40, 20, updates, evaluations, 16 * updates)


def test_what_is_finished_is_no_work() -> None:
    plan = small_plan(methods=["gcpg+b"])
    pieces = simulate(plan, lambda key: dict(key.choices)["learning_rate"])
    known: dict[RunKey, float] = {}
    for piece in pieces:
        before = work_ahead(plan, known)
        known |= {key: dict(key.choices)["learning_rate"] for key in piece.keys}
        after = work_ahead(plan, known)
        done = before.search_runs + before.definitive_runs - after.search_runs - after.definitive_runs
        assert done == len(piece.keys)
        assert before.updates - after.updates == len(piece.keys) * piece.settings.batches
    assert work_ahead(plan, known) == Work(0, 0, 0, 0, 0)


def test_seconds_grow_with_the_work() -> None:
    speed = Speed(update=0.5, evaluation=3.0)
    cores = os.cpu_count() or 1
    work = Work(0, 0, updates=100, evaluations=7, episodes=0)
    assert speed.seconds(work) == pytest.approx((50 + 21) / cores)
    assert speed.seconds(replace(work, updates=200, evaluations=14)) == pytest.approx(2 * speed.seconds(work))
    assert speed.seconds(Work(0, 0, 0, 0, 0)) == 0


def run_of(cell: Cell, batches: int, seconds: float) -> FinishedRun:
    points = np.array([0, batches])
    metrics = {"mean_return": np.zeros(2), "success_rate": np.zeros(2)}
    return FinishedRun(cell, RunKey(DEFINITIVE, (("learning_rate", 0.1),), 0), {}, points, points, metrics, seconds)


def test_work_is_counted_however_many_batches_are_asked_for() -> None:
    plan = small_plan()
    endless = replace(plan, definitive=replace(plan.definitive, batches=10**15, evaluate_every=1))
    more = work_ahead(endless, {}).evaluations - work_ahead(plan, {}).evaluations
    each = plan.definitive.batches // plan.definitive.evaluate_every
    assert more == plan.definitive.runs * (10**15 - each)


def test_observed_speed_is_seconds_for_each_update() -> None:
    empty = np.zeros(0, np.int64)
    raised = replace(run_of(CELL, 10, 9.0), batches=empty, episodes=empty)
    other = Cell("bit-flipping-4", 8, "gcpg")
    found = observed_speeds([run_of(CELL, 100, 2.0), run_of(CELL, 300, 2.0), raised, run_of(other, 10, 0.0)])
    assert found == {CELL: Speed(4.0 / 400)}


def test_every_cell_gets_a_speed_from_one_that_is_known() -> None:
    plans = load_study("paper").plans
    known = {plans[0].cell: Speed(0.01)}
    speeds = guessed_speeds(plans, known)
    assert speeds.keys() == {plan.cell for plan in plans}
    assert speeds[plans[0].cell] == Speed(0.01)
    assert all(np.isfinite(speed.update) and speed.update > 0 for speed in speeds.values())
    slowest = max(speeds, key=lambda cell: speeds[cell].update)
    assert (slowest.batch_size, slowest.method) == (16, "hpg+b")
    twice = guessed_speeds(plans, {plans[0].cell: Speed(0.02)})
    for cell, speed in speeds.items():
        assert twice[cell].update == pytest.approx(2 * speed.update)


def test_where_nothing_is_known_nothing_is_guessed() -> None:
    plans = small_study().plans
    assert guessed_speeds(plans, {}) == {}
    stranger = {Cell("four-rooms", 2, "hpg"): Speed(1.0)}
    assert guessed_speeds(plans, stranger) == stranger


@pytest.mark.usefixtures("compiled_programs")
def test_speeds_of_a_real_cell_are_positive(tmp_path_factory: pytest.TempPathFactory) -> None:
    study = small_study(methods=["hpg"], learning_rates=[1e-2])
    (plan,) = study.plans
    measured = measured_speed(plan)
    assert 0 < measured.update < 10
    assert 0 < measured.evaluation < 10
    folder = tmp_path_factory.mktemp("study")
    run_study(study, folder)
    (speed,) = observed_speeds(results_in(folder).runs).values()
    assert 0 < speed.update < 10
