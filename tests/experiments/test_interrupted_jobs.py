"""Whatever stops the program, its folder stays readable and goes on to the very same numbers."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_jobs import ENVIRONMENT, bytes_in, process_environment, sentence, small_flags, small_job

from hindsight_rl.experiments.job import load_policies, run_job
from hindsight_rl.records.evaluations import read_evaluations

LENGTH = {"batches": 8000, "evaluate_every": 40}
"""Some seconds of training, with a checkpoint at every turn when it is written after each evaluation."""

SAVE_ALWAYS = """
import functools
from hindsight_rl.cli import main
from hindsight_rl.running import shown
shown.run_job = functools.partial(shown.run_job, seconds_between_checkpoints=0.0)
main()
"""

LIMITED = """
import resource, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from hindsight_rl.cli import main
main()
"""


@pytest.fixture(scope="module")
def uninterrupted(compiled_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted") / "job"
    run_job(small_job(**LENGTH), folder)
    return folder


def start(folder: Path, compiled_programs: Path) -> subprocess.Popen[str]:
    arguments = ["train", ENVIRONMENT, *small_flags(**LENGTH), "--output", str(folder), "--resume"]
    return subprocess.Popen(
        [sys.executable, "-c", SAVE_ALWAYS, *arguments],
        env=process_environment(compiled_programs),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def identity(path: Path) -> tuple[int, int] | None:
    return (path.stat().st_ino, path.stat().st_mtime_ns) if path.exists() else None


def wait_for_a_new_checkpoint(process: subprocess.Popen[str], folder: Path) -> None:
    path = folder / "checkpoint.npz"
    before = identity(path)
    while identity(path) == before:
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    _, standard_error = process.communicate()
    assert process.returncode == -signal.SIGKILL, standard_error


def assert_same_numbers(folder: Path, uninterrupted: Path) -> None:
    for name in ("evaluations.csv", "checkpoint.npz", "settings.json"):
        assert (folder / name).read_bytes() == (uninterrupted / name).read_bytes(), name


def test_killed_at_any_moment_it_goes_on_to_the_same_numbers(
    compiled_programs: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    moments = random.Random(3)
    for seconds in (0.05, 1.0):
        process = start(folder, compiled_programs)
        time.sleep(seconds)
        kill(process)
    reached = []
    for _ in range(3):
        process = start(folder, compiled_programs)
        wait_for_a_new_checkpoint(process, folder)
        time.sleep(moments.uniform(0.0, 0.1))
        kill(process)
        reached.append(load_policies(folder)[1].batch)
    assert 0 <= reached[0] < reached[1] < reached[2] < LENGTH["batches"]
    run_job(small_job(**LENGTH), folder, resume=True)
    assert_same_numbers(folder, uninterrupted)


def test_interrupted_it_says_so_and_goes_on_to_the_same_numbers(
    compiled_programs: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    process = start(folder, compiled_programs)
    wait_for_a_new_checkpoint(process, folder)
    process.send_signal(signal.SIGINT)
    _, standard_error = process.communicate()
    assert process.returncode > 0
    reached = load_policies(folder)[1].batch
    assert reached < LENGTH["batches"]
    assert sentence(standard_error) == (
        f"Interrupted after {reached} of 8000 batches; the same command with --resume --output {folder} goes on."
    )
    assert read_evaluations(folder / "evaluations.csv").batches[-1] == reached
    run_job(small_job(**LENGTH), folder, resume=True)
    assert_same_numbers(folder, uninterrupted)


def train_with_little_room(
    limit: int, folder: Path, compiled_programs: Path, *flags: str
) -> subprocess.CompletedProcess[str]:
    """Train while no file may grow beyond so many bytes, as on a disk that is full."""
    return subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), "train", ENVIRONMENT, "--output", str(folder), *flags],
        env=process_environment(compiled_programs),
        capture_output=True,
        text=True,
        check=False,
    )


def test_full_disk_leaves_the_earlier_files(compiled_programs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    run_job(small_job(), folder)
    before = bytes_in(folder)
    limit = 4000
    assert len(before["settings.json"]) < limit < len(before["checkpoint.npz"])
    failed = train_with_little_room(limit, folder, compiled_programs, *small_flags(batches=80), "--resume")
    assert failed.returncode > 0
    cause = os.strerror(errno.EFBIG)
    expected = f"Could not write {folder / 'checkpoint.npz'}: {cause}; what was there before is unchanged."
    assert sentence(failed.stderr) == expected
    after = bytes_in(folder)
    assert {name: after[name] for name in ("checkpoint.npz", "evaluations.csv")} == {
        name: before[name] for name in ("checkpoint.npz", "evaluations.csv")
    }
    assert after.keys() == before.keys()
    assert load_policies(folder)[1].batch == 40
    run_job(small_job(batches=80), folder, resume=True)
    run_job(small_job(batches=80), tmp_path / "roomy")
    assert bytes_in(folder) == bytes_in(tmp_path / "roomy")


def test_full_disk_from_the_start(compiled_programs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    failed = train_with_little_room(100, folder, compiled_programs, *small_flags())
    assert failed.returncode > 0
    assert sentence(failed.stderr).startswith(f"Could not write {folder / 'settings.json'}: ")
    assert bytes_in(folder) == {}
