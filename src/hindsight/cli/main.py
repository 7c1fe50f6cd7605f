"""Parsing, and turning every foreseeable mistake into one sentence and a non-zero exit."""

import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import tyro

from hindsight.cli.commands import Environments, Evaluate, Methods, Render, Train
from hindsight.core.errors import HindsightError, unknown

DESCRIPTION = """Hindsight policy gradients: learn about every goal an agent passed, whatever it set out for.

Start with: hindsight train bit-flipping-8"""


COMMANDS: dict[str, Any] = {
    "train": Train,
    "evaluate": Evaluate,
    "render": Render,
    "environments": Environments,
    "methods": Methods,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program; the exit code is 0, 2 for a mistake in the input, or 130 after Ctrl-C."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _require_known(arguments)
        command = tyro.extras.subcommand_cli_from_dict(
            COMMANDS, prog="hindsight", description=DESCRIPTION, args=arguments, config=(tyro.conf.OmitArgPrefixes,)
        )
        command.run()
    except HindsightError as error:
        sys.exit(_say(str(error), 2))
    except KeyboardInterrupt:
        sys.exit(_say("Interrupted.", 130))
    except BrokenPipeError:
        # Whoever read our output has gone (`hindsight ... | head`).
        sys.stderr.close()
        sys.exit(0)


def _require_known(arguments: Sequence[str]) -> None:
    """Name the nearest match for a mistyped command or flag, in a sentence."""
    if not arguments or arguments[0].startswith("-"):
        return
    name, *rest = arguments
    if name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    known = ["--help", *(f"--{field.name.replace('_', '-')}" for field in fields(COMMANDS[name]))]
    for argument in rest:
        flag = argument.partition("=")[0].replace("_", "-")
        if flag.startswith("--") and flag not in known:
            raise unknown(f"flag of '{name}'", flag, known)


def _say(sentence: str, code: int) -> int:
    print(f"hindsight: {sentence}", file=sys.stderr)
    return code
