"""The command-line program `hindsight`. Nothing heavy is imported before a command runs."""

from hindsight_rl.cli.main import main

__all__ = ["main"]
