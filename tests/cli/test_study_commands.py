"""`hindsight study`: run, plan and export from end to end, and every mistake as one sentence."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from small_jobs import run_program, sentence
from small_results import scalars_in
from small_studies import copied, definition, finished, numbers_in, results_in, shared_programs, small_study, study_text

from hindsight_rl.cli import main
from hindsight_rl.cli.study.commands import STUDY_COMMANDS
from hindsight_rl.cli.study.run import summarise
from hindsight_rl.experiments.study import worker as study_worker
from hindsight_rl.records.runs import DEFINITIVE, Cell, RunKey
from hindsight_rl.records.tidy import to_csv
from hindsight_rl.training import loop

__all__ = ["copied", "definition", "finished", "shared_programs"]

pytestmark = pytest.mark.usefixtures("shared_programs")

HPG = Cell("bit-flipping-4", 8, "hpg")

# Environment, batch size, batches between evaluations in the search (100 of them), batches of a definitive run.
PAPER = [
    ("bit-flipping-8", 2, 40, 5000),
    ("bit-flipping-8", 16, 14, 1400),
    ("bit-flipping-16", 2, 40, 15000),
    ("bit-flipping-16", 16, 10, 1000),
    ("empty-room", 2, 25, 2200),
    ("empty-room", 16, 8, 200),
    ("four-rooms", 2, 100, 10000),
    ("four-rooms", 16, 35, 1700),
]

LOADED_AFTER_HELP = """
import sys
from hindsight_rl.cli import main
try:
    main(sys.argv[1:])
except SystemExit as stop:
    assert not stop.code, stop.code
print("loaded:", *sorted({"jax", "numpy", "matplotlib", "sqlite3", "polars"} & sys.modules.keys()))
"""


def read_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """What a command prints, which must be one line."""
    main(["study", *arguments, "--json"])
    (line,) = capsys.readouterr().out.splitlines()
    return json.loads(line)


@pytest.mark.parametrize("command", STUDY_COMMANDS)
def test_help_lists_every_flag(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["study", command, "--help"])
    assert not stop.value.code
    shown = capsys.readouterr().out
    assert f"usage: hindsight study {command}" in shown
    for field in fields(STUDY_COMMANDS[command]):
        positional = {"study": "STUDY", "folder": "FOLDER", "source": "SOURCE"}.get(field.name)
        assert (positional or f"--{field.name.replace('_', '-')}") in shown.split()


def test_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["study", "--help"]):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert not stop.value.code
        shown = capsys.readouterr().out.split()
        assert set(STUDY_COMMANDS) <= {word.strip(":,.") for word in shown}


def test_help_is_there_at_once() -> None:
    command = [sys.executable, "-c", LOADED_AFTER_HELP, "study", "run", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "loaded:"


def test_run_as_a_user_would(definition: Path, finished: Path, compiled_programs: Path, tmp_path: Path) -> None:
    """The installed program, with its folder and name by default; all there is on standard output is the summary."""
    done = run_program(["study", "run", "small.toml", "--json"], compiled_programs, tmp_path)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    folder = Path("studies/small")
    assert (json.loads(line)["study"], json.loads(line)["folder"]) == ("small", str(folder))
    assert done.stderr.startswith(f"Study small into {folder}\n")
    assert "28/28 runs" in done.stderr
    assert f"{HPG.name}, search: 4 runs in " in done.stderr
    assert numbers_in(tmp_path / folder) == numbers_in(finished)


def test_the_summary_says_what_the_results_say(capsys: pytest.CaptureFixture[str], copied: Path) -> None:
    content = read_json(capsys, "run", str(copied))
    results = results_in(copied)
    for cell in content["cells"]:
        runs = results.of(Cell(cell["environment"], cell["batch_size"], cell["method"]), DEFINITIVE)
        performances = np.array([run.average_performance for run in runs])
        assert cell["average_performance"] == {
            "mean": pytest.approx(performances.mean()),
            "std": pytest.approx(performances.std()),
        }
        assert cell["runs"] == len(runs) == 4
        assert cell["choices"] == dict(runs[0].key.choices)
        assert cell["learning_rate"] == cell["choices"]["learning_rate"]
        assert (cell["paper"], cell["failed_runs"], cell["search_at_chance"]) == (None, [], False)
    assert [cell["method"] for cell in content["cells"]] == ["hpg", "gcpg+b"]


def test_a_search_that_stays_at_chance_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    definition, folder = tmp_path / "slow.toml", str(tmp_path / "slow")
    definition.write_text(study_text(methods=["hpg"], learning_rates=[1e-9, 1e-8]))
    main(["study", "run", str(definition), "--output", folder, "--json"])
    told = capsys.readouterr()
    (cell,) = json.loads(told.out)["cells"]
    assert (cell["search_at_chance"], cell["learning_rate"], cell["runs"]) == (True, 1e-9, 4)
    assert f"{HPG.name}, search: no run is above chance after 40 batches, so nothing was chosen" in told.err
    main(["study", "run", folder])
    told = capsys.readouterr()
    assert "* Not chosen: no run of the search is above chance." in told.out
    assert "nothing was chosen" not in told.err


def test_people_get_a_table_and_the_next_step(capsys: pytest.CaptureFixture[str], copied: Path) -> None:
    main(["study", "run", str(copied)])
    shown = capsys.readouterr().out
    for words in ("bit-flipping-4", "gcpg+b", "performance", f"hindsight study report {copied}"):
        assert words in shown


def test_slices_and_more_runs_go_on_in_the_same_folder(
    capsys: pytest.CaptureFixture[str], definition: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "study"
    options = ["run", str(definition), "--output", str(folder)]
    (cell,) = read_json(capsys, *options, "--methods", "hpg", "--runs", "1")["cells"]
    assert (cell["method"], cell["runs"]) == ("hpg", 1)
    assert [cell["runs"] for cell in read_json(capsys, *options)["cells"]] == [4, 4]
    assert [cell["runs"] for cell in read_json(capsys, "run", str(folder), "--runs", "5")["cells"]] == [5, 5]
    assert [cell["runs"] for cell in read_json(capsys, "run", str(folder), "--output", str(folder))["cells"]] == [5, 5]
    assert len(results_in(folder).runs) == 4 + 5 + 12 + 4 + 5


def test_a_failed_run_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "wild.toml"
    path.write_text(study_text(methods=["hpg"], learning_rates=[1e38]))
    (cell,) = read_json(capsys, "run", str(path), "--output", str(tmp_path / "study"))["cells"]
    assert (cell["runs"], cell["average_performance"]) == (0, {"mean": None, "std": None})
    assert [failure["seed"] for failure in cell["failed_runs"]] == [0, 1, 2, 3]
    assert all(failure["cause"].endswith("is not finite") for failure in cell["failed_runs"])
    main(["study", "run", str(tmp_path / "study")])
    assert "(4 failed)" in capsys.readouterr().out


def test_what_an_exception_ended_is_said_and_runs_again(
    capsys: pytest.CaptureFixture[str],
    definition: Path,
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    training = loop.training

    def raising(environment: Any, settings: Any, *rest: Any) -> Iterator[Any]:
        if settings.method == "hpg":
            raise MemoryError("too large")
        return training(environment, settings, *rest)

    options = ["run", str(definition), "--output", str(tmp_path / "study")]
    with monkeypatch.context() as patched:
        patched.setattr(study_worker, "training", raising)
        with pytest.raises(SystemExit) as stop:
            main(["study", *options])
    assert stop.value.code == 2
    said = sentence(capsys.readouterr().err)
    assert said.startswith(
        "1 of 2 cells could not be finished, bit-flipping-4-batch8-hpg for one (MemoryError: too lar"
    )
    main(["study", *options])
    shown = capsys.readouterr().err
    assert "20/28 runs" in shown
    assert "28/28 runs" in shown
    assert numbers_in(tmp_path / "study") == numbers_in(finished)


def test_event_files_hold_the_learning_curves(definition: Path, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    main(["study", "run", str(definition), "--output", str(folder), "--tensorboard"])
    results = results_in(folder)
    made = [path.parent for path in (folder / "tensorboard").rglob("*tfevents*")]
    assert len(made) == len(set(made)) == len(results.runs) == 28
    for run in results.runs:
        choices = dict(run.key.choices)
        baseline = f"-baseline{choices['baseline_learning_rate']:g}" if len(choices) > 1 else ""
        stage = run.key.stage.replace(" ", "-")
        name = f"{stage}-rate{choices['learning_rate']:g}{baseline}-seed{run.key.seed}"
        found = scalars_in(folder / "tensorboard" / run.cell.name / name)
        expected: list[Any] = [
            (batch, tag, pytest.approx(value, rel=1e-6))
            for batch, *values in zip(run.batches, *run.metrics.values(), strict=True)
            for tag, value in zip(("return", "success_rate", "steps"), values, strict=True)
        ]
        assert found == expected


HARD = ("ms-pacman", "fetch-push")


def test_plan_of_the_paper_by_hand(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grid of 8 settings with 10 runs, or 64, 16, 4 settings with 3, 5, 10 runs of 25, 50, 100 evaluations."""
    monkeypatch.chdir(tmp_path)
    cells = {
        tuple(row[key] for key in Cell._fields): row for row in read_json(capsys, "plan", "paper", "--skip-measurement")
    }
    assert len(cells) == 48
    for environment, batch_size, every, batches in PAPER:
        for method in ("gcpg", "hpg", "hpg-no-ratios", "gcpg+b", "hpg+b"):
            baseline = method.endswith("+b")
            search = 64 * 3 * 25 + 16 * 5 * 50 + 4 * 10 * 100 if baseline else 8 * 10 * 100
            row = cells[environment, batch_size, method]
            assert (row["settings"], row["search"]) == ((64, "halving") if baseline else (8, "grid"))
            assert (row["search_runs"], row["definitive_runs"]) == (64 * 3 + 16 * 5 + 4 * 10 if baseline else 80, 20)
            assert row["updates"] == search * every + 20 * batches
            assert row["episodes"] == batch_size * row["updates"]
            assert row["seconds"] is None
    small = sum(row["updates"] for row in cells.values() if row["environment"] not in HARD)
    assert small == 17_141_200
    # Five rates with five runs each, then ten runs, for two methods.
    hard = [(40_000, 40_000), (12_000, 12_500), (40_000, 40_000), (15_000, 12_500)]
    expected = 2 * sum(25 * search + 10 * definitive for search, definitive in hard)
    assert sum(row["updates"] for row in cells.values()) == small + expected
    assert list(tmp_path.iterdir()) == []


def test_plan_counts_what_is_left_and_measures(capsys: pytest.CaptureFixture[str], copied: Path) -> None:
    finished, more = (read_json(capsys, "plan", str(copied), "--runs", runs) for runs in ("4", "9"))
    assert [row["updates"] for row in finished] == [0, 0]
    assert [row["seconds"] for row in finished] == [None, None]
    assert [(row["search_runs"], row["definitive_runs"], row["updates"]) for row in more] == [(0, 5, 200)] * 2
    assert all(0 <= row["seconds"] < 100 for row in more)


def test_plan_as_a_table(capsys: pytest.CaptureFixture[str], copied: Path) -> None:
    main(["study", "plan", str(copied), "--runs", "10", "--skip-measurement"])
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == f"Study small, into {copied}"
    assert [line.split() for line in shown.splitlines()[1:4]] == [
        ["environment", "batch", "method", "settings", "runs", "updates", "time"],
        ["bit-flipping-4", "8", "hpg", "2", "grid", "0", "+", "6", "240", "-"],
        ["bit-flipping-4", "8", "gcpg+b", "6", "halving", "0", "+", "6", "240", "-"],
    ]
    assert "In all: 0 runs of searches and 12 definitive ones, 480 updates, 3,840 episodes." in shown
    assert "28 runs are finished already and not counted." in shown


def test_a_folder_of_a_presets_name_does_not_hide_it(
    capsys: pytest.CaptureFixture[str], copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paper").mkdir()
    assert len(read_json(capsys, "plan", "paper", "--skip-measurement")) == 48
    copied.rename(tmp_path / "paper")
    assert len(read_json(capsys, "plan", "paper", "--skip-measurement")) == 2


def test_export_as_csv_and_parquet(capsys: pytest.CaptureFixture[str], copied: Path, tmp_path: Path) -> None:
    main(["study", "export", str(copied)])
    assert capsys.readouterr().out == f"{copied / 'evaluations.csv'} has the evaluations of 28 runs.\n"
    expected = to_csv(results_in(copied))
    assert (copied / "evaluations.csv").read_bytes() == expected
    path = tmp_path / "new folder" / "table.parquet"
    main(["study", "export", str(copied), "--output", str(path)])
    table = polars.read_csv(io.BytesIO(expected), schema_overrides={"failure": polars.String})
    assert polars.read_parquet(path).equals(table)
    assert table.height == 16 * 5 + 12 * 3


def test_the_outcome_counts_the_runs_of_the_rates_that_the_search_chose(copied: Path) -> None:
    """Runs of a search that raised and run again may change its choice; the older definitive runs then do not count."""
    results = results_in(copied)
    (plan,) = small_study(methods=["hpg"]).plans
    expected = summarise(results, plan)
    (chosen,) = {run.key.choices for run in results.of(HPG, DEFINITIVE)}
    (other,) = set(plan.grid) - {chosen}
    stray = [replace(run, key=RunKey(DEFINITIVE, other, run.key.seed)) for run in results.of(HPG, DEFINITIVE)]
    assert summarise(replace(results, runs=[*stray, *results.runs]), plan) == expected
