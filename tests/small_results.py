"""Runs that nobody trained, a reader of event files, and disks that fill up: for tests that need no JAX."""

import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboardX.crc32c import crc32c
from tensorboardX.proto.event_pb2 import Event

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.results import ResultsFile
from hindsight_rl.records.runs import DEFINITIVE, Cell, FinishedRun, RunKey, StudyResults

CELL = Cell("bit-flipping-4", 8, "hpg")


def refusal(call: Callable[[], Any]) -> str:
    """The sentence with which something is refused."""
    with pytest.raises(HindsightError) as refused:
        call()
    return str(refused.value)


def example_run(seed: int = 0, stage: str = DEFINITIVE, **changes: Any) -> FinishedRun:
    """A finished run that nobody trained."""
    batches = np.arange(0, 50, 10)
    content: dict[str, Any] = {
        "cell": CELL,
        "key": RunKey(stage, (("learning_rate", 1e-2),), seed),
        "settings": {"method": "hpg", "hidden_layers": [16]},
        "batches": batches,
        "episodes": 8 * batches,
        "metrics": metrics(np.arange(5) / 3 + seed, np.arange(5) / 7),
        "seconds": 1.5,
        "origin": 1,
    }
    return FinishedRun(**{**content, **changes})


def metrics(mean_returns: np.ndarray, success_rates: np.ndarray, **others: np.ndarray) -> dict[str, np.ndarray]:
    """What a run recorded, by name."""
    return {"mean_return": mean_returns, "success_rate": success_rates, **others}


def truncate(path: Path) -> None:
    """Cut a file in half."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def example_file(path: Path) -> Path:
    """Make a file with three runs."""
    with ResultsFile.open(path, create=True) as file:
        file.write_facts({"name": "example"})
        file.write_plans({CELL: {"seed": 0}})
        origin = file.write_origin({"jax": "1"})
        records = {"ratios": np.eye(3, dtype=int)}
        recorded = metrics(np.arange(5) / 3, np.arange(5) / 7, entropy=np.array([np.nan, 4, 3, 2, 1]))
        more: dict[str, Any] = {"origin": origin, "records": records, "metrics": recorded}
        file.write_runs([example_run(seed, **more) for seed in range(3)])
    return path


def read(path: Path, seconds_to_wait: float = 10.0) -> StudyResults:
    with ResultsFile.open(path, seconds_to_wait=seconds_to_wait) as file:
        return file.read()


def write(path: Path, runs: Sequence[FinishedRun], seconds_to_wait: float = 10.0) -> None:
    with ResultsFile.open(path, create=True, seconds_to_wait=seconds_to_wait) as file:
        file.write_runs(runs)


def masked(content: bytes) -> int:
    """The checksum that guards each part of a record."""
    checksum = crc32c(content)
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def events_in(path: Path) -> Iterator[Event]:
    """Every event of a file: length, its checksum, the event, its checksum."""
    content = path.read_bytes()
    while content:
        (length,), (guard,) = struct.unpack("<Q", content[:8]), struct.unpack("<I", content[8:12])
        assert guard == masked(content[:8])
        body, (guard,) = content[12 : 12 + length], struct.unpack("<I", content[12 + length : 16 + length])
        assert guard == masked(body)
        yield Event.FromString(body)
        content = content[16 + length :]


def scalars_in(folder: Path) -> list[tuple[int, str, float]]:
    """Step, name and value of all that a run's folder holds, in the order of its files."""
    return [
        (event.step, value.tag, value.simple_value)
        for path in sorted(folder.iterdir())
        for event in events_in(path)
        for value in event.summary.value
    ]


def on_a_small_disk(
    folder: Path, size: str, command: Sequence[str], **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command for which a folder is a disk of its own, in memory, that vanishes with it."""
    script = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"'
    namespace = ["unshare", "--map-root-user", "--mount"]
    try:
        subprocess.run([*namespace, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this system allows no file systems of one's own")
    whole = [*namespace, "sh", "-c", script, "sh", size, str(folder), *command]
    return subprocess.run(whole, capture_output=True, text=True, check=False, **options)
