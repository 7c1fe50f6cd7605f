"""Whole files or nothing: a reader never meets a half-written file."""

import fcntl
import json
import os
import secrets
import stat
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.memory import MOST_BYTES_OF_TEXT, memory

JSON: TypeAlias = bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"] | None
"""Anything that JSON can hold; a tuple comes back as a list."""
_TEMPORARY = ".hindsight-*.tmp"
"""The names of files that are being written. Others may have temporary files of their own in the same folder."""
TIMES_AS_LARGE = 32
"""So many times its bytes a text may take when it is taken apart."""
SECONDS_OF_WRITING = 3600.0
"""Nobody takes so long to write one file: one that is older was left behind."""


def write_atomically(path: Path, content: bytes | Callable[[BinaryIO], None]) -> None:
    """Put `content`, or what it writes, at `path` at once: a crash or a full disk leaves what was there before."""
    temporary = path.parent / _TEMPORARY.replace("*", secrets.token_hex(8))
    try:
        # To rename a file over a device would do away with the device.
        if path.exists() and not path.is_file() and not path.is_dir():
            raise HindsightError(f"Could not write {path}: it is there already, and is not a regular file.")
        try:
            _write_durably(temporary, content)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise HindsightError(f"Could not write {path}: {_cause(error)}; what was there before is unchanged.") from error
    _make_names_durable(path)


def write_where_different(path: Path, content: bytes) -> None:
    """Put `content` at `path`, unless it is there."""
    try:
        if path.is_file() and path.read_bytes() == content:
            return
    except OSError:  # what cannot be read may still be replaced
        pass
    write_atomically(path, content)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are missing."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HindsightError(f"The output folder '{path}' cannot be used: {_cause(error)}.") from error


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Make a folder and keep a second writer out of it; the claim ends with the process, however it ends."""
    make_folder(folder)
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise HindsightError(f"The output folder '{folder}' cannot be used: {_cause(error)}.") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            raise HindsightError(f"Another process is writing to '{folder}'.") from None
        raise HindsightError(f"The output folder '{folder}' cannot be locked: {_cause(error)}.") from error
    try:
        yield
    finally:
        os.close(handle)


def require_ours(folder: Path, mark: str) -> None:
    """Refuse a folder of somebody else's: one of ours is new, empty, or has the file `mark` from its first moment."""
    try:
        names = os.listdir(folder) if folder.is_dir() else []
    except OSError as error:
        raise HindsightError(f"The output folder '{folder}' cannot be used: {_cause(error)}.") from error
    if mark not in names and not all(fnmatch(name, _TEMPORARY) for name in names):
        raise HindsightError(
            f"'{folder}' is not empty, and what it holds is not ours (it has no {mark}): choose another output folder."
        )


def remove_leftovers(*folders: Path, older_than: float = 0.0) -> None:
    """Remove the unfinished files of a writer that was killed.

    Only for the one writer of a folder, unless they must be `older_than` some seconds.
    """
    for leftover in (path for folder in folders for path in folder.glob(_TEMPORARY)):
        with suppress(OSError):  # it may be gone by now, or not be ours to remove
            if leftover.is_file() and time.time() - leftover.stat().st_mtime >= older_than:
                leftover.unlink()


def write_json(path: Path, value: JSON) -> None:
    """Write a value as indented JSON, atomically."""
    try:
        text = json.dumps(value, indent=2, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise HindsightError(f"Could not write {path}: the value is not valid JSON ({error}).") from error
    write_atomically(path, (text + "\n").encode())


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    content = read_bytes(path, MOST_BYTES_OF_TEXT)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise HindsightError(f"{path} is not a valid JSON file: {error}.") from error


def read_toml(text: str, source: str) -> dict[str, Any]:
    """What a TOML text holds; the error speaks of it by `source`."""
    try:
        return tomllib.loads(text)
    # Of numbers with thousands of digits, and of lists within lists, Python complains in other ways.
    except (ValueError, RecursionError) as error:
        raise HindsightError(f"{source} is not valid TOML: {error}.") from None


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Read a whole file of at most so many bytes, or of as many as can be taken apart here."""
    with opened(path, memory() // TIMES_AS_LARGE if most is None else most) as file:
        return file.read()


@contextmanager
def opened(path: Path, most: int) -> Iterator[BinaryIO]:
    """A file to read, with a clear sentence where that fails; a pipe or a device may never end, and is refused."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            raise HindsightError(f"Could not read {path}: it is not a regular file.")
        if found.st_size > most:
            raise HindsightError(f"Could not read {path}: it has {found.st_size:,} bytes, and at most {most:,} fit.")
        with path.open("rb") as file:
            yield file
    except FileNotFoundError as error:
        raise HindsightError(f"There is no file {path}.") from error
    except OSError as error:
        raise HindsightError(f"Could not read {path}: {_cause(error)}.") from error


def _write_durably(path: Path, content: bytes | Callable[[BinaryIO], None]) -> None:
    # Mode x refuses to follow a link or to reuse a file that somebody else put there.
    with path.open("xb") as file:
        if callable(content):
            content(file)
        else:
            file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _make_names_durable(path: Path) -> None:
    """Flush the folder, without which a power cut may still bring the older file back."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows cannot open a folder, and needs no flush of it.
        return
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise HindsightError(
            f"Wrote {path}, but could not make sure that it survives a power cut: {_cause(error)}."
        ) from error


def _cause(error: OSError) -> str:
    return error.strerror or str(error)
