"""Where the program's output goes: plain text as it is, since people name folders, studies and maps as they like."""

from rich.console import Console


class PlainConsole(Console):
    """Prints what it is given: square brackets and colons in names are no markup."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    def on_broken_pipe(self) -> None:
        """Whoever read our output has gone, which is for the caller to deal with: something may have to be saved."""
        raise
