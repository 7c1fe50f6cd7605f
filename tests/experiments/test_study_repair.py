"""Runs, plans and policies of a study that are not what was written: named, left out, and made again when asked."""

import sqlite3
from functools import partial
from pathlib import Path

import jax
import pytest
from small_jobs import sentence, truncate
from small_results import refusal
from small_studies import copied, definition, finished, numbers_in, results_in, shared_programs, small_study

import hindsight_rl
from hindsight_rl.cli import main
from hindsight_rl.experiments.study.merge import merge_study
from hindsight_rl.experiments.study.policies import POLICIES
from hindsight_rl.experiments.study.run import held_study, run_study
from hindsight_rl.experiments.study.worker import Observer
from hindsight_rl.experiments.verification import verify
from hindsight_rl.records.results import RESULTS

__all__ = ["copied", "definition", "finished", "shared_programs"]

pytestmark = pytest.mark.usefixtures("shared_programs")

CHANGE_RUNS = (
    "UPDATE evaluations SET mean_return = mean_return + 1 WHERE run IN"
    " (SELECT number FROM runs WHERE method = 'hpg' AND seed IN (2, 1000001))"
)
NAMES = "bit-flipping-4-batch8-hpg, search, seed 1000001; bit-flipping-4-batch8-hpg, search, seed 1000001; "
NAMES += "bit-flipping-4-batch8-hpg, definitive, seed 2"


def change(folder: Path, statement: str) -> None:
    with sqlite3.connect(folder / RESULTS) as connection:
        assert connection.execute(statement).rowcount > 0
    connection.close()


def test_damaged_runs_stop_a_study_until_they_are_run_again(finished: Path, copied: Path, tmp_path: Path) -> None:
    change(copied, CHANGE_RUNS)
    damage = f"'{copied / RESULTS}' is damaged: not what was written are {NAMES}."
    for call in (
        lambda: run_study(small_study(), copied),
        lambda: merge_study(copied, finished, small_study()),
    ):
        assert refusal(call) == f"{damage} To run them again: hindsight study run, with --repair."
    assert len(results_in(copied).runs) == 28 - 3
    run_study(small_study(), copied, repair=True)
    assert numbers_in(copied) == numbers_in(finished)


def test_damaged_and_missing_policies_are_made_again(finished: Path, copied: Path) -> None:
    damaged, missing = sorted((copied / POLICIES).iterdir())
    truncate(damaged)
    missing.unlink()
    notices: list[str] = []
    run_study(small_study(), copied, Observer(notice=notices.append))
    assert notices == [f"'{damaged}' is damaged; --repair makes it again."]
    run_study(small_study(), copied, Observer(notice=notices.append), repair=True)
    assert sorted(notices[1:]) == [
        f"'{path}' was missing or damaged, and is made again." for path in (damaged, missing)
    ]
    assert numbers_in(copied) == numbers_in(finished)


def test_policies_of_other_cells_are_named_and_made_again(finished: Path, copied: Path) -> None:
    """Each of them is whole: two files only changed places."""
    first, second = sorted((copied / POLICIES).iterdir())
    first.rename(copied / "aside")
    second.rename(first)
    (copied / "aside").rename(second)
    for path in (first, second):
        assert f"'{path}' holds a policy of another cell: " in refusal(partial(hindsight_rl.load, path))
    assert [verdict.path for verdict in verify(copied) if not verdict.sound] == [first, second]
    run_study(small_study(), copied, Observer(notice=lambda sentence: None), repair=True)
    assert numbers_in(copied) == numbers_in(finished)


def test_a_damaged_plan_is_written_again_from_the_study(finished: Path, copied: Path) -> None:
    change(copied, "UPDATE cells SET plan = '{}' WHERE method = 'hpg'")
    said = "the plan of bit-flipping-4-batch8-hpg. To write plans again: hindsight study run with the study's TOML file"
    assert said in refusal(lambda: held_study(copied))
    run_study(small_study(), copied, repair=True)
    assert held_study(copied) == held_study(finished)


def test_a_study_does_not_go_on_under_settings_of_jax_that_give_other_numbers(copied: Path) -> None:
    with jax.threefry_partitionable(False):
        said = refusal(lambda: run_study(small_study(), copied))
    assert said.startswith(f"What is in '{copied}' was made with jax_threefry_partitionable = True")


def test_on_the_command_line(
    finished: Path, copied: Path, definition: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(copied, CHANGE_RUNS)
    main(["study", "export", str(copied)])
    shown = capsys.readouterr()
    assert f"is damaged: not what was written are {NAMES}. They are left out." in shown.err
    assert shown.out.endswith("evaluations.csv has the evaluations of 25 runs.\n")
    with pytest.raises(SystemExit) as stop:
        main(["study", "run", str(copied)])
    assert stop.value.code == 2
    assert "--repair" in sentence(capsys.readouterr().err)
    main(["study", "run", str(copied), "--repair"])
    assert numbers_in(copied) == numbers_in(finished)
