"""Checkpoints: named arrays and a little metadata in one .npz file that notices any damage to itself."""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.files import JSON, read_bytes, write_atomically

FORMAT = 1
"""Version of the layout; a reader refuses every other one."""

_MANIFEST = "manifest.json"
_PLAIN_KINDS = "biufcSUVmM"


def save_checkpoint(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, JSON]) -> None:
    """Write arrays and metadata as one file, atomically; the same content always gives the same bytes."""
    write_atomically(path, checkpoint_bytes(arrays, metadata, path))


def checkpoint_bytes(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, JSON], name: Path) -> bytes:
    """What a checkpoint's file holds; errors speak of it by `name`."""
    plain = {array_name: _plain(array_name, array, name) for array_name, array in arrays.items()}
    entries = {f"{array_name}.npy": _npy_bytes(array) for array_name, array in plain.items()}
    entries[_MANIFEST] = _manifest_bytes(name, plain, metadata)
    return _zip_bytes(entries)


def seconds_until_next(wanted: float, took: float) -> float:
    """How long to wait with the next checkpoint: large ones (replay buffers) must not take more than a twentieth."""
    return wanted if took < 1 else max(wanted, 20 * took)


def load_checkpoint(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `save_checkpoint` wrote, after checking every array and the metadata against their digests."""
    return read_checkpoint(read_bytes(path), path)


def read_checkpoint(content: bytes, path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What `checkpoint_bytes` put together, after the same checks; errors speak of it by `path`."""
    entries = _unzip(path, content)
    manifest = _verified_manifest(path, entries)
    listed = manifest.get("arrays")
    if not isinstance(listed, dict) or not isinstance(manifest.get("metadata"), dict):
        raise _damaged(path, "its manifest lists no arrays or no metadata")
    for name in entries.keys() - {f"{name}.npy" for name in listed} - {_MANIFEST}:
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


def _npy_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _describe(array: np.ndarray) -> dict[str, Any]:
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.str,
        "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
    }


def _manifest_bytes(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, JSON]) -> bytes:
    described = {name: _describe(array) for name, array in arrays.items()}
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


def _zip_bytes(entries: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in entries.items():
            # A fixed date and system: the clock or the machine would make equal checkpoints differ.
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def _unzip(path: Path, content: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            # Nothing that hindsight writes is compressed: what would unfold to more than the file holds is not ours.
            stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in archive.infolist())
            if not stored or sum(entry.file_size for entry in archive.infolist()) > len(content):
                raise ValueError("it is compressed")
            return {entry.filename: archive.read(entry) for entry in archive.infolist()}
    # A flipped bit can send zipfile down any of its paths, and no list of what those raise is complete.
    except Exception as error:
        raise _damaged(path, f"it is not a whole .npz file ({_first_line(error)})") from error


def _verified_manifest(path: Path, entries: Mapping[str, bytes]) -> dict[str, Any]:
    if _MANIFEST not in entries:
        raise _damaged(path, "it has no manifest, so hindsight did not write it")
    try:
        content = dict(json.loads(entries[_MANIFEST]))
    except (TypeError, ValueError, RecursionError) as error:
        raise _damaged(path, f"its manifest is not valid JSON ({_first_line(error)})") from error
    if content.get("format") != FORMAT:
        found = content.get("format")
        raise HindsightError(f"{path} has checkpoint format {found!r}, but this hindsight reads only {FORMAT}.")
    if content.pop("sha256", None) != _digest(content):
        raise _damaged(path, "its manifest does not match its own digest")
    return content


def _verified_array(path: Path, name: str, entries: Mapping[str, bytes], description: Mapping[str, Any]) -> np.ndarray:
    if f"{name}.npy" not in entries:
        raise _damaged(path, f"array '{name}' is missing")
    try:
        array = np.lib.format.read_array(io.BytesIO(entries[f"{name}.npy"]), allow_pickle=False)
    # As for the archive: a damaged header can make its parser raise anything.
    except Exception as error:
        raise _damaged(path, f"array '{name}' cannot be read ({_first_line(error)})") from error
    if _describe(array) != description:
        raise _damaged(path, f"array '{name}' does not match its digest")
    return array


def _damaged(path: Path, what: str) -> HindsightError:
    return HindsightError(f"{path} is damaged or not a checkpoint: {what}.")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
