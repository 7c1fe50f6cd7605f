"""The commands that look at runs, environments and methods."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from reference.run_folders import made_up_study
from reference.studies import synthetic_study
from small_jobs import ENVIRONMENT

from hindsight_rl.analysis.beside.entries import read_entries
from hindsight_rl.cli import main
from hindsight_rl.environments.registry import ENVIRONMENTS
from hindsight_rl.methods.registry import METHODS

pytestmark = pytest.mark.usefixtures("compiled_programs")


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    main(arguments)
    return capsys.readouterr().out


def evaluated(capsys: pytest.CaptureFixture[str], folder: Path, *flags: str) -> dict[str, Any]:
    (line,) = shown(capsys, "evaluate", str(folder), "--json", *flags).splitlines()
    return json.loads(line)


def test_environments_are_all_named(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "environments")
    assert ENVIRONMENTS
    for name in ENVIRONMENTS:
        assert re.search(rf"│ {re.escape(name)} +│", text), name


def test_methods_are_all_named(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "methods")
    assert len(METHODS) == 10
    for name in METHODS:
        assert re.search(rf"│ {re.escape(name)} +│", text), name


def test_maps_are_told_apart(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mazes").mkdir()
    for name in ("left", "right"):
        Path(f"mazes/{name}.txt").write_text("S..\n..#\n")
        flags = shlex.split("--method hpg --batch-size 2 --batches 2 --evaluate-every 1 --hidden-layers 4")
        main(["train", f"grid:mazes/{name}.txt", *flags])
        assert f"hpg on grid:{name}, batch size 2" in capsys.readouterr().out
    listed = json.loads(shown(capsys, "runs", "--json"))
    assert {item["name"]: item["environment"] for item in listed} == {
        f"runs/grid-{name}-hpg-batch2": f"grid:{name}" for name in ("left", "right")
    }
    # Maps of the same content are one environment, whatever their files are called.
    main(["train", "grid:mazes/left.txt", "--resume", "--output", "runs/grid-right-hpg-batch2", "--batches", "3"])
    (study,) = read_entries(made_up_study(Path("study"), synthetic_study(("grid:mazes/left.txt",), ("hpg",), (2,))))
    assert study.environment == "grid:left"


def test_evaluation_as_json(capsys: pytest.CaptureFixture[str], trained: Path) -> None:
    content = evaluated(capsys, trained, "--episodes", "64")
    assert (content["environment"], content["method"], content["episodes"]) == (ENVIRONMENT, "hpg", 64)
    assert [run["seed"] for run in content["runs"]] == [0, 1]
    for name in ("mean_return", "success_rate"):
        values = [run[name] for run in content["runs"]]
        assert content[name]["mean"] == pytest.approx(sum(values) / 2)
    for run in content["runs"]:
        assert 0 < run["success_rate"] <= 1
        assert run["success_rate"] <= run["mean_return"] <= 4 * run["success_rate"]
        assert 0 < run["error"] < 1


def test_evaluation_depends_on_its_seed_alone(capsys: pytest.CaptureFixture[str], trained: Path) -> None:
    first, again, other = (evaluated(capsys, trained, "--episodes", "64", "--seed", seed) for seed in ("1", "1", "2"))
    assert first == again
    assert first["runs"] != other["runs"]


def test_evaluation_agrees_with_training(capsys: pytest.CaptureFixture[str], trained: Path) -> None:
    # The last evaluation of training saw 32 goals, so its standard error is below 1.7 / sqrt(32) = 0.3.
    content = evaluated(capsys, trained, "--episodes", "4096")
    recorded = json.loads((trained / "summary.json").read_text())
    assert content["mean_return"]["mean"] == pytest.approx(recorded["final_return"]["mean"], abs=0.8)


def test_evaluation_as_a_table(capsys: pytest.CaptureFixture[str], trained: Path) -> None:
    text = shown(capsys, "evaluate", str(trained), "--episodes", "64")
    assert "mean return" in text
    assert "64 greedy episodes each" in text
    assert len(re.findall(r"│ [01] +│ [01] +│ +\d\.\d{3} ± \d\.\d{3} │ +\d+\.\d% +│", text)) == 2


def test_rendering_prints_episodes_and_leaves_an_animation(capsys: pytest.CaptureFixture[str], copied: Path) -> None:
    text = shown(capsys, "render", str(copied), "--episodes", "2", "--policy", "1")
    assert re.search(r"^Episode 1 (reached its goal after \d steps|did not reach its goal), return \d", text, re.M)
    assert re.search(r"^Episode 2 ", text, re.M)
    assert re.search(r"^0000   [01]{4}", text, re.M)
    assert str(copied / "policy.gif") in text
    with Image.open(copied / "policy.gif") as animation:
        assert animation.format == "GIF"
        assert getattr(animation, "n_frames", 1) > 1


def test_rendering_goes_where_it_is_told(capsys: pytest.CaptureFixture[str], copied: Path, tmp_path: Path) -> None:
    shown(capsys, "render", str(copied), "--episodes", "1", "--output", str(tmp_path / "here.gif"))
    assert (tmp_path / "here.gif").read_bytes().startswith(b"GIF8")
    assert not (copied / "policy.gif").exists()
