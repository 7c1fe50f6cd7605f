"""Live progress over a whole study: the piece at hand, how much is done, and the time left."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console

from hindsight_rl.experiments.study.estimates import Speed, Work, guessed_speeds, observed_speeds, work_ahead
from hindsight_rl.experiments.study.ledger import evidence, performances
from hindsight_rl.experiments.study.plan import Study
from hindsight_rl.experiments.study.protocol import Piece
from hindsight_rl.records.runs import Cell, Evidence, FinishedRun, RunKey, StudyResults
from hindsight_rl.running.progress import LiveLine, duration

SECONDS_BETWEEN_LOOKS = 0.5


class StudyProgress:
    """Shows how far a study is; use it as a context manager around the running."""

    def __init__(
        self,
        study: Study,
        results: StudyResults | None,
        console: Console,
        clock: Callable[[], float] = time.monotonic,
        on_cores: int | None = None,
    ):
        """`on_cores` is how many cores a cluster has; this process's own, unless given."""
        self._study = study
        self._on_cores = on_cores
        self._clock = clock
        self._runs: list[FinishedRun] = list(results.runs) if results else []
        self._known: dict[Cell, dict[RunKey, float]] = {
            plan.cell: dict(performances(results, plan.cell)) if results else {} for plan in study.plans
        }
        self._learned: dict[Cell, dict[RunKey, Evidence]] = {
            plan.cell: dict(evidence(results, plan.cell)) if results else {} for plan in study.plans
        }
        self._line = LiveLine(console, study.name, clock=clock)
        self._began = clock()
        self._pieces_began: dict[tuple[Cell, tuple[RunKey, ...]], float] = {}
        self._status = ""
        self._finished = 0
        self._shown = clock()
        self._estimate: dict[Cell, Speed] = {}
        self._work: dict[Cell, Work] = {}

    def __enter__(self) -> Self:
        self._line.start()
        self._refresh()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.stop()

    def begin(self, piece: Piece) -> None:
        """A piece begins."""
        self._pieces_began[piece.plan.cell, piece.keys] = self._clock()
        self._show(piece, 0, "compiling")

    def tick(self, piece: Piece, batch: int) -> None:
        """So many batches of the piece are done."""
        if batch == 0 or self._clock() - self._shown >= SECONDS_BETWEEN_LOOKS:
            self._show(piece, batch, f"batch {batch}/{piece.settings.batches}")

    def finish(self, piece: Piece, runs: list[FinishedRun]) -> None:
        """A piece is finished and written."""
        self._runs += runs
        self._known[piece.plan.cell] |= {run.key: run.average_performance for run in runs}
        self._learned[piece.plan.cell] |= {run.key: run.evidence for run in runs}
        self._refresh()
        failed = sum(run.failure is not None for run in runs)
        took = duration(self._clock() - self._pieces_began.pop((piece.plan.cell, piece.keys), self._began))
        self._finished += len(runs)
        lost = f", {failed} failed" if failed else ""
        self._line.announce(f"{piece.name}: {len(runs)} runs in {took}{lost}")
        self._show(None, 0, "")

    def status(self, sentence: str) -> None:
        """What goes on where, while many pieces are at hand."""
        self._status = sentence
        if self._clock() - self._shown >= SECONDS_BETWEEN_LOOKS:
            self._show(None, 0, "")

    def announce(self, sentence: str) -> None:
        """Say something that stays, above the line that moves."""
        self._line.announce(sentence)

    def _refresh(self) -> None:
        self._estimate = guessed_speeds(self._study.plans, observed_speeds(self._runs))
        self._work = {
            plan.cell: work_ahead(plan, self._known[plan.cell], self._learned[plan.cell]) for plan in self._study.plans
        }

    def _show(self, piece: Piece | None, batch: int, status: str) -> None:
        self._shown = self._clock()
        runs_left = sum(mine.search_runs + mine.definitive_runs for mine in self._work.values())
        runs_done = sum(len(known) for known in self._known.values())
        left = self._seconds_left(piece, batch)
        elapsed = self._clock() - self._began
        share = None if left is None else elapsed / max(elapsed + left, 1e-9)
        parts = [
            f"{runs_done}/{runs_done + runs_left} runs",
            self._status or (f"{piece.name} ({len(piece.keys)} runs) {status}" if piece else ""),
            f"{60 * self._finished / max(elapsed, 1e-9):.1f} runs a minute" if self._status else "",
            f"about {duration(left)} left" if left is not None else "",
        ]
        self._line.show("  ".join(part for part in parts if part), share, due=not runs_left)

    def _seconds_left(self, piece: Piece | None, batch: int) -> float | None:
        if any(cell not in self._estimate for cell in self._work):
            return None
        left = sum(self._estimate[cell].seconds(mine, self._on_cores) for cell, mine in self._work.items())
        if piece is None:
            return left
        done = Work(0, 0, batch * len(piece.keys), 0, 0)
        return max(0.0, left - self._estimate[piece.plan.cell].seconds(done, self._on_cores))
