"""`hindsight verify`: a line on each file of run and study folders."""

import sys

from hindsight_rl.cli.commands import Verify
from hindsight_rl.cli.console import PlainConsole
from hindsight_rl.core.errors import in_a_line
from hindsight_rl.experiments.verification import verify


def run_verify(command: Verify) -> None:
    """Print a line a file; end with 1 when one is damaged."""
    console, damaged = PlainConsole(), 0
    for verdict in verify(command.folder):
        damaged += not verdict.sound
        word = "ok" if verdict.sound else "DAMAGED"
        console.print(f"{word:<8}{in_a_line(verdict.path)}: {in_a_line(verdict.sentence)}", soft_wrap=True)
    if damaged:
        sys.exit(1)
