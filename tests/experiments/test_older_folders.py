"""Folders that the program made before its settings became one tree load, go on, and give the very same numbers."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from golden_runs import machine
from small_jobs import bytes_in, run_program, sentence
from small_results import refusal
from small_studies import results_in

from hindsight_rl.experiments.definition import Job, load_job
from hindsight_rl.experiments.job import load_policies, run_job
from hindsight_rl.experiments.study.files import load_study
from hindsight_rl.experiments.study.policies import kept_policy
from hindsight_rl.experiments.study.run import held_study, run_study
from hindsight_rl.records.evaluations import read_evaluations
from hindsight_rl.records.results import RESULTS
from hindsight_rl.training.state import state_to_arrays

MADE_BEFORE = Path(__file__).parents[1] / "golden" / "format1"
TRAIN_HPG = [
    *("train", "bit-flipping-4", "--method", "hpg+b", "--batch-size", "4", "--evaluate-every", "5"),
    *("--evaluation-episodes", "16", "--learning-rate", "0.01", "--baseline-learning-rate", "0.001", "--runs", "2"),
    *("--hidden-layers", "8"),
]
"""As the folder was trained, but for the number of batches and for when episodes end."""

SAME_KIND = machine() == json.loads((MADE_BEFORE.parent / "runs.json").read_text())["machine"]
"""Numbers are equal to the last bit on the kind of machine that made the folders."""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """Copies of the folders, which a test may change."""
    return Path(shutil.copytree(MADE_BEFORE, tmp_path / "older"))


def rows_in(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def assert_same_values(found: list[dict[str, str]], expected: list[dict[str, str]]) -> None:
    """Column by column, in whatever order the rows are; there may be other columns too."""
    keys = [name for name in expected[0] if name not in ("mean_return", "success_rate")]

    def keyed(rows: list[dict[str, str]]) -> dict[tuple[str, ...], dict[str, str]]:
        return {tuple(row[name] for name in keys): row for row in rows}

    ours, theirs = keyed(found), keyed(expected)
    assert len(ours) == len(found)
    assert ours.keys() == theirs.keys()
    for key, row in theirs.items():
        for name in ("mean_return", "success_rate"):
            if SAME_KIND:
                assert ours[key][name] == row[name], (key, name)
            else:
                assert float(ours[key][name]) == pytest.approx(float(row[name]), abs=1e-6)


def longer(job: Job, batches: int) -> Job:
    return replace(job, settings=replace(job.settings, batches=batches))


def test_settings_of_the_first_format_are_read(older: Path) -> None:
    hpg, her = load_job(older / "run-hpg+b"), load_job(older / "run-dqn+her")
    assert hpg.environment.id == her.environment.id == "bit-flipping-4"
    assert hpg.settings.episodes_end == "horizon"
    assert her.settings.episodes_end == "goal"
    held = json.loads((older / "run-hpg+b" / "settings.json").read_text())["settings"]
    newer = {"method", "episodes_end", "normaliser_floor", "play_ahead"}
    assert hpg.settings.flat.keys() - held.keys() == newer - held.keys()
    assert not hpg.settings.play_ahead
    assert hpg.settings.options.normaliser_floor == 0, "what there was no option for was not done"
    for name, value in hpg.settings.flat.items():
        if name not in ("episodes_end", "normaliser_floor", "play_ahead"):
            assert held[name] == (list(value) if isinstance(value, tuple) else value), name
    assert {name: her.settings.flat[name] for name in ("relabelling", "replay_capacity", "gradient_steps")} == {
        "relabelling": "future",
        "replay_capacity": 200,
        "gradient_steps": 3,
    }


def test_evaluations_of_the_first_format_are_read(older: Path) -> None:
    table = read_evaluations(older / "run-hpg+b" / "evaluations.csv")
    _, snapshot, _ = load_policies(older / "run-hpg+b")
    assert snapshot.batch == 10
    assert list(table.metrics) == list(snapshot.evaluations.metrics) == ["mean_return", "success_rate"]
    for name, values in table.metrics.items():
        np.testing.assert_array_equal(values, snapshot.evaluations.metrics[name])
    assert {name: rates.tolist() for name, rates in table.rates.items()} == {
        "learning_rate": [0.01, 0.01],
        "baseline_learning_rate": [0.001, 0.001],
    }


def test_a_finished_run_has_nothing_left_to_do(compiled_programs: Path, older: Path) -> None:
    """Its settings are written anew, in today's format; what was learned stays as it is."""
    folder = older / "run-hpg+b"
    before = bytes_in(folder)
    assert run_job(load_job(folder), folder, resume=True).batch == 10
    after = bytes_in(folder)
    for name in ("checkpoint.npz", "evaluations.csv", "summary.json"):
        assert after[name] == before[name]
    assert json.loads(after["settings.json"])["format"] == 2
    assert load_job(folder) == load_job(MADE_BEFORE / "run-hpg+b")


def test_a_run_goes_on_to_the_same_numbers(compiled_programs: Path, older: Path) -> None:
    folder = older / "run-hpg+b"
    snapshot = run_job(longer(load_job(folder), 20), folder, resume=True)
    assert_same_values(rows_in(folder / "evaluations.csv"), rows_in(older / "run-hpg+b-after-20-batches.csv"))
    # Nobody counted the actions of the first batches, so nobody knows their number now.
    assert np.isnan(snapshot.evaluations.metrics["steps"]).all()
    assert load_policies(folder)[1].batch == 20


def test_a_replay_buffer_is_that_of_a_run_made_today(compiled_programs: Path, older: Path, tmp_path: Path) -> None:
    """The folder's run has come to its end; trained anew, it comes to the same network, buffer and evaluations."""
    folder = older / "run-dqn+her"
    before = bytes_in(folder)
    held = run_job(load_job(folder), folder, resume=True)
    assert {name: bytes_in(folder)[name] for name in ("checkpoint.npz", "evaluations.csv")} == {
        name: before[name] for name in ("checkpoint.npz", "evaluations.csv")
    }
    made = run_job(load_job(folder), tmp_path / "today")
    assert_same_values(
        [{**row, "baseline_learning_rate": "0.001"} for row in rows_in(tmp_path / "today" / "evaluations.csv")],
        rows_in(folder / "evaluations.csv"),
    )
    ours, theirs = state_to_arrays(held.states), state_to_arrays(made.states)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        if SAME_KIND:
            np.testing.assert_array_equal(array, theirs[name])
        else:
            np.testing.assert_allclose(array, theirs[name], rtol=1e-4, atol=1e-6)


def test_a_replay_buffer_made_for_fewer_episodes_grows(compiled_programs: Path, older: Path, tmp_path: Path) -> None:
    """A buffer has room for the episodes of its run: a longer run goes on as if it had been that long at once."""
    folder = older / "run-dqn+her"
    job = longer(load_job(folder), 20)
    run_job(job, folder, resume=True)
    run_job(job, tmp_path / "at once")
    went_on, at_once = (rows_in(path / "evaluations.csv") for path in (folder, tmp_path / "at once"))
    assert [row["batch"] for row in went_on] == [row["batch"] for row in at_once]
    for one, other in zip(went_on, at_once, strict=True):
        for name in ("mean_return", "success_rate"):
            assert float(one[name]) == pytest.approx(float(other[name]), abs=0 if SAME_KIND else 1e-6)


def test_other_settings_are_still_refused(older: Path) -> None:
    folder = older / "run-hpg+b"
    job = load_job(folder)
    other = replace(job, settings=replace(job.settings, episodes_end="goal"))
    assert refusal(lambda: run_job(other, folder, resume=True)) == (
        f"'{folder}' already holds a different run (episodes_end horizon, not goal): choose another output folder."
    )


@pytest.mark.parametrize("end", [["--episodes-end", "horizon"], ["--horizon", "full"], []])
def test_the_same_command_goes_on_with_it(compiled_programs: Path, older: Path, end: list[str]) -> None:
    folder = older / "run-hpg+b"
    ran = run_program([*TRAIN_HPG, *end, "--batches", "20", "--output", str(folder), "--resume"], compiled_programs)
    assert ran.returncode == 0, ran.stderr
    assert_same_values(rows_in(folder / "evaluations.csv"), rows_in(older / "run-hpg+b-after-20-batches.csv"))


def test_the_command_with_other_settings_says_how_they_differ(compiled_programs: Path, older: Path) -> None:
    folder = older / "run-hpg+b"
    flags = ["--episodes-end", "goal", "--batches", "20", "--output", str(folder), "--resume"]
    ran = run_program([*TRAIN_HPG, *flags], compiled_programs)
    assert ran.returncode == 2
    assert "a different run (episodes_end horizon, not goal)" in sentence(ran.stderr)


def test_policies_are_evaluated_as_before(compiled_programs: Path, older: Path) -> None:
    ran = run_program(["evaluate", str(older / "run-hpg+b"), "--json"], compiled_programs)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    expected = json.loads((older / "run-hpg+b-evaluated.json").read_text())
    if SAME_KIND:
        assert found == expected
    for ours, theirs in zip(found["runs"], expected["runs"], strict=True):
        assert ours == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("name", ["run-hpg+b", "run-dqn+her"])
def test_episodes_are_rendered(compiled_programs: Path, older: Path, name: str) -> None:
    for run, policy in enumerate(load_policies(older / name)[2]):
        assert int(policy.act(np.zeros(4), np.ones(4), 0)) in range(4), run
    ran = run_program(["render", str(older / name)], compiled_programs)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip()


def test_the_study_is_read_as_it_was_meant(older: Path) -> None:
    study, asked = held_study(older / "study"), load_study(str(older / "study.toml"))
    assert [plan.method for plan in asked.plans] == ["hpg", "gcpg+b"]
    assert study.plans == asked.plans[:1]  # the other one has not begun
    assert {plan.episodes_end for plan in asked.plans} == {"horizon"}
    assert {run.cell.method for run in results_in(older / "study").runs} == {"hpg"}


def test_looking_at_a_study_changes_nothing(older: Path) -> None:
    before = (older / "study" / RESULTS).read_bytes()
    held_study(older / "study")
    results_in(older / "study")
    assert (older / "study" / RESULTS).read_bytes() == before


@pytest.mark.parametrize("by_command", [False, True])
def test_the_study_goes_on_to_the_same_table(compiled_programs: Path, older: Path, by_command: bool) -> None:
    folder, definition = older / "study", str(older / "study.toml")
    before = {run.key: run.seconds for run in results_in(folder).runs}
    if by_command:
        ran = run_program(["study", "run", definition, "--output", str(folder)], compiled_programs)
        assert ran.returncode == 0, ran.stderr
    else:
        run_study(load_study(definition), folder)
    after = {run.key: run.seconds for run in results_in(folder).runs if run.cell.method == "hpg"}
    assert after == before
    exported = run_program(["study", "export", str(folder)], compiled_programs)
    assert exported.returncode == 0, exported.stderr
    assert_same_values(rows_in(folder / "evaluations.csv"), rows_in(older / "study-when-whole.csv"))
    for plan in held_study(folder).plans:
        policy = kept_policy(folder, plan)
        assert policy is not None
        assert int(policy.act(np.zeros(3), np.ones(3))) in range(3)
    reported = run_program(["study", "report", str(folder)], compiled_programs)
    assert reported.returncode == 0, reported.stderr
    assert "gcpg+b" in (folder / "report" / "report.html").read_text()


def test_the_unfinished_study_has_a_report(compiled_programs: Path, older: Path) -> None:
    ran = run_program(["study", "report", str(older / "study")], compiled_programs)
    assert ran.returncode == 0, ran.stderr
    page = (older / "study" / "report" / "report.html").read_text()
    assert "bit-flipping-3" in page
    assert "hpg" in page
