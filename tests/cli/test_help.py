"""Help: complete, and there at once."""

import subprocess
import sys
from dataclasses import fields

import pytest

from hindsight_rl.cli import main
from hindsight_rl.cli.commands import Check, Diagnose, Environments, Evaluate, Methods, Render, Verify
from hindsight_rl.cli.main import COMMANDS as ALL_COMMANDS
from hindsight_rl.cli.main import GROUPS
from hindsight_rl.cli.policy_commands import Export, Zoo
from hindsight_rl.cli.train_command import TrainOwn
from hindsight_rl.core.options import described
from hindsight_rl.core.run import RunSettings
from hindsight_rl.methods.registry import METHODS

TRAINING_FLAGS = [
    "--method",
    "--batch-size",
    "--batches",
    "--evaluate-every",
    "--evaluation-episodes",
    "--learning-rate",
    "--runs",
    "--seed",
    "--hidden-layers",
    "--max-active-goals",
    "--episodes-end",
    "--ended",
    "--output",
    "--resume",
    "--json",
]

COMMANDS = {
    "train": TrainOwn,
    "evaluate": Evaluate,
    "diagnose": Diagnose,
    "render": Render,
    "export": Export,
    "zoo": Zoo,
    "environments": Environments,
    "methods": Methods,
    "check": Check,
    "verify": Verify,
}

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
    assert "Train an agent" in text
    assert "--version" in text


@pytest.mark.parametrize("command", [*ALL_COMMANDS, *(f"study {name}" for name in GROUPS["study"])])
def test_help_says_what_is_required_and_what_is_off(capsys: pytest.CaptureFixture[str], command: str) -> None:
    text = " ".join(help_text(capsys, *command.split()).replace("│", " ").split())
    assert "(default: )" not in text
    assert "(default: False)" not in text
    assert "What `hindsight" not in text


@pytest.mark.parametrize("flag", TRAINING_FLAGS)
def test_training_has_the_flag(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    assert flag in help_text(capsys, "train", "--method", "hpg").split()


@pytest.mark.parametrize("method", METHODS)
def test_help_is_grouped_and_has_every_option_of_the_method_and_no_other(
    capsys: pytest.CaptureFixture[str], method: str
) -> None:
    text = help_text(capsys, "train", "four-rooms", "--method", method)
    run, environment, own = (text.index(f"{title} options") for title in ("run", "environment", "method"))
    assert run < environment < own
    assert "--slip" in text[environment:own]
    words = text[own:].replace(",", " ").split()
    assert all(one.flag in words for one in METHODS[method].visible)
    foreign = {one.flag for other in METHODS.values() for one in other.visible} - {
        one.flag for one in METHODS[method].visible
    }
    assert not foreign & set(words)
    assert all(one.flag in text[run:environment].replace(",", " ").split() for one in described(RunSettings))


@pytest.mark.parametrize("method", METHODS)
def test_every_option_has_a_sentence(method: str) -> None:
    for one in METHODS[method].visible:
        assert one.help.endswith("."), one.name


@pytest.mark.parametrize("command", COMMANDS)
def test_command_lists_its_flags(capsys: pytest.CaptureFixture[str], command: str) -> None:
    text = help_text(capsys, command)
    for field in fields(COMMANDS[command]):
        positional = {"environment": "ENVIRONMENT", "folder": "RUN", "name": "[NAME]"}
        expected = positional.get(field.name, field.name)
        assert expected.replace("_", "-") in text


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["render", "--help"]])
def test_help_does_not_wait_for_heavy_imports(arguments: list[str]) -> None:
    command = [sys.executable, "-c", HEAVY_MODULES_AFTER, *arguments]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "usage: hindsight" in shown.stdout
    assert shown.stdout.splitlines()[-1] == "loaded:"
