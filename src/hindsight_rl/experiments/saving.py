"""Checkpointing, for jobs and studies alike: every so often while something trains, and when it is interrupted."""

import time
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Self

from hindsight_rl.core.interruption import answer
from hindsight_rl.records.checkpoints import seconds_until_next
from hindsight_rl.training.state import Snapshot


class Saver:
    """Saves the newest of the snapshots that it is shown now and then; use it as a context manager around training."""

    def __init__(self, save: Callable[[Snapshot], None], seconds: float, held: Snapshot | None = None):
        """`held` is what the checkpoint holds already. Saves are at least `seconds` apart, more if they take long."""
        self._save, self._seconds = save, seconds
        self.newest = held
        self._note()
        self._due = time.monotonic() + seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An interruption (Ctrl-C) comes through here too: nothing that was evaluated is lost.
        if isinstance(error, KeyboardInterrupt):
            answer()
        if kind is not None:
            self.save()

    def show(self, snapshot: Snapshot) -> None:
        """A newer snapshot, which is saved if it is time."""
        self.newest = snapshot
        if time.monotonic() >= self._due:
            began = time.monotonic()
            self.save()
            self._due = time.monotonic() + seconds_until_next(self._seconds, time.monotonic() - began)

    def save(self) -> None:
        """Save the newest snapshot, unless that is done."""
        if self.newest is not None and (self._saved is None or self._saved() is not self.newest):
            self._save(self.newest)
            self._note()

    def _note(self) -> None:
        """What is newest is saved. It is not held on to: replay buffers and kept episodes are large."""
        self._saved = None if self.newest is None else weakref.ref(self.newest)
