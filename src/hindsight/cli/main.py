"""Parsing, and turning every foreseeable mistake into one sentence and a non-zero exit."""

import sys
from collections.abc import Sequence
from typing import Annotated

import tyro

from hindsight.cli.commands import Environments, Evaluate, Methods, Render, Train
from hindsight.core.errors import HindsightError

Command = (
    Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
    | Annotated[Render, tyro.conf.subcommand("render")]
    | Annotated[Environments, tyro.conf.subcommand("environments")]
    | Annotated[Methods, tyro.conf.subcommand("methods")]
)

DESCRIPTION = """Hindsight policy gradients: learn about every goal an agent passed, whatever it set out for.

Start with: hindsight train bit-flipping-8"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program; the exit code is 0, 2 for a mistake in the input, or 130 after Ctrl-C."""
    try:
        command = tyro.cli(
            Command,
            prog="hindsight",
            description=DESCRIPTION,
            args=arguments,
            config=(tyro.conf.OmitArgPrefixes,),
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


def _say(sentence: str, code: int) -> int:
    print(f"hindsight: {sentence}", file=sys.stderr)
    return code
