"""A worker does not outlive the process that started it, whatever its simulator is doing."""

import ctypes
import os
import signal
import sys
import threading
import time
from contextlib import suppress

SECONDS_BETWEEN_LOOKS = 1.0
_SET_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


def end_with_parent(parent: int) -> None:
    """End this process when its parent does. Linux kills it, even where it is stopped; elsewhere a thread looks."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)
