"""Help: complete, and there at once."""

import subprocess
import sys
from dataclasses import fields

import pytest

from hindsight_rl.cli import main
from hindsight_rl.cli.commands import Environments, Evaluate, Methods, Render, Train

TRAINING_FLAGS = [
    "--method",
    "--batch-size",
    "--batches",
    "--evaluate-every",
    "--evaluation-episodes",
    "--learning-rate",
    "--baseline-learning-rate",
    "--runs",
    "--seed",
    "--hidden-layers",
    "--max-active-goals",
    "--horizon",
    "--ended",
    "--output",
    "--resume",
    "--json",
]

COMMANDS = {"train": Train, "evaluate": Evaluate, "render": Render, "environments": Environments, "methods": Methods}

HEAVY_MODULES_AFTER = """
import sys
from hindsight_rl.cli import main
try:
    main(sys.argv[1:])
except SystemExit as stop:
    assert not stop.code, stop.code
print("loaded:", *sorted({"jax", "numpy", "matplotlib", "equinox"} & sys.modules.keys()))
"""


def help_text(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert not stop.value.code
    return capsys.readouterr().out


def test_program_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_text(capsys)
    for command in COMMANDS:
        assert command in text


@pytest.mark.parametrize("flag", TRAINING_FLAGS)
def test_training_has_the_flag(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    assert flag in help_text(capsys, "train").split()


@pytest.mark.parametrize("command", COMMANDS)
def test_command_lists_its_flags(capsys: pytest.CaptureFixture[str], command: str) -> None:
    text = help_text(capsys, command)
    for field in fields(COMMANDS[command]):
        positional = field.name in ("environment", "folder")
        expected = {"environment": "ENVIRONMENT", "folder": "RUN"}[field.name] if positional else field.name
        assert expected.replace("_", "-") in text


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["render", "--help"]])
def test_help_does_not_wait_for_heavy_imports(arguments: list[str]) -> None:
    command = [sys.executable, "-c", HEAVY_MODULES_AFTER, *arguments]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "usage: hindsight" in shown.stdout
    assert shown.stdout.splitlines()[-1] == "loaded:"
