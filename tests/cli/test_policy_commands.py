"""`hindsight export` and `hindsight zoo`, checkpoints to choose from, goals of the user's own."""

import json
import runpy
from pathlib import Path

import pytest

import hindsight_rl
from hindsight_rl.cli import main
from hindsight_rl.experiments import zoo
from hindsight_rl.experiments.zoo import zoo_folder, zoo_names

ROOT = Path(__file__).parents[2]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The one sentence with which a command is refused."""
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert stop.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith("hindsight: ")
    assert shown.count("\n") == 1
    return shown.removeprefix("hindsight: ").rstrip()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])
    assert capsys.readouterr().out == f"hindsight {hindsight_rl.__version__}\n"


def test_export_writes_files_that_load(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--checkpoint", "best", "--policy", "1", "--formats", "npz", "onnx"]
    main(["export", str(trained), *flags, "--output", str(tmp_path / "out")])
    shown = capsys.readouterr().out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"policy.npz", "policy.onnx", "policy.json"}
    assert str(tmp_path / "out/policy.onnx") in shown.replace("\n", "")
    (loaded,) = hindsight_rl.load(tmp_path / "out")
    best = hindsight_rl.load(trained, "best")[1]
    states = [[0, 0, 0, 0], [1, 0, 0, 1], [0, 1, 1, 1]]
    assert loaded.act(states, [1, 1, 1, 1]).tolist() == best.act(states, [1, 1, 1, 1]).tolist()


def test_zoo_lists_what_can_be_played(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"bit-flipping-8", "bit-flipping-16", "empty-room", "four-rooms"} <= set(zoo_names())
    assert sum(path.stat().st_size for path in zoo_folder().iterdir()) < 2_000_000
    main(["zoo", "--json"])
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert listed.keys() == {f"zoo:{name}" for name in zoo_names()}
    for row in listed.values():
        assert row["interval"][0] < row["mean_return"] < row["interval"][1]
        assert row["settings"]["method"] == row["method"]
    main(["zoo"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in listed)
    # As measured there, within five standard errors of a tenth of the episodes.
    main(["evaluate", "zoo:four-rooms", "--episodes", "1000", "--json"])
    played = json.loads(capsys.readouterr().out)
    low, high = listed["zoo:four-rooms"]["interval"]
    assert abs(played["mean_return"]["mean"] - (low + high) / 2) < 5 * 10**0.5 * (high - low) / 4


def test_a_finished_run_joins_the_zoo(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runpy.run_path(str(ROOT / "scripts/make_zoo.py"))["run"]
    monkeypatch.setattr(zoo, "_FOLDER", str(tmp_path / "zoo"))
    run(["mine", "--run", str(trained), "--checkpoint", "best", "--policy", "1"])
    main(["zoo", "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["seed"], row["episodes"]) == ("zoo:mine", 1, 500)
    assert row["interval"][0] < row["mean_return"] < row["interval"][1]
    best, states = hindsight_rl.load(trained, "best")[1], [[0, 0, 0, 0], [1, 0, 0, 1], [0, 1, 1, 1]]
    (loaded,) = hindsight_rl.load("zoo:mine")
    assert loaded.act(states, [1, 1, 1, 1]).tolist() == best.act(states, [1, 1, 1, 1]).tolist()
    with pytest.raises(SystemExit):
        run(["yours"])
    assert "nothing is known of yours" in capsys.readouterr().err


def test_rendering_the_zoo_leaves_a_film_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["render", "zoo:bit-flipping-8", "--episodes", "1"])
    assert "Episode 1 reached its goal" in capsys.readouterr().out
    assert (tmp_path / "zoo-bit-flipping-8-policy.gif").read_bytes().startswith(b"GIF")


def test_goals_of_the_users_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["evaluate", "zoo:bit-flipping-8", "--episodes", "4", "--json"]
    main([*command, "--goal", *"00000001", *"11000000"])
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert [row["goal"] for row in run["goals"]] == [[0] * 7 + [1], [1, 1] + [0] * 6]
    # The best that can be: 9 states in an episode, and the return is 9 less the bits to toggle.
    assert [row["mean_return"] for row in run["goals"]] == [8, 7]
    (tmp_path / "goals.txt").write_text("# two goals\n0 0 0 0 0 0 0 1\n1,1,0,0,0,0,0,0\n")
    main([*command, "--goals", str(tmp_path / "goals.txt")])
    assert json.loads(capsys.readouterr().out)["runs"] == [run]
    main([*command[:-1], "--goals", str(tmp_path / "goals.txt")])
    shown = capsys.readouterr().out
    assert "1 1 0 0 0 0 0 0" in shown
    assert "shared by 2 goals" in shown


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--goal", "1", "2"], "A goal of this environment has 8 numbers, but --goal has 2."),
        (["--goal", *["nan"] * 8], "The goals in --goal are not all finite numbers."),
        (["--goals", "nowhere.txt"], "There is no file nowhere.txt."),
        (["--goal", *"11111111", "--goals", "a"], "Give goals with --goal or with --goals, not with both."),
        (["--goal", *"1111111100000000", "--episodes", "1"], "1 episodes are fewer than the 2 goals: ask for more."),
        (
            ["--checkpoint", "best"],
            "Only run folders have checkpoints to choose from, and 'zoo:bit-flipping-8' is none.",
        ),
    ],
)
def test_goals_that_cannot_be(flags: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "evaluate", "zoo:bit-flipping-8", *flags) == sentence


def test_a_goal_that_is_never_drawn_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    main(["evaluate", "zoo:four-rooms", "--episodes", "3", "--goal", *"33", *"55", "99", "99", "--json"])
    shown = capsys.readouterr()
    assert shown.err == "2 goals (5 5, ...) the environment never draws.\n"
    assert [row["mean_return"] for row in json.loads(shown.out)["runs"][0]["goals"]][1:] == [0, 0]


def test_files_of_goals_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "goals.txt"
    for text, sentence in (("1 2\n", "Goal 1 in"), ("a\n", "must hold a goal in each line"), ("", "has 0.")):
        path.write_text(text)
        assert sentence in refused(capsys, "evaluate", "zoo:bit-flipping-8", "--goals", path)


def test_bad_input(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "render", "zoo:four-roms").startswith("There is no policy 'four-roms' in the zoo.")
    assert refused(capsys, "export", tmp_path / "none") == f"There is no file or folder '{tmp_path / 'none'}'."
    assert refused(capsys, "export", trained, "--policy", "2") == f"'{trained}' holds the runs 0 to 1, not 2."
    assert "has no checkpoint of batch 7" in refused(capsys, "evaluate", trained, "--checkpoint", "7")
    assert refused(capsys, "render", trained, "--checkpoint", "fist").startswith("checkpoint must be last, best")
    assert refused(capsys, "export", trained, "--formats", "tflite").startswith("invalid choice 'tflite'")
    flags = ("--output", tmp_path / "run", "--keep", "best")
    assert refused(capsys, "train", "bit-flipping-4", *flags).startswith("--keep must name last")
    assert not (tmp_path / "run").exists()
