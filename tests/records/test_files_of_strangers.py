"""Files that nobody should trust: pipes and devices that never end, archives that unfold, manifests that lie."""

import errno
import fcntl
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_results import refusal

from hindsight_rl.core.memory import MOST_BYTES_OF_TEXT
from hindsight_rl.environments.registry import specify
from hindsight_rl.experiments.configuration import read_configuration
from hindsight_rl.experiments.study.files import load_study
from hindsight_rl.records import checkpoints, files
from hindsight_rl.records.checkpoints import load_checkpoint, save_checkpoint
from hindsight_rl.records.evaluations import Evaluations


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint.npz"


def test_a_pipe_or_a_device_in_the_place_of_a_file(path: Path) -> None:
    """Both would be read for ever."""
    for make in (os.mkfifo, lambda place: place.symlink_to("/dev/zero")):
        make(path)
        assert refusal(lambda: load_checkpoint(path)) == f"Could not read {path}: it is not a regular file."
        assert refusal(lambda: specify(f"grid:{path}")) == f"The map file '{path}' is not a regular file."
        path.unlink()


def test_a_pipe_or_a_device_is_not_replaced_by_a_file(path: Path) -> None:
    os.mkfifo(path)
    assert "it is there already, and is not a regular file." in refusal(lambda: files.write_atomically(path, b"x"))
    assert path.is_fifo()
    assert list(path.parent.iterdir()) == [path]


def test_files_that_are_far_too_large_are_refused_before_they_are_read(path: Path) -> None:
    """They have holes, so that they take no room on the disk; each would fill many times as much memory."""
    path.touch()
    for size, attempts in (
        (10**13, (lambda: load_checkpoint(path), lambda: files.read_bytes(path))),
        (
            MOST_BYTES_OF_TEXT + 1,
            (lambda: files.read_json(path), lambda: read_configuration(path), lambda: load_study(str(path))),
        ),
    ):
        os.truncate(path, size)
        for attempt in attempts:
            assert refusal(attempt).startswith(f"Could not read {path}: it has {size:,} bytes, and at most ")
    expected = f"The map file '{path}' has {size:,} bytes, and no map has so many."
    assert refusal(lambda: specify(f"grid:{path}")) == expected


def test_a_manifest_that_is_far_too_large_is_not_taken_apart(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", b" " * (MOST_BYTES_OF_TEXT + 1))
    assert "'manifest.json' has 32,000,001 bytes" in refusal(lambda: load_checkpoint(path))


def test_an_archive_that_would_fill_the_memory_is_refused_before_it_is_unfolded(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", bytes(50_000_000))
    assert path.stat().st_size < 100_000
    message = f"{path} is damaged or not a checkpoint: it is not a whole .npz file (it is compressed)."
    assert refusal(lambda: load_checkpoint(path)) == message


@pytest.mark.parametrize(
    "content",
    [{}, {"arrays": {}}, {"arrays": [], "metadata": {}}, {"arrays": {}, "metadata": 3}, {"arrays": {"a": 1}}],
)
def test_a_manifest_of_another_form(path: Path, content: dict[str, Any]) -> None:
    """Its digest is right: whoever wrote it knew how."""
    content = {"format": checkpoints.FORMAT, **content}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps({**content, "sha256": checkpoints._digest(content)}))
    message = refusal(lambda: load_checkpoint(path))
    assert message == f"{path} is damaged or not a checkpoint: its manifest lists no arrays or no metadata."


def evaluated() -> dict[str, np.ndarray]:
    values = np.zeros((1, 2))
    metrics = {"mean_return": values, "success_rate": values}
    return Evaluations(np.arange(1), {"learning_rate": np.ones(1)}, np.arange(2), np.arange(2), metrics).to_arrays()


@pytest.mark.parametrize(
    "change",
    [
        {"extra": np.zeros(1)},
        {"extra/thing": np.zeros(1)},
        {"batches": None},
        {"metrics/mean_return": None},
        {"batches": np.array(["a", "b"])},
        {"metrics/mean_return": np.array([["a", "b"]])},
        {"seeds": np.array(3)},
        {"metrics": np.array(3)},
    ],
)
def test_evaluations_with_an_array_too_many_too_few_or_of_another_kind(change: dict[str, np.ndarray | None]) -> None:
    arrays = {name: array for name, array in {**evaluated(), **change}.items() if array is not None}
    assert "\n" not in refusal(lambda: Evaluations.from_arrays(arrays))


def test_a_folder_on_a_disk_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(Exception, match=r"cannot be locked: No locks available\."), files.claimed(tmp_path):
        pass


def test_what_is_left_behind_is_removed_where_nobody_claims_the_folder_once_it_is_old(tmp_path: Path) -> None:
    young, old = tmp_path / ".hindsight-1.tmp", tmp_path / ".hindsight-2.tmp"
    for leftover in (young, old):
        leftover.touch()
    os.utime(old, (0, 0))
    files.remove_leftovers(tmp_path, tmp_path / "nowhere", older_than=files.SECONDS_OF_WRITING)
    assert [path.name for path in tmp_path.iterdir()] == [young.name]


def test_checkpoints_are_stored_as_they_are_and_so_are_read(path: Path) -> None:
    save_checkpoint(path, {"zeros": np.zeros(100_000)}, {})
    assert load_checkpoint(path)[0]["zeros"].shape == (100_000,)
