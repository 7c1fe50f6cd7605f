"""`hindsight train` from end to end."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from small_jobs import (
    ENVIRONMENT,
    PROGRAM,
    SMALL,
    bytes_in,
    process_environment,
    run_program,
    sentence,
    small_flags,
    small_settings,
    train_to_the_end,
)
from small_studies import study_text

from hindsight_rl.cli import main
from hindsight_rl.environments.registry import make
from hindsight_rl.experiments.definition import load_job
from hindsight_rl.records.evaluations import read_evaluations

pytestmark = pytest.mark.usefixtures("compiled_programs")

SUMMARY_KEYS = {
    "environment",
    "method",
    "settings",
    "batches",
    "average_performance",
    "final_return",
    "success_rate",
    "episodes",
    "updates_per_second",
    "failed_runs",
}

COUNT_CACHE_HITS = """
import collections, json, sys
import jax.monitoring
from hindsight_rl.cli import main
events = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **labels: events.update([name]))
main(sys.argv[1:])
print(events["/jax/compilation_cache/cache_hits"])
"""


def train(folder: Path, *flags: str, **changes: Any) -> None:
    main(["train", ENVIRONMENT, *small_flags(**changes), "--output", str(folder), *flags])


def summary_of(standard_output: str) -> dict[str, Any]:
    """The summary, which must be all there is."""
    (line,) = standard_output.splitlines()
    return json.loads(line)


def test_json_is_one_object_and_all_there_is_on_standard_output(
    trained: Path, compiled_programs: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    arguments = ["train", ENVIRONMENT, *small_flags(runs=2), "--output", str(folder), "--json"]
    done = run_program(arguments, compiled_programs)
    assert done.returncode == 0, done.stderr
    summary = summary_of(done.stdout)
    assert summary.keys() == SUMMARY_KEYS
    assert f"Training hpg on {ENVIRONMENT} into {folder}" in done.stderr
    assert "40/40 batches" in done.stderr
    for name in ("evaluations.csv", "checkpoint.npz", "settings.json", "learning-curve.png"):
        assert (folder / name).read_bytes() == (trained / name).read_bytes(), name


def test_summary_says_what_the_evaluations_say(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    train(tmp_path / "run", "--json", runs=2)
    summary = summary_of(capsys.readouterr().out)
    table = read_evaluations(tmp_path / "run" / "evaluations.csv")
    assert (summary["environment"], summary["method"]) == (ENVIRONMENT, "hpg")
    assert summary["settings"] == load_job(tmp_path / "run").settings.flat | {"hidden_layers": [16]}
    for name, values in {
        "average_performance": table.mean_returns.mean(axis=1),
        "final_return": table.mean_returns[:, -1],
        "success_rate": table.success_rates[:, -1],
    }.items():
        assert summary[name] == {"mean": pytest.approx(values.mean()), "std": pytest.approx(values.std())}
    assert summary["episodes"] == SMALL["batches"] * SMALL["batch_size"]
    assert summary["updates_per_second"] > 0
    assert summary["failed_runs"] == []
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == summary


def test_command_line_and_library_give_the_same_numbers(trained: Path) -> None:
    snapshot = train_to_the_end(make(ENVIRONMENT), small_settings(runs=2))
    assert (trained / "evaluations.csv").read_text() == snapshot.evaluations.to_csv()


def test_people_get_a_table_and_the_next_step(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    train(tmp_path / "run")
    shown = capsys.readouterr().out
    for words in ("average performance", "final return", "final success rate", f"hindsight render {tmp_path / 'run'}"):
        assert words in shown
    assert f"hindsight diagnose {tmp_path / 'run'}" in shown


def test_learning_curve_is_a_picture(trained: Path) -> None:
    assert (trained / "learning-curve.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    with Image.open(trained / "learning-curve.png") as picture:
        picture.load()
        assert picture.width > picture.height > 100


def test_folder_is_complete(trained: Path) -> None:
    assert {
        "checkpoint.npz",
        "evaluations.csv",
        "learning-curve.png",
        "settings.json",
        "summary.json",
        "versions.json",
    } == bytes_in(trained).keys()


def test_without_output_each_folder_is_new(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(3):
        main(["train", ENVIRONMENT, *small_flags(batches=10)])
    made = sorted(path.name for path in (tmp_path / "runs").iterdir())
    first = f"{ENVIRONMENT}-hpg-batch8"
    assert made == [first, f"{first}-2", f"{first}-3"]
    assert f"into runs/{first}-3" in capsys.readouterr().err


def test_resume_of_a_finished_run_keeps_its_numbers(capsys: pytest.CaptureFixture[str], copied: Path) -> None:
    before = bytes_in(copied)
    train(copied, "--resume", "--json", runs=2)
    assert summary_of(capsys.readouterr().out)["episodes"] == 320
    after = bytes_in(copied)
    for name in before.keys() - {"summary.json"}:
        assert after[name] == before[name], name


def cut(content: bytes) -> bytes | None:
    return content[: len(content) // 2]


def flip(content: bytes) -> bytes | None:
    return content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]


def delete(content: bytes) -> bytes | None:
    return None


@pytest.mark.parametrize("damage", [cut, flip, delete])
def test_resume_of_a_finished_run_makes_again_what_comes_of_its_checkpoint(
    copied: Path, damage: Callable[[bytes], bytes | None]
) -> None:
    before = bytes_in(copied)
    for name in ("evaluations.csv", "learning-curve.png", "summary.json"):
        damaged = damage(before[name])
        (copied / name).unlink()
        if damaged is not None:
            assert damaged != before[name]
            (copied / name).write_bytes(damaged)
    train(copied, "--resume", runs=2)
    after = bytes_in(copied)
    assert after.keys() == before.keys()
    for name in before.keys() - {"summary.json"}:
        assert after[name] == before[name], name
    said, summary = json.loads(before["summary.json"]), json.loads(after["summary.json"])
    said.pop("updates_per_second")
    assert summary.pop("updates_per_second") is None, "a speed that nobody measured"
    assert summary == said


def test_names_are_shown_as_they_are(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What looks like markup, or like an emoji, is a name that a user gave."""
    folder = Path(shutil.copytree(trained, tmp_path / "[red]:smile:" / "[" / "b]"))
    train(folder, "--resume", runs=2)
    shown = capsys.readouterr()
    assert f"into {folder}" in shown.err
    assert f"Next: hindsight render {folder}" in shown.out
    (tmp_path / "study.toml").write_text(study_text(name="[red][b]:smile:"))
    main(["study", "plan", str(tmp_path / "study.toml"), "--skip-measurement"])
    assert "Study [red][b]:smile:, into studies/[red][b]:smile:" in capsys.readouterr().out


def test_resume_takes_settings_from_the_folder(copied: Path, tmp_path: Path) -> None:
    main(["train", ENVIRONMENT, "--output", str(copied), "--resume", "--batches", "60"])
    train(tmp_path / "at once", runs=2, batches=60)
    for name in ("evaluations.csv", "checkpoint.npz", "settings.json", "learning-curve.png"):
        assert (copied / name).read_bytes() == (tmp_path / "at once" / name).read_bytes(), name


def test_when_every_run_fails_the_program_does(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["train", ENVIRONMENT, *small_flags(learning_rate=1e38, runs=2), "--output", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--json"])
    assert stop.value.code not in (0, None)
    shown = capsys.readouterr()
    assert sentence(shown.err) == "Every run failed; a smaller learning rate may help."
    summary = summary_of(shown.out)
    assert [failure["run"] for failure in summary["failed_runs"]] == [0, 1]
    assert summary["final_return"] == {"mean": None, "std": None}
    for run, failure in enumerate(summary["failed_runs"]):
        message = f"Run {run} (seed {run}) failed in batch {failure['batch']}: {failure['cause']}."
        assert message in shown.err.splitlines()


def test_second_start_does_not_compile_again(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    kept = tmp_path / "cache" / "hindsight" / "compiled"

    def start(folder: str) -> int:
        arguments = ["train", "bit-flipping-1", *small_flags(batches=10, method="gcpg"), "--output", folder, "--json"]
        command = [sys.executable, "-c", COUNT_CACHE_HITS, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=True)
        return int(done.stdout.splitlines()[-1])

    assert start("first") == 0
    before = bytes_in(kept)
    assert any(name.startswith("jit_advance") for name in before)
    assert start("second") >= len(before)
    assert bytes_in(kept) == before


def test_reader_that_leaves_early_is_no_error(trained: Path, compiled_programs: Path) -> None:
    with subprocess.Popen(
        [str(PROGRAM), "methods"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=process_environment(compiled_programs),
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
