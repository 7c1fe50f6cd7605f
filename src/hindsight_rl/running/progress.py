"""Live progress of a training job: one moving line on a terminal, a plain line now and then elsewhere."""

import errno
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text


@contextmanager
def explaining_interruptions(sentence: Callable[[], str]) -> Iterator[None]:
    """Let an interruption say how to go on. A closed terminal, or a pipe that nobody reads, is one too."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(sentence()) from None
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        raise KeyboardInterrupt(sentence()) from None


class LiveLine:
    """One line of status: moving on a terminal, printed now and then elsewhere.

    Everything goes to the given console, one that writes to stderr where stdout carries results.
    """

    def __init__(
        self, console: Console, label: str, interval: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Without a terminal, lines are at least `interval` seconds apart, but for those that are due at once."""
        self._console = console
        self._label = label
        self._interval = interval
        self._clock = clock
        self._printed = -math.inf
        self._pending: str | None = None
        live = console.is_terminal and not console.is_dumb_terminal
        self._progress = _live_line(console, label) if live else None
        self._task = self._progress.add_task(label, total=None, status="") if self._progress else None

    def start(self) -> None:
        """Begin to show."""
        if self._progress:
            self._progress.start()

    def stop(self) -> None:
        """Show the last status and leave it there."""
        with suppress(OSError):  # where nobody looks any more, that has been noticed
            if self._progress:
                self._progress.stop()
            elif self._pending is not None:
                self._print(self._pending)

    def show(self, status: str, share: float | None = None, due: bool = False) -> None:
        """Show a status, and the share that is done, where it is known."""
        if self._progress and self._task is not None:
            # Without a total the bar pulses, which says that something is going on.
            total = None if share is None else 1.0
            self._progress.update(self._task, completed=share, total=total, status=status)
        elif due or self._clock() - self._printed >= self._interval:
            self._print(status)
        else:
            self._pending = status

    def announce(self, line: str) -> None:
        """Print a line that stays."""
        console = self._progress.console if self._progress else self._console
        console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def _print(self, status: str) -> None:
        self.announce(f"{self._label}  {status}")
        self._printed = self._clock()
        self._pending = None


class TrainingProgress:
    """Shows how far a job is; use it as a context manager around the training."""

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
        self._clock = clock
        self._entered = clock()
        self._first: tuple[int, float] | None = None
        self._trained: tuple[int, float] | None = None
        self._line = LiveLine(console, label, interval, clock)

    def __enter__(self) -> Self:
        self._entered = self._clock()
        self._line.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.stop()

    def note(self, message: str) -> None:
        """Say what is going on while there is no progress to show, such as "compiling ..."."""
        self._line.show(message, due=True)

    def announce(self, sentence: str) -> None:
        """Say something that stays, above the line that moves."""
        self._line.announce(sentence)

    def update(
        self, batch: int, mean_return: float, spread: float, updates_per_second: float, failed_runs: int = 0
    ) -> None:
        """Show the state after `batch` batches; `spread` is that of the mean return over the runs."""
        now = self._clock()
        due = self._first is None or batch >= self._total_batches
        self._first = self._first or (batch, now)
        if batch > self._first[0]:
            self._trained = self._trained or (batch, now)
        parts = [
            f"{batch}/{self._total_batches} batches",
            _return(mean_return, spread, "+-" if self._console.options.ascii_only else "±") + _failures(failed_runs),
            _rate(updates_per_second),
            self._time(batch, now),
        ]
        self._line.show("  ".join(part for part in parts if part), batch / self._total_batches, due)

    def _time(self, batch: int, now: float) -> str:
        """The time left; at the end, the time taken.

        At the pace since the first update that was seen: before it all compiles, or what learns from simulators.
        """
        if batch >= self._total_batches:
            return f"took {duration(now - self._entered)}"
        first_batch, first_time = self._first or (batch, now)
        if self._trained and batch > self._trained[0]:
            first_batch, first_time = self._trained
        if batch <= first_batch or now <= first_time:
            return ""
        seconds_per_batch = (now - first_time) / (batch - first_batch)
        return f"{duration(seconds_per_batch * (self._total_batches - batch))} left"


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
    if 0 < updates_per_second < 0.1:
        return f"{1 / updates_per_second:,.0f} s/update"
    digits = 0 if updates_per_second >= 10 else 1 if updates_per_second >= 1 else 2
    return f"{updates_per_second:.{digits}f} updates/s"


def _failures(failed_runs: int) -> str:
    if not failed_runs:
        return ""
    return " (1 run failed)" if failed_runs == 1 else f" ({failed_runs} runs failed)"


def duration(seconds: float) -> str:
    """Minutes and seconds, and hours where it takes them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
