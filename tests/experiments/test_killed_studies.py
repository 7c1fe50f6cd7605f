"""Killed at any moment, interrupted, or out of room: a study goes on to the very same numbers, and repeats no run."""

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from small_jobs import process_environment, sentence
from small_results import on_a_small_disk
from small_studies import STAGE, by_key, numbers_in, results_in, small_study, study_text

from hindsight_rl.experiments.study.run import run_study
from hindsight_rl.experiments.study.worker import UNFINISHED
from hindsight_rl.records.checkpoints import load_checkpoint
from hindsight_rl.records.results import RESULTS

LONGER: dict[str, Any] = {
    "search": {**STAGE, "batches": 320, "evaluate_every": 20},
    "definitive": {**STAGE, "batches": 320, "evaluate_every": 20, "runs": 6},
}
KILLS_IN_A_LANE = 16
LANES = 2
"""Studies that are run and killed side by side."""

DRIVER = """
import sys
from pathlib import Path
from hindsight_rl.experiments.study import protocol
from hindsight_rl.experiments.study.files import load_study
from hindsight_rl.experiments.study.worker import Observer
from hindsight_rl.experiments.study.run import run_study
protocol.MOST_RUNS_IN_A_PIECE = 2  # more pieces, so more writes to be killed in
said = []
def tick(piece, batch):
    if not said:
        said.append(print("training", flush=True))
run_study(load_study(sys.argv[1]), Path(sys.argv[2]), Observer(tick=tick), seconds_between_checkpoints=0.0)
"""

SAVE_ALWAYS = """
import functools
from hindsight_rl.cli import main
from hindsight_rl.cli.study import run as study
study.run_study = functools.partial(study.run_study, seconds_between_checkpoints=0.0)
main()
"""

FULL_DISK = """
import sys
from pathlib import Path
from hindsight_rl.cli import main
from hindsight_rl.experiments.study import run as study_run
folder, definition, copy = map(Path, sys.argv[1:])
ballast = folder.parent / "ballast"
def run():
    try:
        main(["study", "run", str(definition), "--output", str(folder)])
        return 0
    except SystemExit as stop:
        return stop.code
write_runs = study_run.ResultsFile.write_runs
def fill_the_disk(self, runs):
    write_runs(self, runs)
    with open(ballast, "wb", buffering=0) as file:
        try:
            while file.write(bytes(512)):
                pass
        except OSError:
            pass
study_run.ResultsFile.write_runs = fill_the_disk
print(run(), flush=True)
ballast.unlink()
study_run.ResultsFile.write_runs = write_runs
with study_run.ResultsFile.open(folder / "results.sqlite") as file:
    print(len(file.read().runs), flush=True)
print(run(), flush=True)
import shutil
shutil.copytree(folder, copy)
"""


@pytest.fixture(scope="module")
def undisturbed(compiled_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    run_study(small_study(**LONGER), folder)
    return numbers_in(folder)


@pytest.fixture
def definition(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(study_text(**LONGER))
    return path


Moment = Callable[[subprocess.Popen[str], Path], None]


def wait_for_training(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    process.stdout.readline()


def after_some_training(seconds: float) -> Moment:
    def wait(process: subprocess.Popen[str], folder: Path) -> None:
        wait_for_training(process)
        time.sleep(seconds)

    return wait


def while_a_file_is_there(pattern: str, seconds: float | None) -> Moment:
    """While results or a checkpoint are being written: at once, or the first time after some training."""

    def wait(process: subprocess.Popen[str], folder: Path) -> None:
        if seconds is not None:
            wait_for_training(process)
            time.sleep(seconds)
        while process.poll() is None and not any(folder.glob(pattern)):
            time.sleep(0.0003)

    return wait


def from_the_start(seconds: float) -> Moment:
    return lambda process, folder: time.sleep(seconds)


def moments(generator: random.Random) -> list[Moment]:
    """Where the kills of a lane fall: while it starts, trains, writes checkpoints, and writes results."""
    journal, checkpoint = f"{RESULTS}-journal", ".*.tmp"
    early: list[Moment] = [
        from_the_start(generator.uniform(0, 2)),
        while_a_file_is_there(checkpoint, None),
        while_a_file_is_there(journal, None),
    ]
    late: list[Moment] = []
    while len(early) + len(late) < KILLS_IN_A_LANE:
        late.append(after_some_training(generator.uniform(0, 0.4)))
        late += [while_a_file_is_there(pattern, generator.uniform(0, 0.2)) for pattern in (journal, checkpoint)]
    generator.shuffle(late)
    return (early + late)[:KILLS_IN_A_LANE]


def start(definition: Path, folder: Path, compiled_programs: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(definition), str(folder)],
        env=process_environment(compiled_programs),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def seconds_of_runs(folder: Path) -> dict[tuple[Any, ...], float]:
    """Every finished run with the time it took, which tells it from a repetition."""
    if not (folder / RESULTS).exists():
        return {}
    return {key: run.seconds for key, run in by_key(results_in(folder)).items()}


def what_is_half_written(folder: Path) -> str:
    if (folder / f"{RESULTS}-journal").exists():
        return "results"
    return "checkpoint" if any(folder.rglob(".*.tmp")) else ""


def kill_again_and_again(lane: int, definition: Path, compiled_programs: Path, expected: dict[str, bytes]) -> list[str]:
    """One study after another, killed until the lane's kills are used up; returns what each kill left half-written."""
    folder = definition.parent / f"lane-{lane}"
    known: dict[tuple[Any, ...], float] = {}
    kills: list[str] = []
    for wait in moments(random.Random(lane)):
        process = start(definition, folder, compiled_programs)
        wait(process, folder)
        process.kill()
        _, standard_error = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), standard_error
        kills.append(what_is_half_written(folder))  # before the next reader puts it in order
        found = seconds_of_runs(folder)
        assert known.items() <= found.items(), "a finished run was lost or repeated"
        known = found
        if process.returncode == 0:
            kills.pop()
            assert numbers_in(folder) == expected
            shutil.rmtree(folder)
            known = {}
    last = start(definition, folder, compiled_programs)
    _, standard_error = last.communicate()
    assert last.returncode == 0, standard_error
    assert known.items() <= seconds_of_runs(folder).items()
    assert numbers_in(folder) == expected
    assert sorted(path.name for path in folder.rglob("*") if path.suffix in (".tmp", ".npz")) == sorted(
        name for name in expected if name.endswith(".npz")
    )
    return kills


def test_killed_at_any_moment_it_goes_on_to_the_same_numbers(
    compiled_programs: Path, undisturbed: dict[str, bytes], definition: Path
) -> None:
    with ThreadPoolExecutor(LANES) as pool:
        lanes = [
            pool.submit(kill_again_and_again, lane, definition, compiled_programs, undisturbed) for lane in range(LANES)
        ]
    kills = [kill for lane in lanes for kill in lane.result()]
    assert len(kills) >= 30
    assert set(kills) == {"", "checkpoint", "results"}


def test_interrupted_it_says_so_and_goes_on_to_the_same_numbers(
    compiled_programs: Path, undisturbed: dict[str, bytes], definition: Path
) -> None:
    folder = definition.parent / "study"
    process = subprocess.Popen(
        [sys.executable, "-c", SAVE_ALWAYS, "study", "run", str(definition), "--output", str(folder)],
        env=process_environment(compiled_programs),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (folder / UNFINISHED).exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, standard_error = process.communicate()
    assert process.returncode == 130
    message = f"Interrupted; what is finished is in {folder}, and the same command goes on from there."
    assert sentence(standard_error) == message
    before = seconds_of_runs(folder)
    assert load_checkpoint(folder / UNFINISHED)[1]["piece"]["cell"][2] == "hpg"
    run_study(small_study(**LONGER), folder)
    assert before.items() <= seconds_of_runs(folder).items()
    assert numbers_in(folder) == undisturbed


def test_full_disk_ends_it_and_with_new_room_it_goes_on(
    compiled_programs: Path, undisturbed: dict[str, bytes], definition: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The disk is filled up once the first piece has been written."""
    copy, disk = definition.parent / "copy", tmp_path_factory.mktemp("disk")
    command = [sys.executable, "-c", FULL_DISK, str(disk / "study"), str(definition), str(copy)]
    ran = on_a_small_disk(disk, "2m", command, env=process_environment(compiled_programs))
    assert ran.returncode == 0, ran.stderr
    lines = [line for line in ran.stdout.splitlines() if line.isdigit()]
    assert lines == ["2", "4", "0"]
    (message,) = [line for line in ran.stderr.splitlines() if line.startswith("hindsight: ")]
    assert "is full" in message or "No space left on device" in message
    assert "Traceback" not in ran.stderr
    assert numbers_in(copy) == undisturbed
