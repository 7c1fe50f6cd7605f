"""How many cores this process may use: those that the system lets it have, or fewer where it was told so."""

import os
from contextlib import suppress
from pathlib import Path

_THREADS = Path("/proc/self/task")


class _Told:
    """The number that the process was told. Threads belong to the whole process, and so does this."""

    cores: int | None = None


def cores() -> int:
    """Cores for this process: what a batch queue or `taskset` leaves of the machine's, or what `use_only` said."""
    return _Told.cores or _allowed()


def use_only(count: int) -> None:
    """Use no more than so many cores from now on. Call it before JAX computes anything.

    JAX starts one thread for each core that it may run on when it first looks for devices. So it is let look while only
    some cores are allowed, and then all threads may run on any core again: how many there are bounds the use, and the
    system chooses the cores, since nobody knows which ones other processes on the machine are on.
    """
    _Told.cores = max(1, count)
    if not hasattr(os, "sched_getaffinity"):  # not Linux: only our own threads are bounded
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(allowed)[: _Told.cores]))
    try:
        import jax

        jax.devices()
    finally:
        for thread in [0, *_other_threads()]:
            with suppress(OSError):  # it may have ended
                os.sched_setaffinity(thread, allowed)


def _other_threads() -> list[int]:
    return [int(path.name) for path in _THREADS.iterdir()] if _THREADS.is_dir() else []


def _allowed() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
