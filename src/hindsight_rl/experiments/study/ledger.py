"""The one writer of a study: what is finished, what can be run next, and recording each run exactly once."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path

from hindsight_rl.experiments.study.plan import Plan, Study
from hindsight_rl.experiments.study.protocol import (
    Performances,
    Piece,
    Round,
    at_chance,
    next_piece,
    pieces_ahead,
    undecided,
)
from hindsight_rl.experiments.study.worker import UNFINISHED, Observer, Unfinished, Worker
from hindsight_rl.records.results import ResultsFile
from hindsight_rl.records.runs import Cell, Evidence, FinishedRun, RunKey, StudyResults
from hindsight_rl.records.versions import versions
from hindsight_rl.training.numerics import numerics, require_numerics


def performances(results: StudyResults, cell: Cell) -> Performances:
    """The average performance of each finished run of a cell."""
    return {run.key: run.average_performance for run in results.of(cell)}


def evidence(results: StudyResults, cell: Cell) -> Mapping[RunKey, Evidence]:
    """Whether each finished run of a cell learned anything."""
    return {run.key: run.evidence for run in results.of(cell)}


class Ledger:
    """Keeps a study's results file, which its folder's one process has claimed, while the study runs."""

    def __init__(self, study: Study, folder: Path, file: ResultsFile, observer: Observer):
        self.study, self.folder, self.observer = study, folder, observer
        self.unfinished: dict[Cell, Unfinished] = {}
        self._file = file
        held = file.read()
        for number in {run.origin for run in held.runs}:
            require_numerics(held.origins.get(number, {}), f"What is in '{folder}'")
        self._known = {plan.cell: dict(performances(held, plan.cell)) for plan in study.plans}
        self._learned = {plan.cell: dict(evidence(held, plan.cell)) for plan in study.plans}
        self._said = {plan.cell: len(self._undecided(plan)) for plan in study.plans}

    def next_piece(self, plan: Plan) -> Piece | None:
        """What is to be run next for a cell on this machine; None when nothing is left or an exception ended it."""
        if plan.cell in self.unfinished:
            return None
        return next_piece(plan, self._known[plan.cell], self._learned[plan.cell])

    def pieces_ahead(self, plan: Plan, most_runs: int, at_hand: Set[RunKey]) -> Iterator[Piece]:
        """All that can be run now for a cell, but for the runs at hand."""
        if plan.cell in self.unfinished:
            return iter(())
        return pieces_ahead(plan, self._known[plan.cell], self._learned[plan.cell], most_runs, at_hand)

    def record(
        self,
        piece: Piece,
        runs: Sequence[FinishedRun],
        checkpoint: Path,
        made_with: Mapping[str, str] | None = None,
    ) -> None:
        """Write the runs of a piece, all or none, and remove its checkpoint. Runs that are there already stay."""
        known = self._known[piece.plan.cell]
        origin = self._file.write_origin(made_with or {**versions(), **numerics()})
        new = [replace(run, origin=origin) for run in runs if run.key not in known]
        self._file.write_runs(new)
        checkpoint.unlink(missing_ok=True)
        known |= {run.key: run.average_performance for run in new}
        self._learned[piece.plan.cell] |= {run.key: run.evidence for run in new}
        self.observer.finish(piece, new)
        for this in self._undecided(piece.plan)[self._said[piece.plan.cell] :]:
            self._said[piece.plan.cell] += 1
            self.observer.notice(at_chance(piece.plan, this))

    def give_up(self, piece: Piece, error: Unfinished) -> None:
        """Leave a cell unfinished, and say why."""
        self.unfinished[piece.plan.cell] = error
        self.observer.notice(f"{piece.name} could not be finished: {error}")

    def _undecided(self, plan: Plan) -> list[Round]:
        return undecided(plan, self._known[plan.cell], self._learned[plan.cell])


def run_here(ledger: Ledger, worker: Worker) -> None:
    """Run what is missing on this machine, a piece after another."""
    for plan in ledger.study.plans:
        while piece := ledger.next_piece(plan):
            ledger.observer.begin(piece)
            try:
                runs = worker.train(piece)
            except Unfinished as error:
                ledger.give_up(piece, error)
                break
            ledger.record(piece, runs, ledger.folder / UNFINISHED)
