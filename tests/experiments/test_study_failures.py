"""What goes wrong in a study: damaged checkpoints, failed runs, exceptions, and settings that have changed."""

import os
import resource
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_jobs import ENVIRONMENT, alter, truncate
from small_results import example_run, refusal
from small_studies import (
    STAGE,
    by_key,
    copied,
    finished,
    interrupt,
    interrupting,
    numbers_in,
    only_hpg,
    results_in,
    shared_programs,
    small_plan,
    small_study,
    study_text,
    ticks_of,
)

from hindsight_rl.agents.interface import CAUSES
from hindsight_rl.cli import main
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.experiments.study import worker as study_worker
from hindsight_rl.experiments.study.plan import Study
from hindsight_rl.experiments.study.policies import POLICIES
from hindsight_rl.experiments.study.run import admit, run_study
from hindsight_rl.experiments.study.worker import UNFINISHED, Observer
from hindsight_rl.records.checkpoints import load_checkpoint, save_checkpoint
from hindsight_rl.records.results import RESULTS, ResultsFile
from hindsight_rl.records.runs import DEFINITIVE, Cause, Cell
from hindsight_rl.training import loop

__all__ = ["copied", "finished", "shared_programs"]

pytestmark = pytest.mark.usefixtures("shared_programs")

HPG, BASELINE = Cell(ENVIRONMENT, 8, "hpg"), Cell(ENVIRONMENT, 8, "gcpg+b")
HUGE = 1e38


def of_nothing(path: Path) -> None:
    path.write_bytes(b"")


def of_another_kind(path: Path) -> None:
    save_checkpoint(path, {"a": np.zeros(3)}, {"job": 3})


def of_other_shapes(path: Path) -> None:
    arrays, metadata = load_checkpoint(path)
    save_checkpoint(path, {name: array[:1] for name, array in arrays.items()}, metadata)


def without_seconds(path: Path) -> None:
    arrays, metadata = load_checkpoint(path)
    save_checkpoint(path, arrays, {"piece": metadata["piece"]})


def of_another_environment(path: Path) -> None:
    arrays, metadata = load_checkpoint(path)
    assert metadata["piece"]["specification"]["options"] == {"bits": 4}
    metadata["piece"]["specification"]["options"] = {"bits": 5}
    save_checkpoint(path, arrays, metadata)


@pytest.mark.parametrize(
    "damage",
    [truncate, alter, of_nothing, of_another_kind, of_other_shapes, of_another_environment, without_seconds],
)
def test_a_damaged_checkpoint_only_costs_what_it_held(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    interrupt(only_hpg(), tmp_path, interrupting(20))
    damage(tmp_path / UNFINISHED)
    assert ticks_of(only_hpg(), tmp_path)[0] == 0
    assert [run.failure for run in results_in(tmp_path).runs] == [None] * 4
    run_study(only_hpg(), tmp_path / "at once")
    assert numbers_in(tmp_path) == numbers_in(tmp_path / "at once")


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 5},
        {"learning_rates": [2e-2]},
        {"definitive": {**STAGE, "batches": 60, "runs": 4}},
        {"definitive": {**STAGE, "runs": 3}},
        {"methods": ["gcpg+b"], "baseline_learning_rates": [1e-2]},
    ],
)
def test_the_checkpoint_of_another_piece_is_not_used(tmp_path: Path, changes: dict[str, Any]) -> None:
    """No run is finished, so the settings may still change."""
    interrupt(only_hpg(), tmp_path, interrupting(20))
    assert ticks_of(only_hpg(**changes), tmp_path)[0] == 0
    run_study(only_hpg(**changes), tmp_path / "at once")
    assert numbers_in(tmp_path)["evaluations"] == numbers_in(tmp_path / "at once")["evaluations"]


def test_a_map_that_has_changed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "map.txt").write_text("S..\n...\n")
    study = only_hpg(environments=[f"grid:{tmp_path / 'map.txt'}"])
    (plan,) = study.plans
    with ResultsFile.open(tmp_path / RESULTS, create=True) as file:
        file.write_plans({plan.cell: plan.to_json()})
        file.write_runs([example_run(cell=plan.cell, origin=file.write_origin({}))])
    admit(study, results_in(tmp_path), tmp_path)
    (tmp_path / "map.txt").write_text("...\n..S\n")
    changed = only_hpg(environments=[plan.environment])
    message = refusal(lambda: run_study(changed, tmp_path))
    assert message == f"'{tmp_path}' already holds {plan.cell.name} with another map: choose another output folder."


def test_a_run_that_fails_is_recorded_and_the_rest_goes_on(tmp_path: Path) -> None:
    results = run_study(small_study(methods=["hpg"], learning_rates=[1e-2, HUGE]), tmp_path)
    failed = [run for run in results.runs if run.failure]
    assert [run.key for run in failed] == [
        ("search", (("learning_rate", HUGE),), seed) for seed in (1_000_000, 1_000_001)
    ]
    for run in failed:
        assert run.failure is not None
        assert run.failure.sentence in CAUSES[1:]
        assert 0 <= run.failure.batch <= 40
        known = np.isfinite(run.mean_returns)
        np.testing.assert_array_equal(known, run.batches <= run.failure.batch)
        assert np.isnan(run.average_performance)
    assert {run.key.choices for run in results.of(HPG, DEFINITIVE)} == {(("learning_rate", 1e-2),)}
    assert np.isfinite([run.average_performance for run in results.of(HPG, DEFINITIVE)]).all()


def test_where_every_run_fails_the_study_still_ends(tmp_path: Path) -> None:
    results = run_study(only_hpg(learning_rates=[HUGE]), tmp_path)
    assert [run.failure is not None for run in results.runs] == [True] * 4
    assert not (tmp_path / POLICIES).exists()


def raise_for(method: str, after: int | None) -> Callable[..., Iterator[Any]]:
    """Training that raises for a method: at once, or after some evaluations."""

    def training(program: Any, settings: Any, *rest: Any) -> Iterator[Any]:
        for number, snapshot in enumerate(the_real_training(program, settings, *rest)):
            if settings.method == method and number == after:
                raise RuntimeError("the cat sat\non the keyboard")
            yield snapshot

    def at_once(program: Any, settings: Any, *rest: Any) -> Iterator[Any]:
        if settings.method == method:
            raise MemoryError
        return the_real_training(program, settings, *rest)

    return at_once if after is None else training


the_real_training = loop.training


@pytest.mark.parametrize(("after", "cause"), [(None, "MemoryError: no message"), (2, "RuntimeError: the cat sat")])
def test_an_exception_is_no_result_the_rest_goes_on_and_the_same_command_tries_again(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int | None, cause: str
) -> None:
    """It may come of memory, files, processes or packages, and would change what a search chooses."""
    notices: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(study_worker, "training", raise_for("hpg", after))
        message = refusal(lambda: run_study(small_study(), tmp_path, Observer(notice=notices.append)))
    assert message == (
        f"1 of 2 cells could not be finished, {HPG.name} for one ({cause}); what is finished is in '{tmp_path}', "
        "and the same command tries the rest again."
    )
    assert notices == [f"{HPG.name}, search could not be finished: {cause}."]
    results = results_in(tmp_path)
    assert results.of(HPG) == []
    assert {run.failure for run in results.of(BASELINE)} == {None}
    before = by_key(results)
    run_study(small_study(), tmp_path)
    assert numbers_in(tmp_path) == numbers_in(finished)
    kept = {key: run.seconds for key, run in by_key(results_in(tmp_path)).items() if run.cell == BASELINE}
    assert kept == {key: run.seconds for key, run in before.items()}


@pytest.mark.parametrize("more", [0, 1, 2, 3, 5])
def test_too_few_files_that_may_be_open_fail_no_run(finished: Path, tmp_path: Path, more: int) -> None:
    (tmp_path / "study.toml").write_text(study_text())
    arguments = ["study", "run", str(tmp_path / "study.toml"), "--output", str(tmp_path / "study")]
    before, code = resource.getrlimit(resource.RLIMIT_NOFILE), None
    resource.setrlimit(resource.RLIMIT_NOFILE, (_next_file() + more, before[1]))
    try:
        main(arguments)
    except SystemExit as stop:
        code = stop.code
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert code in (None, 2)
    if (tmp_path / "study" / RESULTS).exists():
        assert {run.failure for run in results_in(tmp_path / "study").runs} <= {None}
    main(arguments)
    assert numbers_in(tmp_path / "study") == numbers_in(finished)


def _next_file() -> int:
    """The number that the next file to be opened gets."""
    number = os.open(os.devnull, os.O_RDONLY)
    os.close(number)
    return number


def test_a_disk_that_is_full_ends_the_study_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the cells to come could be kept either."""

    def full(*arguments: object) -> None:
        raise HindsightError("the disk is full")

    monkeypatch.setattr(study_worker, "save_checkpoint", full)
    message = refusal(lambda: run_study(small_study(), tmp_path, seconds_between_checkpoints=0.0))
    assert message == "the disk is full"
    assert results_in(tmp_path).runs == []


def test_runs_that_earlier_versions_recorded_as_raised_run_again_when_asked(finished: Path, copied: Path) -> None:
    """They ended with an exception, which may have come of the machine."""
    results = results_in(copied)
    definitive = results.of(HPG, DEFINITIVE)
    nothing: dict[str, Any] = {"batches": np.zeros(0, int), "episodes": np.zeros(0, int), "records": {}}
    nothing["metrics"] = {"mean_return": np.zeros(0), "success_rate": np.zeros(0)}
    raised = [replace(run, failure=Cause(-1, "MemoryError: "), **nothing) for run in definitive]
    (copied / RESULTS).unlink()
    with ResultsFile.open(copied / RESULTS, create=True) as file:
        file.write_plans(results.plans)
        origin = file.write_origin({})
        others = [run for run in results.runs if run not in definitive]
        file.write_runs([replace(run, origin=origin) for run in (*others, *raised)])
    assert ticks_of(small_study(), copied) == []
    without_hpg = small_study().narrowed(methods=[BASELINE.method])
    assert [run.failure for run in run_study(without_hpg, copied, retry=True).of(HPG, DEFINITIVE)] == [
        run.failure for run in raised
    ]
    run_study(small_study(), copied, retry=True)
    assert numbers_in(copied)["evaluations"] == numbers_in(finished)["evaluations"]


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"seed": 1}, "seed 0, not 1"),
        ({"hidden_layers": [16, 16]}, "options.hidden_layers (16,), not (16, 16)"),
        ({"search": {**STAGE, "runs": 3}}, "search.runs 2, not 3"),
        ({"definitive": {**STAGE, "batches": 80}}, "definitive.batches 40, not 80"),
        ({"learning_rates": [1e-3]}, "choices.learning_rate (0.001, 0.01), not (0.001,)"),
        ({"search": {**STAGE, "strategy": "halving"}}, "strategy grid, not halving"),
        ({"episodes_end": "horizon"}, "episodes_end goal, not horizon"),
        ({"ended": "carry"}, "options.ended drop, not carry"),
    ],
)
def test_a_cell_with_results_keeps_its_settings(copied: Path, changes: dict[str, Any], difference: str) -> None:
    before = (copied / RESULTS).read_bytes()
    message = refusal(lambda: run_study(small_study(**changes), copied))
    assert message == f"'{copied}' already holds {HPG.name} with {difference}: choose another output folder."
    assert (copied / RESULTS).read_bytes() == before


def test_a_damaged_policy_is_replaced(copied: Path) -> None:
    plan = small_plan(definitive={**STAGE, "runs": 5})
    truncate(copied / POLICIES / f"{HPG.name}.npz")
    run_study(Study("small", (plan,)), copied)
    assert load_checkpoint(copied / POLICIES / f"{HPG.name}.npz")[1]["key"][2] == 4
