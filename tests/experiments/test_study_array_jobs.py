"""Slices of a study for array jobs: all of its cells, each once, and the bytes of the whole once they are merged."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from small_jobs import PROGRAM, process_environment, run_program, sentence
from small_studies import definition, finished, numbers_in, small_study

from hindsight_rl.core.cores import cores
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.experiments.study.slices import parse_slice, sliced

__all__ = ["definition", "finished"]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_slices_hold_every_cell_once(count: int) -> None:
    study = small_study(methods=["hpg", "gcpg"], batch_sizes=[2, 8])
    held = [plan.cell for number in range(1, count + 1) for plan in sliced(study, number, count).plans]
    assert sorted(held) == sorted(plan.cell for plan in study.plans)
    assert all(sliced(study, number, count).plans for number in range(1, count + 1))


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "a/b", "-1/2", "1/2/3"])
def test_what_is_no_slice_is_named(text: str) -> None:
    with pytest.raises(HindsightError, match="NUMBER/COUNT"):
        parse_slice(text)


def test_more_slices_than_cells_are_refused() -> None:
    with pytest.raises(HindsightError, match="has 2 cells"):
        sliced(small_study(), 1, 3)


def test_array_jobs_come_to_the_bytes_of_the_whole(
    finished: Path, definition: Path, compiled_programs: Path, tmp_path: Path
) -> None:
    for number in (1, 2):
        ended = run_program(["study", "run", str(definition), "--slice", f"{number}/2"], compiled_programs, tmp_path)
        assert ended.returncode == 0, ended.stderr
    sources = [f"studies/small-slice-{number}-of-2" for number in (1, 2)]
    ended = run_program(["study", "merge", "whole", *sources], compiled_programs, tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert numbers_in(tmp_path / "whole") == numbers_in(finished)


def test_the_signal_of_a_batch_queue_saves_and_ends(definition: Path, compiled_programs: Path, tmp_path: Path) -> None:
    command = [str(PROGRAM), "study", "run", str(definition), "--output", str(tmp_path / "study")]
    environment = process_environment(compiled_programs)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        process.stderr.readline()  # from its first line on, it listens
        process.send_signal(signal.SIGUSR1)
        said = process.stderr.read()
    assert process.returncode == 128 + signal.SIGUSR1
    assert sentence(said).startswith("Interrupted")


def test_cores_are_those_that_the_process_may_use() -> None:
    assert cores() == len(os.sched_getaffinity(0))
