"""A command that uses Ray, and a process that guards it: whatever Ray does, the command ends with a sentence.

Where its head or another part of it is gone, or something within it went wrong, Ray's compiled code ends the process
that it is part of, at a moment of its own and without a word; no thread of that process can be sure to come first. So
the command goes on in a child, and its parent, which never touches Ray, hands signals to it and its exit code on.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from hindsight_rl.core.interruption import SIGNALS
from hindsight_rl.experiments.cluster.head import GONE, MISTAKE, SECONDS_BETWEEN_LOOKS, Head, answering, end_with
from hindsight_rl.rollout.orphans import end_with_parent

SECONDS_TO_END = 90.0
"""For a command whose head is gone. It ends itself much sooner, or Ray does after a minute, unless something hangs."""
BY_KERNEL = 0x80
"""What Linux says of a signal that no process sent (SI_KERNEL)."""
ENTERED, LEFT, HEAD_PROCESS, HEAD_PLACE = "entered", "left", "head-process", "head-place"
"""What the child tells its parent."""


class _Pipe:
    """The way to the parent, of the whole process; none where nobody guards it."""

    end: int | None = None


def guarded() -> None:
    """Go on in a child of this process, which only guards it from here on. To be called before JAX begins threads."""
    if _Pipe.end is not None or not hasattr(signal, "sigtimedwait"):
        return  # macOS does without: there Ray may have the last word
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    heard = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN] + [signal.SIGCHLD]
    before, parent = signal.pthread_sigmask(signal.SIG_BLOCK, heard), os.getpid()
    listened, told = os.pipe()
    if child := os.fork():
        os.close(told)
        _Guard(child, listened, heard).run()
    os.close(listened)
    _Pipe.end = told
    end_with_parent(parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def in_the_hands_of_ray() -> Iterator[None]:
    """Within, the end of this process may be Ray's doing."""
    _tell(ENTERED)
    try:
        yield
    finally:
        _tell(LEFT)


def tell_head_process(process: int) -> None:
    """Tell the guard which process the head of a Ray of our own is."""
    _tell(f"{HEAD_PROCESS} {process}")


def known_at(head: Head, host: str, port: int) -> None:
    """Know the head of a cluster by where it answers."""
    head.is_there = answering(host, port)
    _tell(f"{HEAD_PLACE} {host} {port}")


def _tell(line: str) -> None:
    if _Pipe.end is not None:
        os.write(_Pipe.end, f"{line}\n".encode())


class _Guard:
    """What the parent knows of its child, and does for it."""

    def __init__(self, child: int, pipe: int, heard: list[signal.Signals]) -> None:
        self._child, self._pipe, self._heard = child, pipe, heard
        self._in_rays_hands, self._head = False, Head()
        os.set_blocking(pipe, False)

    def run(self) -> NoReturn:
        """Hand signals on to the child until it has ended, and end as it did, or in its place."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        gone_since: float | None = None
        while True:
            received = signal.sigtimedwait(self._heard, SECONDS_BETWEEN_LOOKS)
            # What a terminal sends has reached the child too. Who sends from outside of a container has no number here.
            if received is not None and received.si_signo != signal.SIGCHLD and received.si_code != BY_KERNEL:
                os.kill(self._child, received.si_signo)
            gone = self._head.is_gone  # before it is known whether the child lives, with whom its own head ends
            ended, status = os.waitpid(self._child, os.WNOHANG)
            self._listen()
            if ended:
                self._end(os.waitstatus_to_exitcode(status), gone_since is not None)
            gone_since = (gone_since or time.monotonic()) if gone else None
            if gone_since and time.monotonic() - gone_since > SECONDS_TO_END:
                os.kill(self._child, signal.SIGKILL)

    def _end(self, code: int, head_gone: bool) -> NoReturn:
        if code < 0 or (self._in_rays_hands and code != MISTAKE):
            how = f"exit code {code}" if code >= 0 else f"signal {-code}"
            end_with(
                GONE if head_gone else f"The process that did the work was ended ({how}); what is finished is kept."
            )
        os._exit(code)

    def _listen(self) -> None:
        with suppress(BlockingIOError):
            while content := os.read(self._pipe, 4096):
                for line in content.decode().splitlines():
                    self._hear(*line.split())

    def _hear(self, kind: str, *about: str) -> None:
        if kind in (ENTERED, LEFT):
            self._in_rays_hands, self._head = kind == ENTERED, Head()
        elif kind == HEAD_PROCESS:
            self._head.is_there = _living(int(about[0]))
        elif kind == HEAD_PLACE:
            self._head.is_there = answering(about[0], int(about[1]))


def _living(process: int) -> Callable[[], bool]:
    """Whether a process lives; one that has ended stays in the list until its parent has asked how."""

    def lives() -> bool:
        with suppress(OSError):
            return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        return False

    return lives
