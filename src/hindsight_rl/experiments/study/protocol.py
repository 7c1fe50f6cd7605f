"""The paper's protocol: search the learning rates, then run the best with fresh seeds. Pure: results in, work out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hindsight_rl.experiments.study.plan import SEEDS_BETWEEN_STAGES, Plan, Stage
from hindsight_rl.methods.registry import find_method
from hindsight_rl.records.runs import DEFINITIVE, Choices, RunKey
from hindsight_rl.training.settings import Settings

FEWER = 4
"""From one rung of successive halving to the next, a quarter of the settings goes on."""
LONGER = 2
"""Each for twice the batches and with twice the runs. (Four times, and so a sixteenth of the batches in the first rung
of a large grid, was tried: before anything is learned, the scores of all settings are noise. See results/halving.)"""
MOST_RUNS_IN_A_PIECE = 20
"""Runs that are trained side by side, and so are finished and written together."""

Performances = Mapping[RunKey, float]
"""The average performance of each finished run of a cell; NaN where it failed."""


@dataclass(frozen=True)
class Round:
    """One round of a plan: some settings, each with the same runs."""

    name: str
    choices: tuple[Choices, ...]
    stage: Stage
    first_seed: int

    @property
    def keys(self) -> list[RunKey]:
        """Its runs."""
        seeds = range(self.first_seed, self.first_seed + self.stage.runs)
        return [RunKey(self.name, choices, seed) for choices in self.choices for seed in seeds]

    @property
    def updates(self) -> int:
        """Updates in all of its runs."""
        return len(self.keys) * self.stage.batches


@dataclass(frozen=True)
class Piece:
    """Runs of one cell that are trained side by side: they differ only in seeds and rates."""

    plan: Plan
    round: Round
    keys: tuple[RunKey, ...]

    @property
    def settings(self) -> Settings:
        """The settings that the runs share."""
        return self.plan.settings(self.round.stage, len(self.keys), self.keys[0].choices)

    @property
    def name(self) -> str:
        """A name for people and files."""
        return f"{self.plan.cell.name}, {self.round.name}"


def next_piece(plan: Plan, performances: Performances) -> Piece | None:
    """What is to be run next for a cell, given what is finished; None when nothing is left."""
    for this in _rounds(plan, performances):
        missing = tuple(key for key in this.keys if key not in performances)
        if missing:
            rates = find_method(plan.method).rates
            first = _compiled_choices(missing[0], rates)
            alike = tuple(key for key in missing if _compiled_choices(key, rates) == first)
            return Piece(plan, this, alike[:MOST_RUNS_IN_A_PIECE])
    return None


def _compiled_choices(key: RunKey, rates: Sequence[str]) -> Choices:
    """The choices that are no inputs of the compiled program, so that runs with others need another program."""
    return tuple((name, value) for name, value in key.choices if name not in rates)


def rounds_ahead(plan: Plan, performances: Performances) -> list[tuple[Round, int]]:
    """Every round with the number of its runs that are still to come, guessing the settings that will go on."""
    return [
        (this, sum(key not in performances for key in this.keys)) for this in _rounds(plan, performances, guess=True)
    ]


def _rounds(plan: Plan, performances: Performances, guess: bool = False) -> Iterator[Round]:
    """The rounds in order; each is known only once the ones before it are finished, unless guesses will do."""
    choices = tuple(plan.grid)
    if len(choices) > 1:
        stages = search_stages(plan)
        for number, stage in enumerate(stages):
            name = "search" if len(stages) == 1 else f"search {number + 1}"
            this = Round(name, choices, stage, plan.seed + (number + 1) * SEEDS_BETWEEN_STAGES)
            yield this
            finished = all(key in performances for key in this.keys)
            if not finished and not guess:
                return
            ranking = ranked(this, performances) if finished else choices
            survivors = 1 if number == len(stages) - 1 else _kept(len(choices))
            choices = tuple(sorted(ranking[:survivors], key=_values))
    yield Round(DEFINITIVE, choices, plan.definitive, plan.seed)


def search_stages(plan: Plan) -> list[Stage]:
    """One stage for the full grid. For successive halving, rungs of more and more batches and runs.

    The last rung has the batches and runs of the plan and at most four settings; each rung before it half the batches
    (whole evaluations, at least one) and half the runs of its successor, for four times the settings.
    """
    if plan.strategy == "grid":
        return [plan.search]
    settings, rungs = len(plan.grid), 1
    while settings > FEWER:
        settings = _kept(settings)
        rungs += 1
    return [_rung(plan.search, rungs - 1 - number) for number in range(rungs)]


def _kept(settings: int) -> int:
    """How many settings of a rung go on to the next."""
    return -(-settings // FEWER)


def _rung(full: Stage, before_last: int) -> Stage:
    evaluations = full.batches // full.evaluate_every
    kept = max(1, evaluations // LONGER**before_last)
    runs = max(1, -(-full.runs // LONGER**before_last))
    return replace(full, runs=runs, batches=kept * full.evaluate_every)


def ranked(this: Round, performances: Performances) -> list[Choices]:
    """The settings of a finished round from best to worst.

    The score is the paper's: mean minus standard deviation (ddof 0) of the average performance over runs. A setting
    with failed runs comes after all without, and equal scores leave the smaller choices in front.
    """
    found: dict[Choices, list[float]] = {choices: [] for choices in this.choices}
    for key in this.keys:
        found[key.choices].append(performances[key])

    def order(choices: Choices) -> tuple[int, float, tuple[float, ...]]:
        values = np.array(found[choices])
        failed = int(np.sum(np.isnan(values)))
        return failed, -score(values[~np.isnan(values)]), _values(choices)

    return sorted(this.choices, key=order)


def _values(choices: Choices) -> tuple[float, ...]:
    return tuple(value for _, value in choices)


def score(performances: Sequence[float] | np.ndarray) -> float:
    """Mean minus standard deviation; minus infinity for no run at all."""
    values = np.asarray(performances, dtype=np.float64)
    return float(values.mean() - values.std()) if values.size else -np.inf
