"""Streams that are closed, full or know only ASCII, variables that are wrong, and paths that nobody can use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_jobs import sentence
from small_studies import results_in, study_text

from hindsight_rl.cli import main

LONG_NAME, LONG_PATH = "x" * 300, "/".join(["x" * 200] * 30)
PRINTS = "from hindsight_rl.cli import streams; streams.prepare(); import os; "


def python(program: str, redirection: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = f'exec "{sys.executable}" -c "$0" {redirection}'
    return subprocess.run(
        ["sh", "-c", command, program], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )


@pytest.mark.parametrize("redirection", [">/dev/full", ">/dev/full 2>/dev/full"])
def test_a_full_disk_as_output_is_one_sentence(redirection: str) -> None:
    done = python("from hindsight_rl.cli import main; main(['--version'])", redirection)
    assert done.returncode == 2
    said = "hindsight: The system refused: No space left on device.\n"
    assert done.stderr == ("" if "2>" in redirection else said)


def test_closed_streams_leave_their_numbers_to_no_file() -> None:
    """What a library prints would go into our files."""
    check = "handle = os.open(os.devnull, os.O_RDONLY); print('x', flush=True); os._exit(handle)"
    assert python(PRINTS + check, "<&- >&- 2>&-").returncode > 2


def test_output_that_knows_only_ascii() -> None:
    done = python(PRINTS + "print('1 \xb1 2')", "", PYTHONIOENCODING="ascii")
    assert (done.stdout, done.stderr) == ("1 ? 2\n", "")


def test_variables_of_others_do_not_end_the_program() -> None:
    program = "from hindsight_rl.cli import main; main(['methods', 'hpg']); import matplotlib"
    assert python(program, "", MPLBACKEND="nonsense").returncode == 0
    done = python(
        "from hindsight_rl.cli import main; main(['gradients', 'bit-flipping-2'])", "", JAX_ENABLE_X64="nonsense"
    )
    assert done.returncode == 2
    assert sentence(done.stderr).endswith("the environment variable JAX_ENABLE_X64 is wrong.")


def test_a_study_under_a_wrong_platform_fails_no_run(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(study_text())
    arguments = ["study", "run", str(tmp_path / "study.toml"), "--output", str(tmp_path / "study")]
    done = python(f"from hindsight_rl.cli import main; main({arguments})", "", JAX_PLATFORMS="nonsense")
    assert done.returncode == 2
    assert "2 of 2 cells could not be finished" in sentence(done.stderr)
    assert results_in(tmp_path / "study").runs == []


@pytest.mark.parametrize("path", [LONG_NAME, LONG_PATH, f"{'x' * 50_000}"])
@pytest.mark.parametrize(
    "command",
    [
        ["train", "bit-flipping-4", "--method", "hpg", "--output"],
        ["evaluate"],
        ["render"],
        ["diagnose"],
        ["verify"],
        ["study", "run"],
        ["study", "export"],
        ["study", "report"],
        ["compare"],
        ["export"],
        ["gradients", "bit-flipping-2", "--run-folder"],
    ],
)
def test_paths_that_nobody_can_use(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main([*command, path])
    assert stop.value.code == 2
    shown = capsys.readouterr().err
    assert len(sentence(shown)) < 5000
    assert list(tmp_path.iterdir()) == []


def test_a_folder_called_like_a_temporary_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".hindsight-x.tmp").mkdir()
    (tmp_path / ".x.tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["train", "bit-flipping-4", "--output", "."])
    assert stop.value.code == 2
    assert "what it holds is not ours" in sentence(capsys.readouterr().err)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hindsight-x.tmp", ".x.tmp"]
