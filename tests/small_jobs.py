"""Training jobs small enough for a test, and one folder of compiled programs for all of them."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from hindsight_rl.environments.interface import Task
from hindsight_rl.environments.registry import specify
from hindsight_rl.experiments.definition import Job
from hindsight_rl.training.loop import training
from hindsight_rl.training.program import make_program
from hindsight_rl.training.settings import Settings, make_settings
from hindsight_rl.training.state import Runs, Snapshot, state_to_arrays

ENVIRONMENT = "bit-flipping-4"
SMALL: dict[str, Any] = {
    "method": "hpg",
    "batch_size": 8,
    "batches": 40,
    "evaluate_every": 10,
    "evaluation_episodes": 32,
    "learning_rate": 1e-2,
    "hidden_layers": (16,),
}
"""Jobs that differ only in numbers of batches, rates, runs and seeds share their compiled programs."""

CLAIM = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("claimed", flush=True)
sys.stdin.read()
"""

PROGRAM = Path(sys.executable).with_name("hindsight")


@pytest.fixture(scope="session")
def compiled_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which all tests of a session keep what JAX compiled; never that of the user."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "compiled"
    settings = {"jax_compilation_cache_dir": str(folder), "jax_persistent_cache_min_compile_time_secs": 0.2}
    before = {name: jax.config.values[name] for name in settings}
    _configure(settings)
    yield folder
    _configure(before)


def _configure(settings: dict[str, Any]) -> None:
    for name, value in settings.items():
        jax.config.update(name, value)
    # JAX looks at its settings once, when it first compiles.
    compilation_cache.reset_cache()


def small_settings(**changes: Any) -> Settings:
    return make_settings({**SMALL, **changes})


def small_job(**changes: Any) -> Job:
    return Job(specify(ENVIRONMENT), small_settings(**changes))


def small_flags(**changes: Any) -> list[str]:
    """The settings of `small_settings` as arguments of `hindsight train`."""
    flags = []
    for name, value in {**SMALL, **changes}.items():
        values = value if isinstance(value, tuple) else (value,)
        flags += [f"--{name.replace('_', '-')}", *map(str, values)]
    return flags


def train_to_the_end(
    environment: Task, settings: Settings, runs: Runs | None = None, snapshot: Snapshot | None = None
) -> Snapshot:
    *_, newest = training(make_program(environment, settings), settings, runs, snapshot)
    return newest


def bytes_of_run(snapshot: Snapshot, run: int) -> dict[str, bytes]:
    """All numbers of one run: parameters, the optimisers' state and evaluations."""
    recorded = {name: values[run] for name, values in snapshot.evaluations.metrics.items()}
    learned = {name: array[run] for name, array in state_to_arrays(snapshot.states).items()}
    return {name: array.tobytes() for name, array in {**recorded, **learned}.items()}


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def truncate(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def alter(path: Path) -> None:
    """Change one bit of the largest array: elsewhere there are bytes, such as those for the date, that say nothing."""
    with zipfile.ZipFile(path) as archive:
        largest = max(archive.infolist(), key=lambda member: member.compress_size)
    content = bytearray(path.read_bytes())
    # Its header has 30 bytes and its name; some more may follow, but fewer than half of the array.
    content[largest.header_offset + 30 + len(largest.filename) + largest.compress_size // 2] ^= 4
    path.write_bytes(content)


@contextmanager
def claimed_by_another_process(folder: Path) -> Iterator[None]:
    command = [sys.executable, "-c", CLAIM, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "claimed\n"
        yield
        other.communicate()


def process_environment(compiled_programs: Path) -> dict[str, str]:
    """For processes that use what the tests compiled, but add nothing: they may be killed while they write."""
    settings = {
        "JAX_COMPILATION_CACHE_DIR": str(compiled_programs),
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": str(10**9),
    }
    return {**os.environ, **settings}


def run_program(
    arguments: Sequence[str], compiled_programs: Path, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the installed program as a user would."""
    environment = process_environment(compiled_programs)
    return subprocess.run(
        [str(PROGRAM), *arguments], capture_output=True, text=True, env=environment, cwd=folder, check=False
    )


def sentence(standard_error: str) -> str:
    """The one sentence with which the program ended."""
    assert "Traceback" not in standard_error
    lines = standard_error.splitlines()
    assert [line for line in lines if line.startswith("hindsight: ")] == lines[-1:]
    return lines[-1].removeprefix("hindsight: ")
