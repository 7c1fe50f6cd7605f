"""Standard output and error, which may be closed, full, or know only ASCII."""

import contextlib
import io
import os
import sys
from typing import TextIO

from hindsight_rl.core.errors import one_sentence


def prepare() -> None:
    """Make the streams take whatever is printed.

    Where one was closed, the next file to be opened would get its number, and what a library prints would go into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def flush() -> None:
    """Write what is printed, which is the last moment to hear that it cannot be written."""
    sys.stdout.flush()


def say(sentence: str, code: int) -> int:
    """Print the sentence with which the program ends; returns its exit code."""
    try:
        print(f"hindsight: {one_sentence(sentence)}", file=sys.stderr, flush=True)
    except OSError:  # the terminal is closed, or nobody reads on
        write_no_more(sys.stderr)
    try:
        flush()
    except OSError:
        write_no_more(sys.stdout)
    return code


def leave(code: int) -> None:
    """End at once. While Python is taken apart it hears signals no more, and a compiled program may still call back."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def write_no_more(stream: TextIO) -> None:
    """What is still written to a closed stream goes nowhere: the interpreter's last flush must not fail."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
