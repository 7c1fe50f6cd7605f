"""Ctrl-C, SIGTERM, SIGHUP and SIGUSR1: one kind of interruption, which is never a failure of what it met.

An interruption is a `KeyboardInterrupt`. Raised in the wrong place it would be lost: compiled programs that call back
into Python turn it into an error of their own, and finalisers swallow it. There it is only noted, and raised at the
next place that asks (`raise_if_interrupted`).
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
"""The last is what batch queues can be told to send some time before they end a job."""
_NOT_RAISED_IN_FILES = ("jax/_src/callback.py", "jax/_src/buffer_callback.py", "/weakref.py", "/_weakrefset.py")
_NOT_RAISED_IN = ("__del__", "_xla_gc_callback")
"""Files and functions from which no exception comes out; the last is what JAX has Python's garbage collector call."""
_SWITCHES = ("jax/_src/core.py", "jax/_src/config.py")
_SWITCHING = ("__enter__", "__exit__", "set_trace", "set_axis_env", "set_local")
"""Where JAX begins and ends to trace: interrupted there, it would take all that is computed later for traced."""


class _Received:
    """What has come so far. Signals belong to the whole process, and so does this."""

    signal: int | None = None
    answered = False


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Let each of `SIGNALS` interrupt what runs within, but for those that the process was told to ignore (nohup)."""
    _Received.signal, _Received.answered = None, False
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, _interrupt) for each in heard}
    complain, sys.unraisablehook = sys.unraisablehook, _complain_of_others
    try:
        yield
    finally:
        sys.unraisablehook = complain
        for each, handler in before.items():
            signal.signal(each, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # The second of several changes nothing: what was learned is being saved.
    if not _Received.answered:
        _Received.signal = number
        if _can_raise(frame):
            raise KeyboardInterrupt


def _complain_of_others(lost: Any) -> None:
    """An interruption that was lost where no exception comes out is no news: it is known, and raised again later."""
    if not isinstance(lost.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(lost)


def _can_raise(frame: FrameType | None) -> bool:
    while frame is not None:
        code = frame.f_code
        if code.co_name in _NOT_RAISED_IN or code.co_filename.endswith(_NOT_RAISED_IN_FILES):
            return False
        if code.co_name in _SWITCHING and code.co_filename.endswith(_SWITCHES):
            return False
        frame = frame.f_back
    return True


def raise_if_interrupted() -> None:
    """Raise an interruption that could not be raised where it came, or was swallowed there."""
    if _Received.signal is not None and not _Received.answered:
        raise KeyboardInterrupt


def answer() -> None:
    """From now on further signals change nothing: the interruption has arrived where it is dealt with."""
    _Received.answered = True


def is_interruption(error: BaseException) -> bool:
    """Whether an error is, or comes of, an interruption: compiled programs only hand on what its text was."""
    if isinstance(error, KeyboardInterrupt) or _Received.signal is not None:
        return True
    return "CpuCallback error" in str(error) and "KeyboardInterrupt" in str(error)


def exit_code() -> int:
    """What the shell is told of an interruption: 128 and the number of the signal."""
    return 128 + (_Received.signal or signal.SIGINT)
