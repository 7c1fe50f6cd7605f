"""What a folder looks like at each moment at which a kill could change what is left of it."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "sqlite3.connect")
MOST_STATES = 60


def states_during(work: Callable[[], Any], folder: Path, home: Path) -> list[Path]:
    """Copies of a folder as it was before each event on its files while `work` writes into it."""
    states: list[Path] = []
    listening = True

    def listen(event: str, details: tuple[Any, ...]) -> None:
        nonlocal listening
        if not listening or event not in _EVENTS or len(states) >= MOST_STATES:
            return
        if event == "open" and not (isinstance(details[2], int) and details[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        if str(folder) not in str(details[0]):
            return
        listening = False  # copying opens files too
        try:
            if folder.exists():
                shutil.copytree(folder, home / f"{folder.name}-{len(states)}")
                states.append(home / f"{folder.name}-{len(states)}")
        finally:
            listening = True

    sys.addaudithook(listen)  # which cannot be taken away again
    try:
        work()
    finally:
        listening = False
    return states
