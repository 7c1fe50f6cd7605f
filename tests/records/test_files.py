"""Whole files or nothing, also when the disk is full."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.files import JSON, read_json, write_atomically, write_json

WRITE_WITH_ROOM_FOR_1000_BYTES = """
import resource, sys
from pathlib import Path
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.files import write_atomically
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomically(Path(sys.argv[1]), b"x" * int(sys.argv[2]))
except HindsightError as error:
    print(error)
"""


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def write_with_little_room(path: Path, size: int) -> str:
    """Write in a process that the kernel stops after 1000 bytes of a file; returns what it printed."""
    command = [sys.executable, "-c", WRITE_WITH_ROOM_FOR_1000_BYTES, str(path), str(size)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_write_creates_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old and longer")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert names_in(tmp_path) == ["file"]


def test_new_file_has_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").write_bytes(b"")
    write_atomically(tmp_path / "ours", b"")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "ours")]
    assert modes[0] == modes[1]


def test_no_room_leaves_older_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    assert write_with_little_room(path, 1000) == ""
    assert path.read_bytes() == b"x" * 1000
    message = write_with_little_room(path, 1001)
    cause = os.strerror(errno.EFBIG)
    assert message == f"Could not write {path}: {cause}; what was there before is unchanged."
    assert path.read_bytes() == b"x" * 1000
    assert names_in(tmp_path) == ["file"]


def test_full_disk_names_path_and_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(HindsightError, match=rf"^Could not write {path}: No space left on device; what was there"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["file"]


def test_interrupt_leaves_older_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["file"]


def test_content_is_flushed_before_it_gets_its_name_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    seen = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        seen.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), path.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    write_atomically(path, b"content")
    assert seen == [(False, False), (True, True)]


def test_write_into_missing_folder_or_onto_folder(tmp_path: Path) -> None:
    with pytest.raises(HindsightError, match=r"Could not write .*missing/file: No such file or directory"):
        write_atomically(tmp_path / "missing" / "file", b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(HindsightError, match=r"Could not write .*folder: Is a directory"):
        write_atomically(tmp_path / "folder", b"")
    assert names_in(tmp_path) == ["folder"]


def test_json_round_trip(tmp_path: Path) -> None:
    value: JSON = {"name": "é ± 雪", "list": [1, 2.5, None, True], "nested": {"empty": {}}}
    write_json(tmp_path / "value.json", value)
    assert read_json(tmp_path / "value.json") == value


@pytest.mark.parametrize("value", [float("nan"), {"a": float("inf")}, {"a": object()}])
def test_write_json_refuses_what_json_cannot_hold(tmp_path: Path, value: object) -> None:
    with pytest.raises(HindsightError, match=r"value\.json: the value is not valid JSON"):
        write_json(tmp_path / "value.json", value)  # type: ignore[arg-type]
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\xff\xfe\xfa", b"[" * 100_000])
def test_read_json_of_malformed_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "value.json"
    path.write_bytes(content)
    with pytest.raises(HindsightError, match=r"value\.json is not a valid JSON file"):
        read_json(path)


def test_read_json_of_missing_file_and_of_folder(tmp_path: Path) -> None:
    with pytest.raises(HindsightError, match=r"^There is no file .*value\.json\.$"):
        read_json(tmp_path / "value.json")
    with pytest.raises(HindsightError, match=rf"^Could not read {tmp_path}: Is a directory\.$"):
        read_json(tmp_path)
