"""Runs of other folders come into a study's own, once each and only where they can be compared."""

import sqlite3
from pathlib import Path

import pytest
from small_results import refusal
from small_studies import copied, finished, numbers_in, results_in, shared_programs, small_study

from hindsight_rl.cli import main
from hindsight_rl.experiments.study.merge import merge_study
from hindsight_rl.experiments.study.run import held_study, run_study
from hindsight_rl.records.layout import choices_text
from hindsight_rl.records.results import RESULTS
from hindsight_rl.records.runs import DEFINITIVE

__all__ = ["copied", "finished", "shared_programs"]

pytestmark = pytest.mark.usefixtures("shared_programs")


def change(folder: Path, statement: str) -> None:
    with sqlite3.connect(folder / RESULTS) as connection:
        connection.execute(statement)


def test_slices_from_two_folders_make_the_whole_study(finished: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    study = held_study(finished)
    assert merge_study(whole, finished, study.narrowed(methods=["gcpg+b"])) == (20, 0, 1)
    assert merge_study(whole, finished, study.narrowed(methods=["hpg"])) == (8, 0, 1)
    assert numbers_in(whole) == numbers_in(finished)
    assert results_in(whole).facts == results_in(finished).facts
    before = (whole / RESULTS).read_bytes()
    run_study(small_study(), whole)  # finds nothing left to do
    assert len(results_in(whole).runs) == 28
    assert merge_study(whole, finished, study) == (0, 28, 0)
    assert len(before) == (whole / RESULTS).stat().st_size


def test_every_run_keeps_its_origin(copied: Path, tmp_path: Path) -> None:
    change(copied, """UPDATE origins SET content = '{"program": "another"}'""")
    ours = tmp_path / "ours"
    run_study(small_study(methods=["hpg"]), ours)
    merge_study(ours, copied, held_study(copied))
    results = results_in(ours)
    made = {run.cell.method: results.origins[run.origin] for run in results.runs}
    assert made["gcpg+b"] == {"program": "another"}
    assert made["hpg"] != made["gcpg+b"]


def test_what_a_half_finished_folder_offers_is_not_run_again(copied: Path, tmp_path: Path) -> None:
    change(copied, f"DELETE FROM runs WHERE stage = '{DEFINITIVE}' AND seed >= 2")
    ours = tmp_path / "ours"
    taken = merge_study(ours, copied, held_study(copied))
    assert taken.runs == 24
    run_study(small_study(), ours)
    assert len(results_in(ours).runs) == 28


def test_the_larger_number_of_definitive_runs_stays(finished: Path, tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    run_study(small_study(methods=["hpg"], definitive={**small_study_stage(), "runs": 5}), ours)
    merge_study(ours, finished, held_study(finished))
    (plan, _) = held_study(ours).plans
    assert (plan.method, plan.definitive.runs) == ("hpg", 5)


def small_study_stage() -> dict[str, int]:
    return {"batches": 40, "evaluate_every": 10, "evaluation_episodes": 32}


def test_other_settings_are_refused_and_nothing_is_taken(finished: Path, tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    run_study(small_study(methods=["hpg"], learning_rates=[1e-2]), ours)
    words = refusal(lambda: merge_study(ours, finished, held_study(finished)))
    assert "already holds bit-flipping-4-batch8-hpg with choices.learning_rate (0.01,), not (0.001, 0.01)" in words
    assert {run.cell.method for run in results_in(ours).runs} == {"hpg"}


def test_searches_that_chose_differently_are_not_mixed(copied: Path, finished: Path, tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    merge_study(ours, copied, held_study(copied))
    chosen = choices_text([("learning_rate", 0.5)])
    unverified = f"choices = '{chosen}', digest = ''"
    change(ours, f"UPDATE runs SET {unverified} WHERE stage = '{DEFINITIVE}' AND method = 'hpg'")
    words = refusal(lambda: merge_study(ours, finished, held_study(finished)))
    assert "chose different learning rates for bit-flipping-4-batch8-hpg" in words


def test_the_command_says_what_it_took(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours = tmp_path / "ours"
    main(["study", "merge", str(ours), str(finished), "--methods", "hpg"])
    assert f"{ours} took 8 runs (cells: 1) from {finished}.\n" == capsys.readouterr().out
    main(["study", "merge", str(ours), str(finished)])
    assert "took 20 runs (cells: 1)" in (out := capsys.readouterr().out)
    assert out.endswith("; 8 were there already.\n")


@pytest.mark.parametrize(("source", "words"), [("ours", "with itself"), ("nowhere", "holds no study")])
def test_mistakes_are_one_sentence(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, words: str
) -> None:
    main(["study", "merge", str(tmp_path / "ours"), str(finished)])
    with pytest.raises(SystemExit):
        main(["study", "merge", str(tmp_path / "ours"), str(tmp_path / source)])
    assert words in capsys.readouterr().err
