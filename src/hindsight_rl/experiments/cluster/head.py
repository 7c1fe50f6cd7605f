"""The head of a cluster: whether it is still there, asked by whoever needs it and by a thread that looks after it.

Without its head Ray lets whoever asks it something wait, deaf to signals, and after a minute ends this process without
a sentence: while it starts, while it works, and while it ends.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from hindsight_rl.core.errors import HindsightError

SECONDS_TO_ANSWER = 7.0
SECONDS_BETWEEN_LOOKS = 2.0
SECONDS_TO_LEAVE = 20.0
"""For this process, after the head was found gone: with two looks, and time to answer, still less than Ray's minute."""
GONE = "The head of the Ray cluster is gone; what is finished is kept."
MISTAKE = 2
"""The exit code of a command that ended with a sentence."""
SHOW_CURSOR = "\x1b[?25h\n"
"""What a line that moves leaves behind on a terminal is undone."""


class Head:
    """The process that a cluster cannot do without."""

    def __init__(self) -> None:
        self._looked = time.monotonic()
        self.is_there: Callable[[], bool] | None = None
        """Not known before Ray has started it, nor to a driver outside of the cluster."""

    def require(self, now: bool = False) -> None:
        """Raise a sentence where it is gone; look only now and then, unless something went wrong just now."""
        if not now and time.monotonic() - self._looked < SECONDS_BETWEEN_LOOKS:
            return
        if self.is_gone:
            raise HindsightError(GONE)
        self._looked = time.monotonic()

    @property
    def is_gone(self) -> bool:
        """Whether it was there, and is no more."""
        return self.is_there is not None and not self.is_there()


def answering(host: str, port: int) -> Callable[[], bool]:
    """Whether somebody answers at an address."""

    def answers() -> bool:
        try:
            socket.create_connection((host, port), SECONDS_TO_ANSWER).close()
        except OSError:
            return False
        return True

    return answers


@contextmanager
def ending_without(head: Head) -> Iterator[None]:
    """End this process where it stays within for long after the head is gone. What is recorded is whole at any time."""
    left = threading.Event()
    threading.Thread(target=_end_without, args=(head, left), daemon=True).start()
    try:
        yield
    finally:
        left.set()


def _end_without(head: Head, left: threading.Event) -> None:
    gone_since: float | None = None
    while not left.wait(SECONDS_BETWEEN_LOOKS):
        now = time.monotonic()
        if not head.is_gone:
            gone_since = None
        elif gone_since is None:
            gone_since = now
        elif now - gone_since > SECONDS_TO_LEAVE and not left.is_set():
            end_with(GONE)


def end_with(sentence: str) -> NoReturn:
    """End this process at once, as after any mistake."""
    stream = sys.__stderr__
    try:
        if stream is not None:
            print(f"{SHOW_CURSOR * stream.isatty()}hindsight: {sentence}", file=stream, flush=True)
    finally:
        os._exit(MISTAKE)
