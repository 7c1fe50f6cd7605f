"""Whole files or nothing: a reader never meets a half-written file."""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from hindsight_rl.core.errors import HindsightError

JSON: TypeAlias = bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"] | None
"""Anything that JSON can hold; a tuple comes back as a list."""


def write_atomically(path: Path, content: bytes) -> None:
    """Put `content` at `path` at once, so that a crash or a full disk leaves what was there before."""
    temporary = path.parent / f".{secrets.token_hex(8)}.tmp"
    try:
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
    except OSError:
        os.close(handle)
        raise HindsightError(f"Another process is writing to '{folder}'.") from None
    try:
        yield
    finally:
        os.close(handle)


def remove_leftovers(folder: Path) -> None:
    """Remove the unfinished files of a writer that was killed; only for the one writer of a folder."""
    for leftover in folder.glob(".*.tmp"):
        leftover.unlink(missing_ok=True)


def write_json(path: Path, value: JSON) -> None:
    """Write a value as indented JSON, atomically."""
    try:
        text = json.dumps(value, indent=2, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise HindsightError(f"Could not write {path}: the value is not valid JSON ({error}).") from error
    write_atomically(path, (text + "\n").encode())


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    content = read_bytes(path)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise HindsightError(f"{path} is not a valid JSON file: {error}.") from error


def read_bytes(path: Path) -> bytes:
    """Read a whole file, with a clear sentence when that fails."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise HindsightError(f"There is no file {path}.") from error
    except OSError as error:
        raise HindsightError(f"Could not read {path}: {_cause(error)}.") from error


def _write_durably(path: Path, content: bytes) -> None:
    # Mode x refuses to follow a link or to reuse a file that somebody else put there.
    with path.open("xb") as file:
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
