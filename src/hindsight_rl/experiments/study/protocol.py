"""The paper's protocol: search the learning rates, then run the best with fresh seeds. Pure: results in, work out."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from hindsight_rl.experiments.study.plan import SEEDS_BETWEEN_STAGES, Plan, Stage
from hindsight_rl.methods.registry import find_method
from hindsight_rl.records.runs import DEFINITIVE, Choices, Evidence, RunKey, above_chance
from hindsight_rl.training.settings import Settings

FEWER = 4
"""From one rung of successive halving to the next, a quarter of the settings goes on."""
LONGER = 2
"""Each for twice the batches and with twice the runs. (Four times, and so a sixteenth of the batches in the first rung
of a large grid, was tried: before anything is learned, the scores of all settings are noise. See results/halving.)"""
FEWEST_RUNS = 3
"""Runs of each setting in a rung, if the whole search has as many: what a single run does is mostly its seed's."""
MOST_RUNS_IN_A_PIECE = 20
"""Runs that are trained side by side, and so are finished and written together."""

Performances = Mapping[RunKey, float]
"""The average performance of each finished run of a cell; NaN where it failed."""
Learned = Mapping[RunKey, Evidence]
"""Whether the finished runs of a cell learned anything, as far as that is known."""
NOTHING_KNOWN: Learned = MappingProxyType({})


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


def next_piece(plan: Plan, performances: Performances, learned: Learned = NOTHING_KNOWN) -> Piece | None:
    """What is to be run next for a cell, given what is finished; None when nothing is left."""
    return next(pieces_ahead(plan, performances, learned, MOST_RUNS_IN_A_PIECE), None)


def pieces_ahead(
    plan: Plan, performances: Performances, learned: Learned, most_runs: int, at_hand: Set[RunKey] = frozenset()
) -> Iterator[Piece]:
    """All that can be run now for a cell: what is missing of its first unfinished round, without the runs at hand."""
    for this in _rounds(plan, performances, learned):
        missing = [key for key in this.keys if key not in performances]
        if not missing:
            continue
        rates = find_method(plan.method).rates
        alike: dict[Choices, list[RunKey]] = {}
        for key in missing:
            if key not in at_hand:
                alike.setdefault(_compiled_choices(key, rates), []).append(key)
        for keys in alike.values():
            for start in range(0, len(keys), most_runs):
                yield Piece(plan, this, tuple(keys[start : start + most_runs]))
        return


def _compiled_choices(key: RunKey, rates: Sequence[str]) -> Choices:
    """The choices that are no inputs of the compiled program, so that runs with others need another program."""
    return tuple((name, value) for name, value in key.choices if name not in rates)


def rounds_ahead(plan: Plan, performances: Performances, learned: Learned = NOTHING_KNOWN) -> list[tuple[Round, int]]:
    """Every round with the number of its runs that are still to come, guessing the settings that will go on."""
    rounds = _rounds(plan, performances, learned, guess=True)
    return [(this, sum(key not in performances for key in this.keys)) for this in rounds]


def undecided(plan: Plan, performances: Performances, learned: Learned) -> list[Round]:
    """The finished rounds of a cell's search in which no run was above chance."""
    rounds = [this for this in _rounds(plan, performances, learned) if this.name != DEFINITIVE]
    return [this for this in rounds if _finished(this, performances) and _at_chance(plan, this, learned)]


def at_chance(plan: Plan, this: Round) -> str:
    """What is to be said of a round in which no run was above chance."""
    found = f"{plan.cell.name}, {this.name}: no run is above chance after {this.stage.batches} batches"
    if not decides_last(plan, this):
        return f"{found}, so all {len(this.choices)} settings go on to the next, longer rung."
    return f"{found}, so nothing was chosen: the definitive runs have the smallest values, as good as any other."


def _rounds(
    plan: Plan, performances: Performances, learned: Learned = NOTHING_KNOWN, guess: bool = False
) -> Iterator[Round]:
    """The rounds in order; each is known only once the ones before it are finished, unless guesses will do.

    A rung in which no run is above chance has sorted noise. So all of its settings go on, with as few runs as in
    the first rung, as more are meant for fewer settings; the next rung that decides leaves as few as were planned.
    """
    choices = tuple(plan.grid)
    if len(choices) > 1:
        stages, settings = search_stages(plan), _settings_in_rungs(plan)
        for number, stage in enumerate(stages):
            if number and len(choices) > settings[number]:
                stage = replace(stage, runs=stages[0].runs)
            this = Round(_rung_name(plan, number), choices, stage, plan.seed + (number + 1) * SEEDS_BETWEEN_STAGES)
            yield this
            finished, last = _finished(this, performances), number == len(stages) - 1
            if not finished and not guess:
                return
            if finished and _at_chance(plan, this, learned):
                choices = choices if not last else tuple(ranked(this, performances, by_score=False)[:1])
                continue
            ranking = ranked(this, performances) if finished else choices
            choices = tuple(sorted(ranking[: 1 if last else settings[number + 1]], key=_values))
    yield Round(DEFINITIVE, choices, plan.definitive, plan.seed)


def decides_last(plan: Plan, this: Round) -> bool:
    """Whether the definitive runs follow a round of the search."""
    return this.name == _rung_name(plan, len(_settings_in_rungs(plan)) - 1)


def _rung_name(plan: Plan, number: int) -> str:
    return "search" if len(_settings_in_rungs(plan)) == 1 else f"search {number + 1}"


def _finished(this: Round, performances: Performances) -> bool:
    return all(key in performances for key in this.keys)


def _at_chance(plan: Plan, this: Round, learned: Learned) -> bool:
    return plan.guarded and above_chance(learned[key] for key in this.keys if key in learned) == 0


def search_stages(plan: Plan) -> list[Stage]:
    """One stage for the full grid. For successive halving, rungs of more and more batches and runs.

    The last rung has the batches and runs of the plan and at most four settings; each rung before it half the batches
    (whole evaluations, at least one) and half the runs (several, if the plan has several) of its successor, for four
    times the settings.
    """
    rungs, fewest = len(_settings_in_rungs(plan)), FEWEST_RUNS if plan.guarded else 1
    return [_rung(plan.search, rungs - 1 - number, fewest) for number in range(rungs)]


def _settings_in_rungs(plan: Plan) -> list[int]:
    """How many settings each rung has, if each decides; the full grid is a single one."""
    settings = [len(plan.grid)]
    while plan.strategy == "halving" and settings[-1] > FEWER:
        settings.append(-(-settings[-1] // FEWER))
    return settings


def _rung(full: Stage, before_last: int, fewest: int) -> Stage:
    if not before_last:
        return full
    evaluations = full.batches // full.evaluate_every
    kept = max(1, evaluations // LONGER**before_last)
    runs = max(min(full.runs, fewest), -(-full.runs // LONGER**before_last))
    return replace(full, runs=runs, batches=kept * full.evaluate_every)


def ranked(this: Round, performances: Performances, by_score: bool = True) -> list[Choices]:
    """The settings of a finished round from best to worst.

    The score is the paper's: mean minus standard deviation (ddof 0) of the average performance over runs. A setting
    with failed runs comes after all without, and equal scores (or none) leave the smaller choices in front.
    """
    found: dict[Choices, list[float]] = {choices: [] for choices in this.choices}
    for key in this.keys:
        found[key.choices].append(performances[key])

    def order(choices: Choices) -> tuple[int, float, tuple[float, ...]]:
        values = np.array(found[choices])
        failed = int(np.sum(np.isnan(values)))
        return failed, -score(values[~np.isnan(values)]) if by_score else 0.0, _values(choices)

    return sorted(this.choices, key=order)


def _values(choices: Choices) -> tuple[float, ...]:
    return tuple(value for _, value in choices)


def score(performances: Sequence[float] | np.ndarray) -> float:
    """Mean minus standard deviation; minus infinity for no run at all."""
    values = np.asarray(performances, dtype=np.float64)
    return float(values.mean() - values.std()) if values.size else -np.inf
