"""How much it matters which settings a method has: what the search found for each setting it tried."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hindsight_rl.analysis.study.runs import (
    average_performances,
    definitive,
    rung,
    score,
    search_at_chance,
    settings_tried,
)
from hindsight_rl.records.evaluations import summary
from hindsight_rl.records.runs import Cell, Choices, FinishedRun, StudyResults


@dataclass(frozen=True)
class SensitivityRow:
    """Average performance of one hyperparameter setting, over the runs of the last stage that tried it."""

    cell: Cell
    rank: int
    """1 for the best setting of the cell."""
    stage: str
    """The stage behind the numbers; numbers compare only within a stage, since halving gives a later rung more."""
    choices: Mapping[str, float]
    """The values of the options that the study varies."""
    mean: float | None
    """Over the finished runs, like the standard deviation (ddof 0), which one run does not have; None without one."""
    std: float | None
    score: float | None
    """Mean minus standard deviation, by which the paper chooses."""
    finished: int
    failed: int
    chosen: bool
    """The definitive runs have this setting."""

    @property
    def rung(self) -> int:
        """The rung of successive halving, from 1; 0 in a grid search."""
        return rung(self.stage)


def sensitivity(results: StudyResults, cell: Cell) -> list[SensitivityRow]:
    """A row for each setting that the cell's search has tried so far, from best to worst.

    Settings of which a run failed come after all others. Among either, one that came to a later rung of successive
    halving comes first; within a rung the higher score does.
    """
    runs = results.of(cell)
    chosen = {run.key.choices for run in definitive(runs)}
    return [_row(cell, rank, tried, chosen) for rank, tried in enumerate(settings_tried(runs), start=1)]


def sensitivities(results: StudyResults) -> list[SensitivityRow]:
    """The rows of every cell, in the study's order."""
    return [row for cell in results.plans for row in sensitivity(results, cell)]


def searches_at_chance(results: StudyResults) -> list[Cell]:
    """The cells whose definitive runs have a setting that nothing speaks for."""
    return [cell for cell in results.plans if search_at_chance(results.of(cell))]


def _row(cell: Cell, rank: int, runs: Sequence[FinishedRun], chosen: set[Choices]) -> SensitivityRow:
    values = average_performances(runs)
    measured = summary(values)
    key = runs[0].key
    return SensitivityRow(
        cell=cell,
        rank=rank,
        stage=key.stage,
        choices=dict(key.choices),
        mean=measured["mean"],
        std=measured["std"] if len(values) > 1 else None,
        score=score(runs),
        finished=len(values),
        failed=len(runs) - len(values),
        chosen=key.choices in chosen,
    )
