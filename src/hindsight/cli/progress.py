"""Live progress of a training job: one moving line on a terminal, a plain line now and then elsewhere."""

import math
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text


class TrainingProgress:
    """Shows how far a job is; use it as a context manager around the training.

    Everything goes to the given console, one that writes to stderr where stdout carries results.
    """

    def __init__(
        self,
        total_batches: int,
        console: Console,
        label: str,
        interval: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without a terminal, lines are at least `interval` seconds apart, but for the first and the last."""
        self._total_batches = total_batches
        self._console = console
        self._label = label
        self._interval = interval
        self._clock = clock
        self._entered = clock()
        self._first: tuple[int, float] | None = None
        self._printed = -math.inf
        self._pending: str | None = None
        live = console.is_terminal and not console.is_dumb_terminal
        self._progress = _live_line(console, label) if live else None
        self._task = self._progress.add_task(label, total=None, status="") if self._progress else None

    def __enter__(self) -> Self:
        self._entered = self._clock()
        if self._progress:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress:
            self._progress.stop()
        elif self._pending is not None:
            self._print(self._pending)

    def note(self, message: str) -> None:
        """Say what is going on while there is no progress to show, such as "compiling ..."."""
        self._show(message, batch=None, due=True)

    def update(
        self, batch: int, mean_return: float, spread: float, updates_per_second: float, failed_runs: int = 0
    ) -> None:
        """Show the state after `batch` batches; `spread` is that of the mean return over the runs."""
        now = self._clock()
        due = self._first is None or batch >= self._total_batches or now - self._printed >= self._interval
        self._first = self._first or (batch, now)
        parts = [
            f"{batch}/{self._total_batches} batches",
            _return(mean_return, spread, "+-" if self._console.options.ascii_only else "±") + _failures(failed_runs),
            f"{_rate(updates_per_second)} updates/s",
            self._time(batch, now),
        ]
        self._show("  ".join(part for part in parts if part), batch=batch, due=due)

    def _show(self, status: str, batch: int | None, due: bool) -> None:
        if self._progress and self._task is not None:
            # Without a total the bar pulses, which says that something is going on.
            total = None if batch is None else self._total_batches
            self._progress.update(self._task, completed=batch, total=total, status=status)
        elif due:
            self._print(status)
        else:
            self._pending = status

    def _print(self, status: str) -> None:
        line = f"{self._label}  {status}"
        self._console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)
        self._printed = self._clock()
        self._pending = None

    def _time(self, batch: int, now: float) -> str:
        """The time left at the pace since the first update (so without compilation); at the end, the time taken."""
        if batch >= self._total_batches:
            return f"took {_duration(now - self._entered)}"
        first_batch, first_time = self._first or (batch, now)
        if batch <= first_batch or now <= first_time:
            return ""
        seconds_per_batch = (now - first_time) / (batch - first_batch)
        return f"{_duration(seconds_per_batch * (self._total_batches - batch))} left"


class _StatusColumn(ProgressColumn):
    """The rest of the line, cut where the terminal ends; the other columns keep their width."""

    def render(self, task: Task) -> Text:
        return Text(task.fields["status"], no_wrap=True, overflow="ellipsis")


def _live_line(console: Console, label: str) -> Progress:
    return Progress(
        SpinnerColumn("line" if console.options.ascii_only else "dots"),
        TextColumn("{task.description}", markup=False, style="bold"),
        BarColumn(bar_width=min(30, max(5, console.width - len(label) - 88))),
        _StatusColumn(Column()),
        console=console,
        redirect_stdout=False,  # otherwise results printed meanwhile would end up on this console
    )


def _return(mean: float, spread: float, sign: str) -> str:
    if not math.isfinite(mean):
        return "return unknown"
    return f"return {mean:.2f} {sign} {spread:.2f}" if math.isfinite(spread) else f"return {mean:.2f}"


def _rate(updates_per_second: float) -> str:
    digits = 0 if updates_per_second >= 10 else 1 if updates_per_second >= 1 else 2
    return f"{updates_per_second:.{digits}f}"


def _failures(failed_runs: int) -> str:
    if not failed_runs:
        return ""
    return " (1 run failed)" if failed_runs == 1 else f" ({failed_runs} runs failed)"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
