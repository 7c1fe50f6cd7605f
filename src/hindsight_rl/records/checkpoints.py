"""Checkpoints: named arrays and a little metadata in one .npz file that notices any damage to itself."""

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.memory import MOST_BYTES_OF_TEXT, memory
from hindsight_rl.records.files import JSON, opened, write_atomically

FORMAT = 1
"""Version of the layout; a reader refuses every other one."""

_MANIFEST = "manifest.json"
_PLAIN_KINDS = "biufcSUVmM"
BYTES_AT_ONCE = 2**20
LONGEST_HEADER = 2**16 + 16
"""Bytes of one in a .npy file, which has 16 bits for its length."""


def save_checkpoint(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, JSON]) -> None:
    """Write arrays and metadata as one file, atomically; the same content always gives the same bytes."""
    write_atomically(path, lambda file: _write(file, arrays, metadata, path))


def checkpoint_bytes(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, JSON], name: Path) -> bytes:
    """What a checkpoint's file holds; errors speak of it by `name`."""
    buffer = io.BytesIO()
    _write(buffer, arrays, metadata, name)
    return buffer.getvalue()


def seconds_until_next(wanted: float, took: float) -> float:
    """How long to wait with the next checkpoint: large ones (replay buffers) must not take more than a twentieth."""
    return wanted if took < 1 else max(wanted, 20 * took)


def load_checkpoint(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `save_checkpoint` wrote, after checking every array and the metadata against their digests."""
    with opened(path, memory()) as file:
        return _read(file, path)


def read_checkpoint(content: bytes, path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What `checkpoint_bytes` put together, after the same checks; errors speak of it by `path`."""
    return _read(io.BytesIO(content), path)


def _read(file: BinaryIO, path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """One entry after another, so that a replay buffer is in memory only once."""
    entries = _Entries(file, path)
    manifest = _verified_manifest(path, entries)
    listed = manifest.get("arrays")
    if not isinstance(listed, dict) or not isinstance(manifest.get("metadata"), dict):
        raise _damaged(path, "its manifest lists no arrays or no metadata")
    for name in sorted(entries.names - {f"{name}.npy" for name in listed} - {_MANIFEST}):
        raise _damaged(path, f"it holds '{name}', which its manifest does not list")
    arrays = {name: _verified_array(path, name, entries, description) for name, description in listed.items()}
    return arrays, manifest["metadata"]


def _plain(name: str, array: np.ndarray, path: Path) -> np.ndarray:
    """The array in row-major order, provided that a .npy file can give its name and its type back."""
    if not name or not name.isprintable():
        raise HindsightError(f"Could not write {path}: {name!r} cannot name an array.")
    array = np.asarray(array, order="C")
    if array.dtype.kind not in _PLAIN_KINDS or np.dtype(array.dtype.str) != array.dtype:
        raise HindsightError(
            f"Could not write {path}: array '{name}' has type {array.dtype}, which a checkpoint cannot hold."
        )
    return array


def _write(file: BinaryIO, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, JSON], path: Path) -> None:
    """One array after another, from where it lies: kept episodes and replay buffers are too large for copies."""
    described = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, given in arrays.items():
            array = _plain(name, given, path)
            described[name] = _describe(array)
            _add(archive, f"{name}.npy", _header(array), _bytes_of(array))
        _add(archive, _MANIFEST, _manifest_bytes(path, described, metadata))


def _add(archive: zipfile.ZipFile, name: str, *pieces: bytes | memoryview) -> None:
    # A fixed date and system: the clock or the machine would make equal checkpoints differ.
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.create_system = 3
    entry.external_attr = 0o644 << 16
    entry.file_size = sum(len(piece) for piece in pieces)
    with archive.open(entry, "w") as file:
        for piece in pieces:
            file.write(piece)


def _header(array: np.ndarray) -> bytes:
    """What stands before the numbers in a .npy file."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, np.lib.format.header_data_from_array_1_0(array))
    return buffer.getvalue()


def _bytes_of(array: np.ndarray) -> memoryview:
    """The numbers of an array in row-major order, without a copy of what is in that order."""
    return array.reshape(-1).view(np.uint8).data if array.nbytes else memoryview(b"")


def _describe(array: np.ndarray) -> dict[str, Any]:
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.str,
        "sha256": hashlib.sha256(_bytes_of(array)).hexdigest(),
    }


def _manifest_bytes(path: Path, described: Mapping[str, JSON], metadata: Mapping[str, JSON]) -> bytes:
    content = {"format": FORMAT, "arrays": described, "metadata": dict(metadata)}
    try:
        # Digest what a reader will see: JSON turns tuples into lists and the keys of a mapping into text.
        content = json.loads(json.dumps(content, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise HindsightError(f"Could not write {path}: its metadata is not valid JSON ({error}).") from error
    return json.dumps(content | {"sha256": _digest(content)}, indent=1).encode()


def _digest(content: Mapping[str, Any]) -> str:
    """The digest of the manifest's content in one canonical spelling."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


class _Entries:
    """What an archive holds, by name; read when it is asked for."""

    def __init__(self, file: BinaryIO, path: Path):
        self._path = path
        with self._complaining():
            self._archive = zipfile.ZipFile(file)
            # Nothing that hindsight writes is compressed: what would unfold to more than the file holds is not ours.
            stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in self._archive.infolist())
            size = file.seek(0, io.SEEK_END)
            if not stored or sum(entry.file_size for entry in self._archive.infolist()) > size:
                raise ValueError("it is compressed")
        self.names = set(self._archive.namelist())

    def read(self, name: str, most: int | None = None) -> bytearray:
        """An entry as it was written, of at most so many bytes; once, and where it can be changed."""
        with self._complaining():
            size = self._archive.getinfo(name).file_size
            if most is not None and size > most:
                raise ValueError(f"'{name}' has {size:,} bytes")
            content, filled = bytearray(size), 0
            with self._archive.open(name) as file:
                while piece := file.read(BYTES_AT_ONCE):
                    content[filled : filled + len(piece)] = piece
                    filled += len(piece)
            return content

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        try:
            yield
        except MemoryError:
            raise
        # A flipped bit can send zipfile down any of its paths, and no list of what those raise is complete.
        except Exception as error:
            raise _damaged(self._path, f"it is not a whole .npz file ({_first_line(error)})") from error


def _verified_manifest(path: Path, entries: _Entries) -> dict[str, Any]:
    if _MANIFEST not in entries.names:
        raise _damaged(path, "it has no manifest, so hindsight did not write it")
    content = entries.read(_MANIFEST, MOST_BYTES_OF_TEXT)
    try:
        manifest = dict(json.loads(content))
    except (TypeError, ValueError, RecursionError) as error:
        raise _damaged(path, f"its manifest is not valid JSON ({_first_line(error)})") from error
    if manifest.get("format") != FORMAT:
        found = manifest.get("format")
        raise HindsightError(f"{path} has checkpoint format {found!r}, but this hindsight reads only {FORMAT}.")
    if manifest.pop("sha256", None) != _digest(manifest):
        raise _damaged(path, "its manifest does not match its own digest")
    return manifest


def _verified_array(path: Path, name: str, entries: _Entries, description: Mapping[str, Any]) -> np.ndarray:
    if f"{name}.npy" not in entries.names:
        raise _damaged(path, f"array '{name}' is missing")
    content = entries.read(f"{name}.npy")
    try:
        array = _array_of(content)
    # As for the archive: a damaged header can make its parser raise anything.
    except Exception as error:
        raise _damaged(path, f"array '{name}' cannot be read ({_first_line(error)})") from error
    if _describe(array) != description:
        raise _damaged(path, f"array '{name}' does not match its digest")
    return array


def _array_of(content: bytearray) -> np.ndarray:
    """The array of a .npy file, in the very memory that holds the file."""
    start = io.BytesIO(content[:LONGEST_HEADER])
    if np.lib.format.read_magic(start) != (1, 0):
        raise ValueError("it is of another version")
    shape, by_column, dtype = np.lib.format.read_array_header_1_0(start)
    if dtype.kind not in _PLAIN_KINDS or start.tell() + math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError("its header is not that of what follows")
    return np.ndarray(shape, dtype, content, start.tell(), order="F" if by_column else "C")


def _damaged(path: Path, what: str) -> HindsightError:
    return HindsightError(f"{path} is damaged or not a checkpoint: {what}.")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
