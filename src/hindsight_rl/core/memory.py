"""How much memory this process can have, and how long a text may be that is read into it."""

import os
import resource
from contextlib import suppress
from pathlib import Path

_LIMIT_OF_GROUP = Path("/sys/fs/cgroup/memory.max")
MOST_BYTES_OF_TEXT = 32_000_000
"""Nobody writes longer settings, studies, maps or goals; taken apart, a text takes many times its length."""


def memory() -> int:
    """Bytes that this process can have: the machine's, unless a limit of the process or of its group is lower."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        limits.append(soft)
    with suppress(OSError, ValueError):  # there may be no group, or none with a limit ("max")
        limits.append(int(_LIMIT_OF_GROUP.read_text()))
    return min(limits)
