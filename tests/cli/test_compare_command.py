"""`hindsight compare` and `hindsight runs`: what they print, and what they refuse."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.run_folders import made_up_evaluations, made_up_run, made_up_study
from reference.studies import synthetic_study
from small_jobs import claimed_by_another_process

from hindsight_rl.analysis.comparisons import probability_of_improvement
from hindsight_rl.cli import main
from hindsight_rl.experiments import definition, job
from hindsight_rl.records import run_folders, tidy
from hindsight_rl.records.tidy_files import read_tidy

STUDY = synthetic_study(("four-rooms",), ("hpg", "gcpg"), (2,), runs=4)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of different lengths, one that failed, and a study with its exports."""
    ended = {"episodes": 800, "updates_per_second": 50.0, "failed_runs": []}
    made_up_run(tmp_path / "runs" / "long", made_up_evaluations(), summary=ended)
    made_up_run(tmp_path / "runs" / "short", made_up_evaluations(60, level=3.0), method="gcpg", batches=200, clip=0.2)
    lost = made_up_evaluations()
    metrics = {name: np.where(lost.batches >= 50, np.nan, values) for name, values in lost.metrics.items()}
    made_up_run(tmp_path / "lost", replace(lost, metrics=metrics))
    made_up_study(tmp_path / "study", STUDY)
    (tmp_path / "table.csv").write_bytes(tidy.to_csv(STUDY))
    (tmp_path / "table.parquet").write_bytes(tidy.to_parquet(STUDY))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    main([*arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def test_names_of_files_are_those_that_training_writes() -> None:
    assert (run_folders.SETTINGS, run_folders.EVALUATIONS) == (definition.SETTINGS, job.EVALUATIONS)


def test_runs_are_compared_over_what_both_have(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "compare", "runs/long", "runs/short")
    long, short = found["entries"]
    returns = made_up_evaluations().mean_returns[:, :7].mean(axis=1)  # up to batch 60, where the other ends
    shorter = made_up_evaluations(60, level=3.0).mean_returns.mean(axis=1)
    assert long["compared_up_to"] == short["compared_up_to"] == 480
    assert long["mean"] == pytest.approx(returns.mean())
    probability, (low, high) = long["probabilities"]["short"]
    assert probability == probability_of_improvement(returns, shorter) == 1
    assert low <= probability <= high
    assert long["interval"][0] < long["interquartile_mean"] < long["interval"][1]
    assert found["differing_settings"] == {
        "method": {"long": "hpg", "short": "gcpg"},
        "batches": {"long": 100, "short": 200},
        "clip": {"long": None, "short": 0.2},
    }
    assert (folder / found["figure"]).read_bytes().startswith(b"\x89PNG")


def test_tables_say_what_their_study_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("table.csv", "table.parquet"):
        found = told(capsys, "compare", "study", name, "--methods", "hpg")
        study, table = found["entries"]
        assert (study["name"], table["name"]) == ("study: hpg, batch 2", "table: hpg, batch 2")
        same = ("finished", "mean", "std", "interquartile_mean", "interval", "final_return", "final_success_rate")
        assert {key: study[key] for key in same} == {key: table[key] for key in same}
        assert table["probabilities"]["study: hpg, batch 2"][0] == 0.5
        assert found["differing_settings"] == {}
        assert [run.key for run in read_tidy(Path(name))] == [run.key for run in STUDY.runs]


def test_steps_and_a_figure_of_ones_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "compare", "runs/long", "lost", "--over", "steps", "--output", "own.svg")
    assert found["entries"][0]["compared_up_to"] == 4000
    assert found["entries"][1]["finished"] == 0
    assert found["entries"][1]["mean"] is None
    assert b"<svg" in (folder / "own.svg").read_bytes()


def test_people_see_a_table_and_settings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        main(["compare", "runs/long", "runs/short"])
    text = capsys.readouterr().out
    assert "Compared up to 480 episodes, where the shortest ends." in text
    assert "Settings that differ" in text
    assert "\nOnly short: clip 0.2\n" in text
    assert "clip: " not in text
    assert "Figure: comparison-2.png" in text  # the first is not overwritten


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["runs/long"], "There is nothing to compare: 1 of two or more are left."),
        (["runs", "study"], "'runs' holds neither a run nor a study; `hindsight runs runs` looks below it."),
        (["runs/long", "nowhere"], "There is no folder or file 'nowhere'."),
        (["runs/long", "runs/short", "--output", "x.jpg"], "'x.jpg' must end in .png, .svg or .pdf"),
        (["runs/long", "runs/short", "--methods", "hpgg"], "Did you mean 'hpg'?"),
        (["runs/long", "runs/short", "--over", "seconds"], "Nobody knows how long 'short' took"),
        (["runs/long", "study", "--over", "seconds"], "are measured differently"),
        (["table.csv", "study", "--over", "steps"], "did not record its simulator steps"),
        (["runs/long/evaluations.csv", "study"], "is the table of a run folder: give that folder instead."),
        (["cut.csv", "study"], "'cut.csv' is not a table that `hindsight study export` wrote"),
        (["cut.parquet", "study"], "'cut.parquet' is not a table that `hindsight study export` wrote"),
    ],
)
def test_mistakes_end_in_a_sentence(
    arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "cut.csv").write_bytes((folder / "table.csv").read_bytes()[:-30])
    (folder / "cut.parquet").write_bytes((folder / "table.parquet").read_bytes()[:-30])
    with pytest.raises(SystemExit) as stop:
        main(["compare", *arguments])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("hindsight: ")
    assert error.count("\n") == 1
    assert said in error
    assert not list(folder.glob("comparison*"))


def test_list_of_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "broken").mkdir()
    (folder / "broken" / "settings.json").write_text("{")
    (folder / "link").symlink_to(folder / "runs")
    with claimed_by_another_process(folder / "runs" / "short"):
        found = {item["name"]: item for item in told(capsys, "runs")}
    states = {name: item["state"] for name, item in found.items()}
    assert states == {
        "broken": "damaged",
        "lost": "failed",
        "runs/long": "finished",
        "runs/short": "running",
        "study": "finished",
    }
    assert found["runs/short"]["left"] == "140 of 200 batches"
    assert found["runs/long"]["last_return"] == pytest.approx(made_up_evaluations().final_return.mean())
    assert [item["name"] for item in told(capsys, "runs", "--sort", "name", "--filter", "method=hpg", "four")] == [
        "lost",
        "runs/long",
        "study",
    ]
    assert next(item["name"] for item in told(capsys, "runs", "--sort", "return")) == "runs/long"
    main(["runs", "--filter", "state=damaged"])
    assert "broken: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "There is no folder 'nowhere'."),
        (["--filter", "state=runing"], "Did you mean 'running'?"),
        (["--filter", "colour=red"], "There is no field 'colour' to filter by."),
        (["--sort", "colour"], "--sort"),
    ],
)
def test_mistakes_in_a_list(arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["runs", *arguments])
    assert stop.value.code == 2
    assert said in capsys.readouterr().err
