"""Running a study: what its folder holds, and the same numbers however it is run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_jobs import ENVIRONMENT, claimed_by_another_process, small_job, small_settings, train_to_the_end
from small_results import refusal
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
    small_study,
    ticks_of,
)

from hindsight_rl.environments.registry import make
from hindsight_rl.experiments.job import run_job
from hindsight_rl.experiments.study import worker as study_worker
from hindsight_rl.experiments.study.ledger import performances
from hindsight_rl.experiments.study.merge import merge_study
from hindsight_rl.experiments.study.policies import POLICIES, kept_policy
from hindsight_rl.experiments.study.protocol import Piece, Round, ranked
from hindsight_rl.experiments.study.run import held_study, run_study
from hindsight_rl.experiments.study.worker import UNFINISHED, Observer
from hindsight_rl.records.checkpoints import load_checkpoint
from hindsight_rl.records.files import require_ours
from hindsight_rl.records.results import RESULTS
from hindsight_rl.records.runs import DEFINITIVE, Cell, FinishedRun
from hindsight_rl.records.versions import versions
from hindsight_rl.training.loop import training
from hindsight_rl.training.numerics import numerics
from hindsight_rl.training.state import state_to_arrays

__all__ = ["copied", "finished", "shared_programs"]

pytestmark = pytest.mark.usefixtures("shared_programs")

HPG, BASELINE = Cell(ENVIRONMENT, 8, "hpg"), Cell(ENVIRONMENT, 8, "gcpg+b")


def test_a_finished_study_holds_the_runs_of_every_stage(finished: Path) -> None:
    assert sorted(path.name for path in finished.iterdir()) == [POLICIES, RESULTS]
    results = results_in(finished)
    counts = {
        (cell.method, stage): len(results.of(cell, stage))
        for cell in (HPG, BASELINE)
        for stage in dict.fromkeys(run.key.stage for run in results.of(cell))
    }
    assert counts == {
        ("hpg", "search"): 4,
        ("hpg", DEFINITIVE): 4,
        ("gcpg+b", "search 1"): 12,
        ("gcpg+b", "search 2"): 4,
        ("gcpg+b", DEFINITIVE): 4,
    }
    assert len(results.runs) == 28
    assert results.facts["name"] == "small"
    assert held_study(finished) == small_study()


def test_the_search_decides_the_definitive_rates(finished: Path) -> None:
    results, plan = results_in(finished), small_study().plans[0]
    search = Round("search", tuple(plan.grid), plan.search, 1_000_000)
    best = ranked(search, performances(results, HPG))[0]
    assert {run.key.choices for run in results.of(HPG, DEFINITIVE)} == {best}
    assert [run.key.seed for run in results.of(HPG, DEFINITIVE)] == [0, 1, 2, 3]
    assert {run.key.seed for run in results.of(BASELINE, "search 2")} == {2_000_000, 2_000_001}


def test_runs_are_those_of_plain_training(finished: Path) -> None:
    runs = results_in(finished).of(HPG, DEFINITIVE)
    settings = small_settings(**dict(runs[0].key.choices), runs=4)
    evaluations = train_to_the_end(make(ENVIRONMENT), settings).evaluations
    for number, run in enumerate(runs):
        assert list(run.metrics) == list(evaluations.metrics) == ["mean_return", "success_rate", "steps"]
        for name, values in run.metrics.items():
            np.testing.assert_array_equal(values, evaluations.metrics[name][number])
        np.testing.assert_array_equal(run.batches, evaluations.batches)
        np.testing.assert_array_equal(run.episodes, 8 * evaluations.batches)


def test_every_run_says_what_made_it(finished: Path) -> None:
    results = results_in(finished)
    for run in results.runs:
        batches = 20 if run.key.stage == "search 1" else 40
        expected = ("learning_rate", "baseline_learning_rate")[: 2 if run.cell == BASELINE else 1]
        assert tuple(name for name, _ in run.key.choices) == expected
        rates = dict(run.key.choices)
        plain = small_settings(method=run.cell.method, batches=batches, seed=run.key.seed, **rates)
        assert run.settings == {**plain.flat, "hidden_layers": [16]}
        assert results.origins[run.origin] == {**versions(), **numerics()}
        assert run.seconds > 0
        assert run.failure is None


def test_ratios_are_recorded_for_the_definitive_runs_of_methods_that_have_them(finished: Path) -> None:
    for run in results_in(finished).runs:
        expected = {"ratios"} if run.cell == HPG and run.key.stage == DEFINITIVE else set()
        assert set(run.records) == expected
        for counts in run.records.values():
            assert counts.shape == (4, 32)
            assert counts.sum() > 0


def test_the_best_definitive_policy_is_kept(finished: Path) -> None:
    results = results_in(finished)
    for plan in small_study().plans:
        best = max(results.of(plan.cell, DEFINITIVE), key=lambda run: run.average_performance)
        _, metadata = load_checkpoint(finished / POLICIES / f"{ENVIRONMENT}-batch8-{plan.method}.npz")
        key = [best.key.stage, [list(choice) for choice in best.key.choices], best.key.seed]
        cell = [ENVIRONMENT, 8, plan.method]
        assert metadata == {"cell": cell, "key": key, "average_performance": best.average_performance}
        policy = kept_policy(finished, plan)
        assert policy is not None
        assert int(policy.act(np.zeros(4, np.float32), np.ones(4, np.float32))) in range(4)


def test_the_policy_is_that_of_its_run(finished: Path) -> None:
    """Trained again alone, the best run has the very same parameters."""
    results = results_in(finished)
    best = max(results.of(HPG, DEFINITIVE), key=lambda run: run.average_performance)
    settings = small_settings(**dict(best.key.choices), seed=best.key.seed)
    expected = state_to_arrays(train_to_the_end(make(ENVIRONMENT), settings).states)
    arrays, _ = load_checkpoint(finished / POLICIES / f"{HPG.name}.npz")
    assert {name: array.tobytes() for name, array in arrays.items()} == {
        name: np.asarray(array).tobytes() for name, array in expected.items()
    }


def test_a_finished_study_runs_nothing_more(copied: Path) -> None:
    before = by_key(results_in(copied))
    assert ticks_of(small_study(), copied) == []
    after = by_key(results_in(copied))
    assert {key: run.seconds for key, run in after.items()} == {key: run.seconds for key, run in before.items()}


def test_slices_in_another_order_give_the_same_numbers(finished: Path, tmp_path: Path) -> None:
    study = small_study()
    run_study(study.narrowed(methods=["gcpg+b"], runs=1), tmp_path)
    run_study(replace(study, plans=study.plans[::-1]), tmp_path)
    assert numbers_in(tmp_path) == numbers_in(finished)


def test_interrupted_in_every_stage_it_goes_on_to_the_same_numbers(finished: Path, tmp_path: Path) -> None:
    for stage, batch in (("search", 0), ("search", 20), (DEFINITIVE, 40), ("search 1", 0), ("search 2", 30)):
        interrupt(small_study(), tmp_path, interrupting(batch, stage))
    interrupt(small_study(), tmp_path, Observer(finish=finish_by_interrupting))
    run_study(small_study(), tmp_path)
    assert numbers_in(tmp_path) == numbers_in(finished)


def finish_by_interrupting(piece: Piece, runs: list[FinishedRun]) -> None:
    raise KeyboardInterrupt


def test_observers_hear_of_every_piece(tmp_path: Path) -> None:
    heard: list[str] = []
    observer = Observer(
        begin=lambda piece: heard.append(f"begin {piece.name}"),
        tick=lambda piece, batch: heard.append(f"{batch}") if batch % 10 == 0 else None,
        finish=lambda piece, runs: heard.append(f"finish {len(runs)}"),
    )
    run_study(only_hpg(), tmp_path, observer)
    assert heard == [f"begin {HPG.name}, {DEFINITIVE}", "0", "10", "20", "30", "40", "finish 4"]


def test_an_unfinished_piece_goes_on_where_it_was(tmp_path: Path) -> None:
    interrupt(only_hpg(), tmp_path, interrupting(21))
    assert load_checkpoint(tmp_path / UNFINISHED)[1]["seconds"] > 0
    assert min(ticks_of(only_hpg(), tmp_path)) > 20
    assert not (tmp_path / UNFINISHED).exists()
    run_study(only_hpg(), tmp_path / "at once")
    assert numbers_in(tmp_path) == numbers_in(tmp_path / "at once")


def test_killed_between_its_end_and_the_results_a_piece_is_only_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(piece: Piece, *rest: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(study_worker, "_finished", interrupted)
        interrupt(only_hpg(), tmp_path, Observer())
    assert results_in(tmp_path).runs == []
    assert ticks_of(only_hpg(), tmp_path) == []
    assert len(results_in(tmp_path).runs) == 4


def test_more_runs_only_add(copied: Path, tmp_path: Path) -> None:
    before = by_key(results_in(copied))
    larger = small_study(definitive={**STAGE, "runs": 6})
    run_study(larger, copied)
    after = by_key(results_in(copied))
    assert len(after) == len(before) + 4
    assert {key: after[key].seconds for key in before} == {key: run.seconds for key, run in before.items()}
    assert held_study(copied) == larger
    run_study(larger, tmp_path / "at once")
    assert numbers_in(copied) == numbers_in(tmp_path / "at once")
    run_study(small_study(), copied)
    assert len(results_in(copied).runs) == len(after)


def test_other_cells_may_join(tmp_path: Path) -> None:
    other = only_hpg(methods=["gcpg+b"], baseline_learning_rates=[1e-2], seed=7)
    run_study(only_hpg(), tmp_path)
    run_study(other, tmp_path)
    assert [(run.cell, run.key.seed) for run in results_in(tmp_path).runs] == [
        (cell, seed) for cell, seeds in ((BASELINE, range(7, 11)), (HPG, range(4))) for seed in seeds
    ]
    assert held_study(tmp_path).plans == (*only_hpg().plans, *other.plans)


def test_a_second_writer_is_refused(copied: Path) -> None:
    before = (copied / RESULTS).read_bytes()
    with claimed_by_another_process(copied):
        assert refusal(lambda: run_study(small_study(), copied)) == f"Another process is writing to '{copied}'."
    assert (copied / RESULTS).read_bytes() == before


def test_what_a_killed_writer_left_is_removed(copied: Path) -> None:
    for leftover in (copied / ".hindsight-0123.tmp", copied / POLICIES / ".hindsight-4567.tmp"):
        leftover.write_bytes(b"half")
    (copied / ".notes.tmp").write_text("mine")
    (copied / ".hindsight-mine.tmp").mkdir()
    run_study(small_study(), copied)
    assert sorted(path.name for path in copied.rglob("*.tmp")) == [".hindsight-mine.tmp", ".notes.tmp"]


def test_the_folder_of_somebody_else_is_refused(finished: Path, tmp_path: Path) -> None:
    (tmp_path / ".hindsight-0123.tmp").write_bytes(b"left by a kill before there was anything else")
    require_ours(tmp_path, RESULTS)
    (tmp_path / "summary.json").write_text("mine")
    for call in (
        lambda: run_study(small_study(), tmp_path),
        lambda: merge_study(tmp_path, finished, small_study()),
        lambda: run_job(small_job(), tmp_path),
    ):
        assert "is not empty, and what it holds is not ours" in refusal(call)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hindsight-0123.tmp", "summary.json"]


def test_places_that_hold_no_study(tmp_path: Path) -> None:
    assert refusal(lambda: held_study(tmp_path)) == f"'{tmp_path}' holds no study: it has no {RESULTS}."
    (tmp_path / "file").write_text("")
    message = refusal(lambda: run_study(small_study(), tmp_path / "file"))
    assert message == f"The output folder '{tmp_path / 'file'}' cannot be used: File exists."


def test_an_oddity_is_told_once_though_every_piece_meets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []

    def odd(*arguments: Any) -> Any:
        arguments[-2]("Odd, but harmless.")
        return training(*arguments)

    monkeypatch.setattr(study_worker, "training", odd)
    pieces: list[Piece] = []
    run_study(small_study(methods=["hpg"]), tmp_path, Observer(begin=pieces.append, notice=heard.append))
    assert len(pieces) == 2
    assert heard == ["Odd, but harmless."]
