"""`hindsight gradients` from end to end."""

import csv
import json
from pathlib import Path

import pytest

from hindsight_rl.cli import main
from hindsight_rl.estimators.dials import LADDER
from hindsight_rl.experiments.gradients import Measurement, Setup

SMALL = ["--samples", "4", "--batch-sizes", "2", "--hidden-layers", "4", "--episodes-end", "horizon"]


def test_a_table_a_figure_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--estimators", "gcpg", "weighted", "--max-active-goals", "all", "1", "--normaliser-floors", "0.5"]
    main(["gradients", "bit-flipping-2", *SMALL, *flags, "--output", str(tmp_path), "--json"])
    output = capsys.readouterr()
    content = json.loads(output.out)
    assert content["environment"] == "bit-flipping-2"
    assert content["policy"] == "a fresh policy"
    assert [row["setup"]["estimator"] for row in content["measurements"]] == ["gcpg", "weighted", "weighted"]
    assert "3/3 weighted, 2, end at horizon, 1 goals, floor 0.5" in output.err
    rows = list(csv.DictReader((tmp_path / "gradients.csv").read_text().splitlines()))
    assert [row["max_active_goals"] for row in rows] == ["", "", "1"]
    assert [row["normaliser_floor"] for row in rows] == ["0.0", "0.5", "0.5"]
    assert float(rows[0]["variance"]) == content["measurements"][0]["variance"]
    sizes = list(csv.DictReader((tmp_path / "sample-sizes.csv").read_text().splitlines()))
    assert [row["time"] for row in sizes] == ["1", "2"] * 3
    assert (tmp_path / "gradients.png").read_bytes().startswith(b"\x89PNG")


def test_dials_are_rows_beside_the_estimators(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is measured, without measuring it."""
    asked: list[str] = []

    def remember(environment: object, policy: object, chosen: list[Setup], *rest: object) -> list[Measurement]:
        asked.extend(setup.estimator for setup in chosen)
        return [Measurement(setup, 4, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, (1.0, 1.0)) for setup in chosen]

    monkeypatch.setattr("hindsight_rl.cli.gradients.measure", remember)
    flags = ["--estimators", "advantage", "truncated,rho=2", "--dials", "--output", str(tmp_path)]
    main(["gradients", "bit-flipping-2", *SMALL, *flags])
    assert asked == ["advantage", "truncated,rho=2", *(dials.name for dials in LADDER)]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["bit-flipping-16"], "at most 10 bits"),
        (["bit-flipping-2", "--estimators", "gpcg"], "Did you mean 'gcpg'?"),
        (["bit-flipping-2", "--estimators", "truncated,rho=0"], "rho must be above zero"),
        (["bit-flipping-2", "--max-active-goals", "0"], "--max-active-goals takes 'all' or whole numbers"),
        (["bit-flipping-2", "--run-folder", "nowhere"], "'nowhere' holds no run"),
        (["bit-flipping-2", "--checkpoint", "5"], "--checkpoint needs --run-folder"),
        (["bit-flipping-2", "--samples", "1"], "samples must be at least 2"),
        (["bit-flipping-2", "--batch-sizes", "0"], "batch_sizes must be a whole number of at least 1, not 0."),
        (["bit-flipping-2", "--batch-sizes"], "--batch-sizes needs a value"),
        (["bit-flipping-1", "--hidden-layers", "2"], "The exact gradient of this policy is zero"),
    ],
)
def test_bad_input_is_one_sentence(
    flags: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["gradients", *flags])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
