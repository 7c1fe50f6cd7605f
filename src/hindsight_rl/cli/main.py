"""Parsing, and turning every foreseeable mistake into one sentence and a non-zero exit."""

import contextlib
import io
import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from difflib import get_close_matches
from typing import Any, get_type_hints

import tyro

from hindsight_rl import __version__
from hindsight_rl.cli import complaints, streams
from hindsight_rl.cli.commands import Check, Diagnose, Environments, Evaluate, Gradients, Methods, Render, Verify
from hindsight_rl.cli.looking_commands import Compare, RunList, Watch
from hindsight_rl.cli.policy_commands import Export, Zoo
from hindsight_rl.cli.study.commands import STUDY_COMMANDS, StudyCommands
from hindsight_rl.cli.train_command import TrainOwn, check_class, modernised, refuse_flag, train_class
from hindsight_rl.core.errors import HindsightError, fault_of_machine, unknown
from hindsight_rl.core.interruption import answer, exit_code, is_interruption, signals_interrupt

DESCRIPTION = """Hindsight policy gradients: learn about every goal an agent passed, whatever it set out for.

Start with: hindsight train bit-flipping-8
`hindsight COMMAND --help` says what a command takes, `hindsight --version` which version this is."""

COMMANDS: dict[str, Any] = {
    "train": TrainOwn,
    "evaluate": Evaluate,
    "diagnose": Diagnose,
    "render": Render,
    "export": Export,
    "zoo": Zoo,
    "compare": Compare,
    "runs": RunList,
    "watch": Watch,
    "study": StudyCommands,
    "gradients": Gradients,
    "environments": Environments,
    "methods": Methods,
    "check": Check,
    "verify": Verify,
}
GROUPS: dict[str, dict[str, Any]] = {"study": STUDY_COMMANDS}
"""Commands that have commands of their own."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program; the exit code is 0, 2 for a mistake in the input, or 130 after Ctrl-C (143 after SIGTERM).

    `verify` ends with 1 when it found damage.
    """
    os.environ["MPLBACKEND"] = "agg"  # figures go to files; a backend that is not there would end the program
    streams.prepare()
    with signals_interrupt():
        try:
            _run(list(sys.argv[1:] if arguments is None else arguments))
            streams.flush()
        except HindsightError as error:
            sys.exit(streams.say(str(error), 2))
        except BrokenPipeError:
            # Whoever read our output has gone (`hindsight ... | head`).
            streams.write_no_more(sys.stdout)
            sys.exit(0)
        except (KeyboardInterrupt, Exception) as error:
            if is_interruption(error):
                answer()
                said = str(error) if isinstance(error, KeyboardInterrupt) else ""
                code = streams.say(said or "Interrupted.", exit_code())
                if arguments is None:
                    streams.leave(code)
                sys.exit(code)
            if fault := fault_of_machine(error):
                sys.exit(streams.say(fault, 2))
            raise


def _run(arguments: list[str]) -> None:
    """Find the command, parse its arguments and run it."""
    if arguments == ["--version"]:
        print(f"hindsight {__version__}")
        return
    program, commands, description = "hindsight", COMMANDS, DESCRIPTION
    if arguments and arguments[0] in GROUPS:
        description = COMMANDS[arguments[0]].__doc__.partition(" See:")[0]
        program, commands = f"hindsight {arguments[0]}", GROUPS[arguments.pop(0)]
    if commands is COMMANDS and arguments[:1] in (["train"], ["gradients"]):
        arguments = modernised(arguments)
    if commands is COMMANDS and arguments[:1] == ["train"]:
        commands = {**COMMANDS, "train": train_class(arguments[1:])}
    if commands is COMMANDS and arguments[:1] == ["check"]:
        commands = {**COMMANDS, "check": check_class(arguments[1:])}
    _require_known(arguments, program, commands)
    try:
        _parse(arguments, program, commands, description).run()
    except SystemExit:  # of help, or of a command that says more with its exit code
        streams.flush()
        raise


def _require_known(arguments: Sequence[str], program: str, commands: dict[str, Any]) -> None:
    """Name the nearest match for a mistyped command or flag, in a sentence."""
    if not arguments or arguments[0].startswith("-"):
        return
    name, *rest = arguments
    kind = program.removeprefix("hindsight").strip()
    if name not in commands:
        raise unknown(f"{kind} command".strip(), name, commands)
    known = ["--help", *_flags(commands[name])]
    for argument in rest:
        flag = argument.partition("=")[0].replace("_", "-")
        if flag.startswith("--") and flag not in known:
            if hasattr(commands[name], "asked") and not get_close_matches(flag, _flags(TrainOwn), cutoff=0.8):
                raise refuse_flag(commands[name], flag)
            raise unknown(f"flag of '{f'{kind} {name}'.strip()}'", flag, known)
    _require_values(rest, commands[name], f"{program} {name}")


def _flags(command: Any) -> list[str]:
    """The flags of a command, those of its groups included."""
    found: list[str] = []
    for spelled, kind, grouped in _fields(command):
        found += [f"--{spelled}", f"--no-{spelled}"] if grouped and kind is bool else [f"--{spelled}"]
    return found


def _fields(command: Any) -> Iterator[tuple[str, Any, bool]]:
    """Each flag, without its dashes, the type of its value, and whether it belongs to a group."""
    for field, kind in get_type_hints(command).items():
        if is_dataclass(kind):
            yield from ((name.replace("_", "-"), bare, True) for name, bare in get_type_hints(kind).items())
        elif field in command.__dataclass_fields__:
            yield field.replace("_", "-"), kind, False


def _require_values(arguments: Sequence[str], command: Any, see: str) -> None:
    """Refuse a flag that takes several values and has none, which the parser takes for an empty list."""
    several = {f"--{name}" for name, kind, _ in _fields(command) if "tuple[" in str(kind)}
    for flag, following in itertools.pairwise([*arguments, "--"]):
        if flag in several and following.startswith("--"):
            raise HindsightError(f"{flag} needs a value. See: {see} --help")


def _parse(arguments: list[str], program: str, commands: dict[str, Any], description: str) -> Any:
    """The command, or an error with the gist of what tyro has to say, which it prints as a box of many lines."""
    box = io.StringIO()
    try:
        with contextlib.redirect_stderr(box):
            return tyro.extras.subcommand_cli_from_dict(
                commands, prog=program, description=description, args=arguments, config=(tyro.conf.OmitArgPrefixes,)
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        name = arguments[0] if arguments and arguments[0] in commands else ""
        said = complaints.sentence(box.getvalue())
        raise HindsightError(f"{said}. See: {' '.join(filter(None, [program, name, '--help']))}") from None
