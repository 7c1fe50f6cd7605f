"""Which runs of a study count, and for what."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.runs import DEFINITIVE, Cell, Choices, FinishedRun, StudyResults, above_chance


def definitive_runs(results: StudyResults) -> dict[Cell, list[FinishedRun]]:
    """The definitive runs of each cell, in the study's order; a cell whose search goes on has none."""
    runs: dict[Cell, list[FinishedRun]] = {cell: [] for cell in results.plans}
    for run in results.runs:
        if run.cell in runs:
            runs[run.cell].append(run)
    return {cell: definitive(of_cell) for cell, of_cell in runs.items()}


def definitive(runs: Sequence[FinishedRun]) -> list[FinishedRun]:
    """Those of a cell's runs that are definitive and have the setting that the search chose.

    There can be others: runs of the search that raised may be tried again, and then change the choice.
    """
    found = [run for run in runs if run.key.stage == DEFINITIVE]
    settings = {run.key.choices for run in found}
    if len(settings) < 2:
        return found
    candidates = [tried for tried in settings_tried(runs) if tried[0].key.choices in settings]
    if not candidates:
        raise HindsightError(
            f"The definitive runs of {found[0].cell.name} have different settings, and no search chose any."
        )
    best = max(candidates, key=lambda tried: rung(tried[0].key.stage))[0]  # the first of the last rung
    return [run for run in found if run.key.choices == best.key.choices]


def settings_tried(runs: Iterable[FinishedRun]) -> list[list[FinishedRun]]:
    """The search runs of each setting of a cell, from best to worst; of successive halving each setting's last rung.

    Settings of which a run failed come after all others. Among either, one that came to a later rung comes first.
    Within a rung it is as in the choice of the definitive setting: the fewest failures, then the highest score, then
    the lowest values.
    """
    by_setting: dict[Choices, list[FinishedRun]] = defaultdict(list)
    for run in runs:
        if run.key.stage != DEFINITIVE:
            by_setting[run.key.choices].append(run)
    return sorted(map(_last_rung, by_setting.values()), key=_order)


def search_at_chance(runs: Sequence[FinishedRun]) -> bool:
    """Whether a cell has definitive runs although no run of the last round of its search is above chance."""
    search = [run for run in runs if run.key.stage != DEFINITIVE]
    if not search or len(search) == len(runs):
        return False
    return above_chance(run.evidence for run in _last_rung(search)) == 0


def score(runs: Iterable[FinishedRun]) -> float | None:
    """The paper's: mean minus standard deviation (ddof 0) of average performance, over runs that did not fail."""
    values = average_performances(runs)
    return float(values.mean() - values.std()) if values.size else None


def rung(stage: str) -> int:
    """The number of a stage of the search: 0 for `search`, 3 for `search 3`."""
    name, _, number = stage.partition(" ")
    if name != "search" or not (stage == name or number.isdecimal()):
        raise HindsightError(f"A stage of the search is 'search' or 'search' and a number, not '{stage}'.")
    return int(number or 0)


def finished(runs: Iterable[FinishedRun]) -> list[FinishedRun]:
    """The runs that did not fail."""
    return [run for run in runs if run.failure is None]


def average_performances(runs: Iterable[FinishedRun]) -> Float[np.ndarray, " run"]:
    """The average performance of each run that did not fail."""
    return np.array([run.average_performance for run in finished(runs)], dtype=np.float64)


def new_generator(generator: np.random.Generator | None) -> np.random.Generator:
    """The given generator, or one that always draws the same."""
    return np.random.default_rng(0) if generator is None else generator


def _last_rung(runs: Sequence[FinishedRun]) -> list[FinishedRun]:
    last = max(rung(run.key.stage) for run in runs)
    return [run for run in runs if rung(run.key.stage) == last]


def _order(runs: Sequence[FinishedRun]) -> tuple[bool, int, int, float, Choices]:
    failed = len(runs) - len(finished(runs))
    value = score(runs)
    key = runs[0].key
    return failed > 0, -rung(key.stage), failed, float("inf") if value is None else -value, key.choices
