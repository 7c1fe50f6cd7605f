"""`hindsight diagnose` from end to end, on folders of any method."""

import json
from pathlib import Path
from typing import Any

import pytest
from reference.made_up_runs import SOUND, STUCK, ending_at, ramp, table
from small_jobs import small_job, truncate

from hindsight_rl.cli import main
from hindsight_rl.experiments.definition import SETTINGS
from hindsight_rl.records.evaluations import Evaluations
from hindsight_rl.records.files import write_json
from hindsight_rl.running.folder import draw
from hindsight_rl.training.state import Snapshot

STILL = {**STUCK, "moved": ramp(0, 0)}
USUAL = ("mean_return", "success_rate")


def folder_of(folder: Path, evaluations: Evaluations, method: str = "hppo") -> Path:
    """What `hindsight train` leaves, but for the checkpoint, which no diagnosis looks at."""
    folder.mkdir()
    write_json(folder / SETTINGS, small_job(method=method, runs=len(evaluations.seeds), batches=120).to_json())
    (folder / "evaluations.csv").write_text(evaluations.to_csv())
    return folder


def said(capsys: pytest.CaptureFixture[str], folder: Path, *flags: str) -> list[str]:
    main(["diagnose", str(folder), *flags])
    return capsys.readouterr().out.splitlines()


def test_sentences_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(tmp_path / "run", table(STILL, SOUND))
    lines = said(capsys, folder)
    assert lines[0] == "hppo on bit-flipping-4: 2 runs, 120 of 120 batches."
    assert lines[1].startswith("1 of 2 runs (0): The achieved goal hardly ever changes: run 0, moved 0 at batch 120")
    assert lines[2].startswith("1 of 2 runs (1): Nothing seems wrong")
    assert lines[3] == f"All metrics: {folder / 'metrics.png'}"
    assert len(lines) == 4
    assert (folder / "metrics.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = {name: STILL[name] for name in (*USUAL, "moved")}
    (line,) = said(capsys, folder_of(tmp_path / "run", table(run)), "--json")
    content = json.loads(line)
    assert (content["method"], content["batch"], content["runs"]) == ("hppo", 120, 1)
    assert [finding["rule"] for finding in content["findings"]] == ["never-moved"]
    assert content["figure"] == str(tmp_path / "run" / "metrics.png")


def test_failed_runs_have_the_cause_that_training_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = {name: STUCK[name] for name in USUAL}
    folder = folder_of(tmp_path / "run", table(ending_at(run, 5), ending_at(run, 7)))
    failure: dict[str, Any] = {"run": 0, "seed": 0, "batch": 41, "cause": "a parameter is not finite"}
    write_json(folder / "summary.json", {"failed_runs": [failure, {**failure, "run": 1, "batch": 66}]})
    assert said(capsys, folder)[1].startswith(
        "2 of 2 runs: The run failed: run 0, in batch 41 a parameter is not finite"
    )


def test_a_method_without_metrics_is_told_what_cannot_be_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(tmp_path / "run", table({name: SOUND[name] for name in USUAL}), "hpg")
    lines = said(capsys, folder)
    assert lines[0] == "hpg on bit-flipping-4: 1 run, 120 of 120 batches."
    assert lines[1].startswith("Nothing seems wrong")
    assert lines[2].startswith("It cannot be told whether steps are too large")
    assert len(lines) == 3
    assert not (folder / "metrics.png").exists()


def test_training_leaves_the_picture_where_the_method_reports_metrics(tmp_path: Path) -> None:
    """Where it reports none, no file is left: tests/cli/test_train_command.py."""
    run = {name: SOUND[name] for name in (*USUAL, "entropy")}
    draw(small_job(method="hppo"), Snapshot([], table(run)), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"learning-curve.png", "metrics.png"}


def test_bad_input_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(folder: Path) -> str:
        with pytest.raises(SystemExit) as stop:
            main(["diagnose", str(folder)])
        assert stop.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    assert "holds no run" in refused(tmp_path)
    folder = folder_of(tmp_path / "run", table(SOUND))
    truncate(folder / "evaluations.csv")
    assert "evaluations.csv is damaged" in refused(folder)
    (folder / "evaluations.csv").unlink()
    assert "has no evaluations.csv yet" in refused(folder)
    (folder / "evaluations.csv").write_text(table(SOUND).to_csv())
    write_json(folder / "summary.json", [3])
    assert "summary.json' is not a summary" in refused(folder)
