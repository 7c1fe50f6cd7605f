"""A study on a Ray of its own: nobody else gets in, and faults of any kind lose nothing and record nothing twice."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from small_jobs import PROGRAM, process_environment, sentence
from small_results import on_a_small_disk
from small_studies import STAGE, numbers_in, results_in, small_study, study_text

from hindsight_rl.experiments.study.run import run_study

LONGER: dict[str, Any] = {
    "methods": ["hpg"],
    "definitive": {**STAGE, "runs": 20, "batches": 2000, "evaluate_every": 20},
}
"""A short search, and four pieces that take some seconds each."""
HEAD_GONE = "The head of the Ray cluster is gone; what is finished is kept."
SECONDS_TO_MISS = 20.0
LISTENING = "0A"
LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")


def descendants(parent: int) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                yield int(path.parent.name)
                yield from descendants(int(path.parent.name))


def names_below(parent: int) -> dict[int, bytes]:
    found = {}
    for each in descendants(parent):
        with suppress(OSError):
            found[each] = Path(f"/proc/{each}/cmdline").read_bytes()
    return found


def lives(process: int) -> bool:
    """Whether a process does; one that has ended stays in the list until somebody has asked how."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def listened_at(processes: list[int]) -> set[str]:
    """The addresses at which some processes listen, as the kernel writes them."""
    held = set()
    for process in processes:
        with suppress(OSError):
            held |= {os.readlink(path) for path in Path(f"/proc/{process}/fd").iterdir() if path.is_symlink()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENING and f"socket:[{words[9]}]" in held:
                found.add(words[1].partition(":")[0])
    return found


def kill_workers_until_one_is_missed(process: subprocess.Popen[str], said: Iterator[str]) -> None:
    """Kill one, and another one after a while: whoever has just said the last of its piece is not missed."""
    while True:
        while not (working := [each for each, name in names_below(process.pid).items() if b"ray::work" in name]):
            assert process.poll() is None  # between two pieces nobody works
        with suppress(ProcessLookupError):
            os.kill(working[0], signal.SIGKILL)
        killed = time.monotonic()
        for line in said:
            if "lost its worker and is handed out again" in line:
                return
            if time.monotonic() - killed > SECONDS_TO_MISS:
                break


def test_a_killed_worker_and_ctrl_c_lose_nothing_and_leave_nobody_behind(
    compiled_programs: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    run_study(small_study(**LONGER), tmp_path / "here")
    with begun(tmp_path, compiled_programs) as process:
        assert process.stderr is not None
        said = iter(process.stderr.readline, "")
        next(line for line in said if "4 runs in" in line)
        names = names_below(process.pid)
        family = list(names)
        addresses = listened_at([process.pid, *family])
        kill_workers_until_one_is_missed(process, said)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert addresses
    assert addresses <= set(LOOPBACK)
    assert all(b"--disable-frontend" in name for name in names.values() if b"dashboard/dashboard.py" in name)
    assert process.returncode == 130
    assert sentence(rest).startswith("Interrupted; what is finished is in")
    deadline = time.monotonic() + 60
    while left := [each for each in family if lives(each)]:
        assert time.monotonic() < deadline, f"{left} outlived the command"
        time.sleep(0.1)
    before = {run.key: run.seconds for run in results_in(tmp_path / "there").runs}
    assert 4 <= len(before) < 24
    run_study(small_study(**LONGER), tmp_path / "there")
    after = {run.key: run.seconds for run in results_in(tmp_path / "there").runs}
    assert before.items() <= after.items()
    assert numbers_in(tmp_path / "there") == numbers_in(tmp_path / "here")


def begun(folder: Path, compiled_programs: Path, **environment: str) -> subprocess.Popen[str]:
    """The command that runs the longer study on a Ray of its own."""
    (folder / "longer.toml").write_text(study_text(**LONGER))
    command = [str(PROGRAM), "study", "run", str(folder / "longer.toml"), "--output", str(folder / "there")]
    settings = process_environment(compiled_programs) | environment
    return subprocess.Popen([*command, "--on", "ray"], stderr=subprocess.PIPE, text=True, env=settings)


def heads_below(parent: int) -> list[int]:
    return [each for each, name in names_below(parent).items() if b"gcs/gcs_server" in name]


def test_a_head_that_is_gone_is_a_sentence_and_what_is_finished_is_kept(
    compiled_programs: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    with begun(tmp_path, compiled_programs) as process:
        assert process.stderr is not None
        next(line for line in iter(process.stderr.readline, "") if "4 runs in" in line)
        (head,) = heads_below(process.pid)
        os.kill(head, signal.SIGKILL)
        rest = process.stderr.read()
    assert process.returncode == 2, rest
    assert sentence(rest) == HEAD_GONE
    assert len(results_in(tmp_path / "there").runs) >= 4


def test_a_head_that_is_gone_while_ray_still_starts_is_a_sentence(compiled_programs: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with begun(tmp_path, compiled_programs) as process:
        assert process.stderr is not None
        # Only once its raylet begins: of a head that ends before anybody has spoken to it, Ray itself says so.
        while not any(b"raylet/raylet" in name for name in names_below(process.pid).values()):
            assert process.poll() is None
        (head,) = heads_below(process.pid)
        os.kill(head, signal.SIGKILL)
        rest = process.stderr.read()
    assert process.returncode == 2, rest
    assert sentence(rest) == HEAD_GONE


def test_sigterm_while_ray_starts_is_an_interruption(compiled_programs: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with begun(tmp_path, compiled_programs) as process:
        assert process.stderr is not None
        while not heads_below(process.pid):
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
    assert process.returncode == 128 + signal.SIGTERM, rest
    assert sentence(rest).startswith("Interrupted; what is finished is in")


def test_a_driver_that_is_ended_without_a_word_is_a_sentence(compiled_programs: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with begun(tmp_path, compiled_programs) as process:
        assert process.stderr is not None
        next(line for line in iter(process.stderr.readline, "") if "4 runs in" in line)
        os.kill(next(descendants(process.pid)), signal.SIGABRT)
        rest = process.stderr.read()
    assert process.returncode == 2, rest
    assert sentence(rest) == "The process that did the work was ended (signal 6); what is finished is kept."
    assert len(results_in(tmp_path / "there").runs) >= 4


WAITING = """
import time
from hindsight_rl.experiments.cluster import head
head.SECONDS_BETWEEN_LOOKS = head.SECONDS_TO_LEAVE = 0.01
looks = iter([True, True, False, True])
its = head.Head()
with head.ending_without(its):
    time.sleep(0.1)  # not known yet
    its.is_there = lambda: next(looks, False)
    while True:
        time.sleep(1)
"""


def test_who_waits_for_a_head_that_is_gone_is_ended_with_the_sentence() -> None:
    ended = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr == f"hindsight: {HEAD_GONE}\n"


def test_who_has_left_a_cluster_is_not_ended() -> None:
    left = WAITING.replace("while True:\n        time.sleep(1)", "its.is_gone") + "time.sleep(1)\nprint('still here')"
    ended = subprocess.run([sys.executable, "-c", left], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "still here\n")


def test_a_piece_whose_worker_was_out_of_memory_is_handed_out_again(compiled_programs: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    # Any machine uses more than a ten-thousandth of its memory: Ray ends each worker.
    always = {"RAY_memory_usage_threshold": "0.0001", "RAY_memory_monitor_refresh_ms": "100"}
    with begun(tmp_path, compiled_programs, **always) as process:
        assert process.stderr is not None
        said = iter(process.stderr.readline, "")
        lost = [next(line for line in said if "lost its worker" in line) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert all("is handed out again (OutOfMemoryError: " in line for line in lost)
    assert process.returncode == 130
    assert sentence(rest).startswith("Interrupted; what is finished is in")


FULL_DISK = """
import sys
from pathlib import Path
from hindsight_rl.cli import main
from hindsight_rl.records.results import ResultsFile
folder, definition = map(Path, sys.argv[1:])
write_runs = ResultsFile.write_runs
def fill_the_disk(self, runs):
    write_runs(self, runs)
    with open(folder.parent / "ballast", "wb", buffering=0) as file:
        try:
            while file.write(bytes(512)):
                pass
        except OSError:
            pass
ResultsFile.write_runs = fill_the_disk
try:
    main(["study", "run", str(definition), "--output", str(folder), "--on", "ray"])
finally:
    (folder.parent / "ballast").unlink()
    with ResultsFile.open(folder / "results.sqlite") as file:
        print(len(file.read().runs))
"""


def test_a_full_disk_at_the_writer_is_a_sentence_and_what_was_written_stays(
    compiled_programs: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    definition, disk = tmp_path / "small.toml", tmp_path / "disk"
    definition.write_text(study_text(methods=["hpg"]))
    disk.mkdir()
    command = [sys.executable, "-c", FULL_DISK, str(disk / "study"), str(definition)]
    ran = on_a_small_disk(disk, "2m", command, env=process_environment(compiled_programs))
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout == "4\n"
    assert any(words in sentence(ran.stderr) for words in ("is full", "No space left on device"))
