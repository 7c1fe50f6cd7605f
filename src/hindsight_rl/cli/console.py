"""Where the program's output goes: plain text as it is, since people name folders, studies and maps as they like."""

from typing import Any

from rich.console import Console
from rich.text import Text

from hindsight_rl.core.errors import shown


class PlainConsole(Console):
    """Prints what it is given: brackets and colons in names are no markup, and escape codes steer no terminal."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Also that of cells: what would steer the terminal is written out."""
        return super().render_str(shown(text), **options)

    def on_broken_pipe(self) -> None:
        """Whoever read our output has gone, which is for the caller to deal with: something may have to be saved."""
        raise
