"""Progress over a whole study: runs, the piece at hand, and the time left."""

import io
import os
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from small_results import example_run
from small_studies import small_study

from hindsight_rl.cli.study import progress as study_progress
from hindsight_rl.cli.study.progress import StudyProgress
from hindsight_rl.experiments.study import estimates
from hindsight_rl.experiments.study.plan import Study
from hindsight_rl.experiments.study.protocol import Piece, next_piece
from hindsight_rl.records.runs import Cause, FinishedRun, RunKey, StudyResults

NAME = "bit-flipping-4-batch8-hpg"


class Clock:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


def one_cell() -> Study:
    """4 runs of the search, then 4 definitive ones, each of 40 batches."""
    return small_study(methods=["hpg"])


def piece_of(study: Study, known: dict[RunKey, float] | None = None) -> Piece:
    piece = next_piece(study.plans[0], known or {})
    assert piece is not None
    return piece


def runs_of(piece: Piece, seconds: float = 12.0) -> list[FinishedRun]:
    return [example_run(cell=piece.plan.cell, key=key, seconds=seconds) for key in piece.keys]


def shown(tell: Callable[[StudyProgress, Clock], None], study: Study, results: StudyResults | None = None) -> list[str]:
    """The lines that a console that is no terminal gets."""
    console = Console(file=io.StringIO(), width=40)
    clock = Clock()
    with StudyProgress(study, results, console, clock) as progress:
        tell(progress, clock)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_piece_from_its_beginning_to_its_end() -> None:
    """12 seconds of a core for 40 updates: the 4 runs that are left take 48 of one core, so 24 of two."""
    study = one_cell()
    first = piece_of(study)
    second = piece_of(study, dict.fromkeys(first.keys, 0.0))

    def tell(progress: StudyProgress, clock: Clock) -> None:
        progress.begin(first)
        clock.now += 10
        progress.tick(first, 0)
        clock.now += 20
        progress.finish(first, runs_of(first))
        clock.now += 5
        progress.begin(second)
        clock.now += 6
        progress.tick(second, 20)
        clock.now += 6
        progress.finish(second, runs_of(second))

    assert shown(tell, study) == [
        f"small  0/8 runs  {NAME}, search (4 runs) compiling",
        f"small  0/8 runs  {NAME}, search (4 runs) batch 0/40",
        f"{NAME}, search: 4 runs in 00:30",
        "small  4/8 runs  about 00:24 left",
        f"small  4/8 runs  {NAME}, definitive (4 runs) compiling  about 00:24 left",
        f"small  4/8 runs  {NAME}, definitive (4 runs) batch 20/40  about 00:12 left",
        f"{NAME}, definitive: 4 runs in 00:12",
        "small  8/8 runs  about 00:00 left",
    ]


def test_a_cell_without_a_finished_run_is_guessed_from_the_others() -> None:
    study = small_study()
    first = piece_of(study)

    def tell(progress: StudyProgress, clock: Clock) -> None:
        progress.finish(first, runs_of(first))

    announced, status = shown(tell, study)
    assert announced.startswith(f"{NAME}, search: 4 runs")
    match = re.fullmatch(r"small  4/28 runs  about (\d\d):(\d\d) left", status)
    assert match
    assert 60 * int(match[1]) + int(match[2]) > 24


def test_failures_are_told() -> None:
    study = one_cell()
    first = piece_of(study)
    runs = runs_of(first)
    runs[:3] = [replace(run, failure=Cause(3, "it diverged")) for run in runs[:3]]
    lines = shown(lambda progress, clock: progress.finish(first, runs), study)
    assert lines[0] == f"{NAME}, search: 4 runs in 00:00, 3 failed"
    assert lines[1].startswith("small  4/8 runs")


def test_a_study_that_goes_on_counts_what_is_there() -> None:
    study = one_cell()
    first = piece_of(study)
    results = StudyResults({}, {}, runs_of(first), {})
    second = piece_of(study, {run.key: run.average_performance for run in results.runs})
    lines = shown(lambda progress, clock: progress.begin(second), study, results)
    assert lines == [f"small  4/8 runs  {NAME}, definitive (4 runs) compiling  about 00:24 left"]


def test_runs_without_evaluations_say_nothing_about_speed() -> None:
    study = one_cell()
    first = piece_of(study)
    empty = np.zeros(0, np.int64)
    raised = [replace(run, batches=empty, episodes=empty, failure=Cause(-1, "no")) for run in runs_of(first)]
    lines = shown(lambda progress, clock: progress.finish(first, raised), study)
    assert lines == [f"{NAME}, search: 4 runs in 00:00, 4 failed", "small  4/8 runs"]


def test_lines_are_seconds_apart_and_ticks_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    study = one_cell()
    first = piece_of(study)
    counted: list[object] = []
    work_ahead = estimates.work_ahead

    def counting(*arguments: object) -> object:
        counted.append(arguments)
        return work_ahead(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(study_progress, "work_ahead", counting)

    def tell(progress: StudyProgress, clock: Clock) -> None:
        progress.begin(first)
        for batch in range(1, 41):
            clock.now += 0.2
            progress.tick(first, batch)

    batches = [line.rpartition(" ")[2] for line in shown(tell, study)]
    assert batches == ["compiling", "27/40", "39/40"]
    assert len(counted) == 1


def test_a_terminal_shows_one_moving_line_and_keeps_what_is_announced() -> None:
    study = one_cell()
    first = piece_of(study)
    console = Console(file=io.StringIO(), force_terminal=True, width=150, _environ={"TERM": "xterm-256color"})
    clock = Clock()
    with StudyProgress(study, None, console, clock) as progress:
        progress.begin(first)
        clock.now += 12
        progress.finish(first, runs_of(first))
    assert isinstance(console.file, io.StringIO)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())
    lines = [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]
    assert f"{NAME}, search: 4 runs in 00:12" in lines
    assert re.match(r"\S small ━", lines[-1])
    assert lines[-1].endswith("4/8 runs  about 00:24 left")
