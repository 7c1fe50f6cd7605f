"""Hosted environments on the command line: train, stop, resume, evaluate, film; and what is refused."""

import json
import subprocess
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from small_jobs import run_program, sentence

from hindsight.cli import main
from hindsight.experiments.job import load_job, load_snapshot
from hindsight.records.evaluations import read_evaluations

pytestmark = pytest.mark.usefixtures("compiled_programs")

TINY = ["--batch-size", "2", "--evaluate-every", "1", "--evaluation-episodes", "2", "--hidden-layers", "8"]


@pytest.fixture(scope="module")
def reach(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two batches with continuous actions."""
    folder = tmp_path_factory.mktemp("runs") / "reach"
    arguments = ["train", "gym:FetchReach-v4", "--batches", "2", "--normalise", *TINY]
    main([*arguments, "--max-active-goals", "2", "--output", str(folder)])
    return folder


def test_a_run_of_continuous_actions_leaves_what_every_run_leaves(reach: Path) -> None:
    evaluations = read_evaluations(reach / "evaluations.csv")
    assert evaluations.batches.tolist() == [0, 1, 2]
    assert np.all(evaluations.mean_returns <= 0)
    assert np.all(evaluations.mean_returns >= -50)
    assert (reach / "learning-curve.png").exists()
    snapshot = load_snapshot(reach, load_job(reach))
    # Four numbers make an action, and the statistics have seen two batches of two episodes.
    assert snapshot.states.agent.policy.log_deviation.shape == (1, 4)
    assert 0 < snapshot.states.agent.policy.normalisers[0].count[0] <= 200


def test_resuming_is_exact(reach: Path, tmp_path: Path) -> None:
    for batches in ("1", "2"):
        arguments = ["train", "gym:FetchReach-v4", "--batches", batches, "--normalise", *TINY]
        resume = ["--resume"] if batches == "2" else []
        main([*arguments, "--max-active-goals", "2", "--output", str(tmp_path / "again"), *resume])
    assert (tmp_path / "again" / "evaluations.csv").read_bytes() == (reach / "evaluations.csv").read_bytes()
    assert (tmp_path / "again" / "checkpoint.npz").read_bytes() == (reach / "checkpoint.npz").read_bytes()


def test_evaluation(reach: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["evaluate", str(reach), "--episodes", "3", "--json"])
    content = json.loads(capsys.readouterr().out)
    assert content["environment"] == "gym:FetchReach-v4"
    assert -50 <= content["mean_return"]["mean"] <= 0


def test_a_film(reach: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "policy.mp4"
    main(["render", str(reach), "--episodes", "1", "--video", str(path)])
    assert "Episode 1" in capsys.readouterr().out
    content = path.read_bytes()
    assert content[4:8] == b"ftyp", "not an MP4 file"
    reader = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(reader, capture_output=True, check=True).stdout
    pictures = np.frombuffer(raw, np.uint8).reshape(-1, 480, 480, 3)
    assert len(pictures) >= 6
    assert pictures[0].std() > 10, "the picture is blank"
    assert not np.array_equal(pictures[0], pictures[4]), "nothing moves"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gym:CartPole-v1"], "is not a goal environment"),
        (["gym:FetchReech-v4"], "Did you mean 'FetchReach"),
        (["gym:"], "needs the id of a Gymnasium environment"),
        (["gym:FetchReach-v4", "--method", "dqn"], "actions"),
    ],
)
def test_what_cannot_be_trained_on(arguments: list[str], said: str, compiled_programs: Path, tmp_path: Path) -> None:
    result = run_program(["train", *arguments], compiled_programs, tmp_path)
    assert result.returncode == 2
    assert said in sentence(result.stderr)
    assert not (tmp_path / "runs").exists()
