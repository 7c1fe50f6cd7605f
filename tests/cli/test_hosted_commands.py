"""Hosted environments on the command line: train, stop, resume, evaluate, film; and what is refused."""

import json
import shutil
import subprocess
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from environments.registered_lines import TROUBLE
from small_jobs import bytes_in, run_program, sentence

from hindsight_rl.cli import main
from hindsight_rl.experiments.job import load_policies
from hindsight_rl.records.evaluations import read_evaluations

pytestmark = pytest.mark.usefixtures("quick_compilation", "compiled_programs")

TINY = ["--batch-size", "2", "--evaluate-every", "1", "--evaluation-episodes", "2", "--hidden-layers", "8"]


@pytest.fixture(scope="module")
def reach(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two batches with continuous actions."""
    folder = tmp_path_factory.mktemp("runs") / "reach"
    arguments = ["train", "gym:FetchReach-v4", "--method", "hpg", "--batches", "2", "--normalise", *TINY]
    main([*arguments, "--max-active-goals", "2", "--output", str(folder)])
    return folder


def test_a_run_of_continuous_actions_leaves_what_every_run_leaves(reach: Path) -> None:
    evaluations = read_evaluations(reach / "evaluations.csv")
    assert evaluations.batches.tolist() == [0, 1, 2]
    assert np.all(evaluations.mean_returns <= 0)
    assert np.all(evaluations.mean_returns >= -50)
    assert (reach / "learning-curve.png").exists()
    _, snapshot, _ = load_policies(reach)
    # Four numbers make an action, and the statistics have seen two batches of two episodes.
    assert snapshot.states.agent.policy.log_deviation.shape == (1, 4)
    assert 0 < snapshot.states.agent.policy.normalisers[0].count[0] <= 200


def test_resuming_is_exact(reach: Path, tmp_path: Path) -> None:
    for batches in ("1", "2"):
        arguments = ["train", "gym:FetchReach-v4", "--method", "hpg", "--batches", batches, "--normalise", *TINY]
        resume = ["--resume"] if batches == "2" else []
        main([*arguments, "--max-active-goals", "2", "--output", str(tmp_path / "again"), *resume])
    assert (tmp_path / "again" / "evaluations.csv").read_bytes() == (reach / "evaluations.csv").read_bytes()
    assert (tmp_path / "again" / "checkpoint.npz").read_bytes() == (reach / "checkpoint.npz").read_bytes()


FEW = ["--kept-episodes", "6", "--pairs", "4", "--minibatch", "32", "--gradient-steps", "2", "--steps-per-draw", "1"]


def test_hindsight_ppo_says_what_it_chose_and_what_it_saw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "gym:environments.registered_lines:MoodyLine-v0", *TINY, *FEW, "--workers", "1"]
    main([*arguments, "--batches", "1", "--output", str(tmp_path / "run")])
    assert "Chosen for this environment: 2 gradient steps a batch, 6 episodes kept" in capsys.readouterr().err
    _, snapshot, _ = load_policies(tmp_path / "run")
    assert int(snapshot.states.agent.buffer.added[0]) == 2
    assert read_evaluations(tmp_path / "run" / "evaluations.csv").metrics["entropy"].shape == (1, 2)


def test_hindsight_ppo_is_made_longer_to_the_very_same_numbers(tmp_path: Path) -> None:
    """The kept episodes are in the checkpoint, and there is room for those of any number of batches."""
    arguments = ["train", "bit-flipping-3", *TINY, *FEW]
    main([*arguments, "--batches", "3", "--output", str(tmp_path / "whole")])
    for batches, more in (("1", []), ("3", ["--resume"])):
        main([*arguments, "--batches", batches, "--output", str(tmp_path / "again"), *more])
    for name in ("evaluations.csv", "checkpoint.npz"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_evaluation(reach: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["evaluate", str(reach), "--episodes", "3", "--json"])
    content = json.loads(capsys.readouterr().out)
    assert content["environment"] == "gym:FetchReach-v4"
    assert -50 <= content["mean_return"]["mean"] <= 0


@pytest.mark.usefixtures("drawing")
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
        (["gym:FetchReach-v4", "--workers", "0"], "workers must be a whole number of at least 1, not 0."),
        (["bit-flipping-4", "--workers", "2"], "this one is compiled and needs none"),
        (
            ["ms-pacman", "--method", "dqn", "--beyond-horizon"],
            "Values beyond the horizon are not to be had from pictures",
        ),
    ],
)
def test_what_cannot_be_trained_on(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["train", *arguments])
    assert stop.value.code == 2
    assert said in sentence(capsys.readouterr().err)
    assert not (tmp_path / "runs").exists()


def test_an_action_space_that_no_policy_can_choose_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["train", "gym:environments.registered_lines:PairedLine-v0", "--output", str(tmp_path / "run")])
    assert stop.value.code == 2
    assert "only discrete and real Box spaces will do" in sentence(capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


LINE = ["train", "gym:environments.registered_lines:MoodyLine-v0", "--method", "hpg", *TINY, "--learning-rate", "0.01"]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run of one batch, and the same run of two batches, played by other numbers of workers."""
    folder = tmp_path_factory.mktemp("lines")
    half, whole = folder / "half", folder / "whole"
    for batches, folder in enumerate((half, whole), 1):
        main([*LINE, "--batches", str(batches), "--workers", str(batches), "--output", str(folder)])
    return half, whole


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("raises", "The environment 'MoodyLine-v0' failed at step 5: ZeroDivisionError: a wheel came off."),
        ("no number", "The environment 'MoodyLine-v0' gave an observation that is not a finite number at step 5."),
        ("reward raises", "The environment 'MoodyLine-v0': compute_reward failed: ZeroDivisionError: no scales."),
        (
            "reward is no number",
            "The environment 'MoodyLine-v0': compute_reward gave something else than one finite number for each pair "
            "of goals.",
        ),
    ],
)
def test_trouble_in_the_middle_of_a_run_is_one_sentence_and_costs_nothing(
    lines: tuple[Path, Path],
    tmp_path: Path,
    trouble: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In an update, where compiled code asks for rewards; in an evaluation; and the run goes on afterwards."""
    half, whole = lines
    folder = Path(shutil.copytree(half, tmp_path / "run"))
    resume = [*LINE, "--batches", "2", "--workers", "1", "--output", str(folder), "--resume"]
    monkeypatch.setenv(TROUBLE, trouble)
    for arguments in (["evaluate", str(folder), "--episodes", "20", "--trust"], resume):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 2
        assert sentence(capsys.readouterr().err) == said
    for name in ("checkpoint.npz", "evaluations.csv"):
        assert bytes_in(folder)[name] == bytes_in(half)[name]
    if trouble != "reward raises":
        return
    monkeypatch.delenv(TROUBLE)
    main(resume)
    for name in ("checkpoint.npz", "evaluations.csv", "settings.json"):
        assert bytes_in(folder)[name] == bytes_in(whole)[name]


def test_an_interruption_in_the_rewards_of_an_update_costs_nothing(
    lines: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A compiled program that asks for rewards cannot be interrupted: the interruption comes right after it."""
    half, whole = lines
    folder = Path(shutil.copytree(half, tmp_path / "run"))
    resume = [*LINE, "--batches", "2", "--workers", "1", "--output", str(folder), "--resume"]
    monkeypatch.setenv(TROUBLE, "reward is interrupted")
    for arguments, said in (
        (["evaluate", str(folder), "--episodes", "20", "--trust"], "Interrupted."),
        (resume, f"Interrupted after 1 of 2 batches; the same command with --resume --output {folder} goes on."),
    ):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 130
        assert sentence(capsys.readouterr().err) == said
    assert bytes_in(folder)["checkpoint.npz"] == bytes_in(half)["checkpoint.npz"]
    monkeypatch.delenv(TROUBLE)
    main(resume)
    for name in ("checkpoint.npz", "evaluations.csv", "settings.json"):
        assert bytes_in(folder)[name] == bytes_in(whole)[name]


STUDY = """
environments = ["gym:environments.registered_lines:MoodyLine-v0"]
methods = ["hpg"]
batch_sizes = [2]
learning_rates = [0.01]
hidden_layers = [8]
definitive = {runs = 2, batches = 2, evaluate_every = 1, evaluation_episodes = 2}
"""


def test_an_interruption_in_the_rewards_of_a_study_fails_no_run(
    lines: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lines.toml").write_text(STUDY)
    arguments = ["study", "run", str(tmp_path / "lines.toml"), "--workers", "1", "--json", "--output"]
    monkeypatch.setenv(TROUBLE, "reward is interrupted")
    with pytest.raises(SystemExit) as stop:
        main([*arguments, str(tmp_path / "study")])
    assert stop.value.code == 130
    assert sentence(capsys.readouterr().err).startswith("Interrupted; what is finished is in ")
    monkeypatch.delenv(TROUBLE)
    main([*arguments, str(tmp_path / "study")])
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    assert (cell["runs"], cell["failed_runs"]) == (2, [])


def test_an_evaluation_does_not_depend_on_the_number_of_workers(
    lines: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for workers in ("1", "3"):
        main(["evaluate", str(lines[0]), "--episodes", "40", "--workers", workers, "--json", "--trust"])
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]
    assert json.loads(found[0])["runs"][0]["error"] > 0, "all episodes are alike"


def test_without_opengl_a_film_is_refused_in_one_sentence(
    reach: Path, compiled_programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bytes_in(reach)
    for setting, said in (("disable", "cannot be drawn ("), ("nonsense", "MuJoCo cannot be loaded with MUJOCO_GL=")):
        monkeypatch.setenv("MUJOCO_GL", setting)
        result = run_program(["render", str(reach), "--episodes", "1"], compiled_programs)
        assert result.returncode == 2
        assert said in sentence(result.stderr)
    assert bytes_in(reach) == before


def test_without_the_game_file_nothing_is_trained(
    compiled_programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path / "nowhere"))
    arguments = ["train", "ms-pacman", "--batches", "1", *TINY, "--output", str(tmp_path / "run")]
    result = run_program(arguments, compiled_programs)
    assert result.returncode == 2
    assert sentence(result.stderr).startswith("The game file of Ms. Pac-man cannot be loaded (")
    assert not (tmp_path / "run" / "checkpoint.npz").exists()
