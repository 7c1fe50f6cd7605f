"""Progress on a terminal and elsewhere."""

import io
import re
from contextlib import suppress

import pytest
from rich.console import Console

from hindsight_rl.running.progress import TrainingProgress
from hindsight_rl.running.shown import Stopwatch


class Clock:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def plain_console(encoding: str = "utf-8") -> tuple[Console, io.BytesIO]:
    """A console that is not a terminal, and what it wrote."""
    written = io.BytesIO()
    return Console(file=io.TextIOWrapper(written, encoding=encoding, write_through=True), width=40), written


def terminal(width: int) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, _environ={"TERM": "xterm-256color"})


def screen_lines(console: Console) -> list[str]:
    """Every state of the line that a terminal showed."""
    assert isinstance(console.file, io.StringIO)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())
    return [line for line in re.split(r"[\r\n]+", text) if line.strip()]


def test_plain_lines() -> None:
    console, written = plain_console()
    clock = Clock()
    with TrainingProgress(1400, console, "hpg", clock=clock) as progress:
        progress.note("compiling ...")
        clock.now += 30  # Compilation must not count for the time left.
        progress.update(0, 0.5, 0.1, 0.0)
        clock.now += 10
        progress.update(140, 4.314, 0.118, 85.3)
        clock.now += 90
        progress.update(1400, 7.6, 0.2, 84.0, failed_runs=2)
    assert written.getvalue().decode().splitlines() == [
        "hpg  compiling ...",
        "hpg  0/1400 batches  return 0.50 ± 0.10  0.00 updates/s",
        "hpg  140/1400 batches  return 4.31 ± 0.12  85 updates/s  01:30 left",
        "hpg  1400/1400 batches  return 7.60 ± 0.20 (2 runs failed)  84 updates/s  took 02:10",
    ]


def test_plain_lines_are_at_least_the_interval_apart() -> None:
    console, written = plain_console()
    clock = Clock()
    with TrainingProgress(100, console, "hpg", interval=5.0, clock=clock) as progress:
        for batch in range(1, 101):
            clock.now += 0.1
            progress.update(batch, 1.0, 0.1, 10.0)
    batches = [int(line.split()[1].split("/")[0]) for line in written.getvalue().decode().splitlines()]
    assert batches == [1, 51, 100]


def test_interrupted_job_shows_where_it_stopped() -> None:
    console, written = plain_console()
    with suppress(KeyboardInterrupt), TrainingProgress(100, console, "hpg", clock=Clock()) as progress:
        for batch in (1, 2, 3):
            progress.update(batch, 1.0, 0.1, 10.0)
        raise KeyboardInterrupt
    batches = [line.split()[1] for line in written.getvalue().decode().splitlines()]
    assert batches == ["1/100", "3/100"]


def test_resumed_job_counts_its_own_pace() -> None:
    console, written = plain_console()
    clock = Clock()
    with TrainingProgress(1000, console, "hpg", clock=clock) as progress:
        progress.update(900, 1.0, 0.1, 10.0)
        clock.now += 10
        progress.update(910, 1.0, 0.1, 1.0)
    assert written.getvalue().decode().splitlines()[-1].endswith("1.0 updates/s  01:30 left")


def test_long_times_and_lost_returns() -> None:
    console, written = plain_console()
    clock = Clock()
    with TrainingProgress(10_000, console, "hpg", clock=clock) as progress:
        progress.update(0, 1.0, float("nan"), 10.0)
        clock.now += 60
        progress.update(100, float("nan"), float("nan"), 0.5, failed_runs=1)
        clock.now += 60
        progress.update(200, 1.0, float("nan"), 0.008)
    assert written.getvalue().decode().splitlines() == [
        "hpg  0/10000 batches  return 1.00  10 updates/s",
        "hpg  100/10000 batches  return unknown (1 run failed)  0.50 updates/s  1:39:00 left",
        "hpg  200/10000 batches  return 1.00  125 s/update  1:38:00 left",
    ]


def test_the_time_left_soon_forgets_what_compiled_in_the_first_batch() -> None:
    console, written = plain_console()
    clock = Clock()
    with TrainingProgress(10, console, "hppo", clock=clock) as progress:
        for batch, seconds in ((0, 0), (1, 60), (2, 10), (4, 20)):
            clock.now += seconds
            progress.update(batch, 1.0, 0.1, 1.0)
    left = [line.rpartition("  ")[2] for line in written.getvalue().decode().splitlines()]
    assert left[1:] == ["09:00 left", "01:20 left", "01:00 left"]


def test_the_speed_leaves_out_the_first_batch_where_there_are_others() -> None:
    clock = Clock()
    stopwatch = Stopwatch(runs=2, clock=clock)
    speeds = []
    for batch, seconds in ((10, 5), (11, 60), (13, 20), (13, 5)):
        clock.now += seconds
        stopwatch.note(batch)
        speeds.append(stopwatch.updates_per_second)
    assert speeds == [0, 2 / 60, 4 / 20, 4 / 25]


def test_label_and_note_are_not_markup() -> None:
    console, written = plain_console()
    with TrainingProgress(10, console, "[bold]hpg[/bold]") as progress:
        progress.note("[red]compiling :smile:")
    assert written.getvalue().decode() == "[bold]hpg[/bold]  [red]compiling :smile:\n"


def test_ascii_console() -> None:
    console, written = plain_console("ascii")
    with TrainingProgress(10, console, "hpg") as progress:
        progress.update(0, 1.0, 0.1, 10.0)
    assert b"return 1.00 +- 0.10" in written.getvalue()


def test_terminal_shows_one_moving_line() -> None:
    console = terminal(120)
    clock = Clock()
    with TrainingProgress(1400, console, "hpg", clock=clock) as progress:
        progress.note("compiling ...")
        progress._line._progress.refresh()  # type: ignore[union-attr]
        progress.update(0, 0.5, 0.1, 0.0)
        clock.now += 10
        progress.update(140, 4.314, 0.118, 85.3, failed_runs=1)
        progress._line._progress.refresh()  # type: ignore[union-attr]
    lines = screen_lines(console)
    assert any(line.endswith("compiling ...") for line in lines)
    assert re.match(r"\S hpg ━", lines[-1])
    assert lines[-1].rstrip().endswith("140/1400 batches  return 4.31 ± 0.12 (1 run failed)  85 updates/s  01:30 left")
    assert all(len(line) <= 120 for line in lines)


@pytest.mark.parametrize("width", [50, 80])
def test_narrow_terminal_keeps_label_and_return_on_one_line(width: int) -> None:
    console = terminal(width)
    with TrainingProgress(1400, console, "hpg") as progress:
        progress.update(1000, 4.314, 0.118, 85.3, failed_runs=12)
    last = screen_lines(console)[-1]
    assert "hpg" in last
    assert "return 4.31" in last
    assert len(last) <= width


def test_results_on_stdout_are_not_diverted(capsys: pytest.CaptureFixture[str]) -> None:
    with TrainingProgress(10, terminal(100), "hpg") as progress:
        progress.update(1, 1.0, 0.1, 10.0)
        print("result")
    assert capsys.readouterr().out == "result\n"


def test_dumb_terminal_gets_plain_lines() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, _environ={"TERM": "dumb"})
    with TrainingProgress(10, console, "hpg") as progress:
        progress.update(1, 1.0, 0.1, 10.0)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "hpg  1/10 batches  return 1.00 ± 0.10  10 updates/s\n"
