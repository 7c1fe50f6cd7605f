"""What is known of the runs of a study: which they are, and what came out of each."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

DEFINITIVE = "definitive"
"""The stage of the runs that count; every other stage belongs to the search."""
Choices = tuple[tuple[str, float], ...]
"""The values of the options that a study varies, by name, in the method's order."""
USUAL_METRICS = ("mean_return", "success_rate")
"""What every run records."""


class Cell(NamedTuple):
    """What a study compares: a method on an environment with a batch size."""

    environment: str
    batch_size: int
    method: str

    @property
    def name(self) -> str:
        """A name for people."""
        return f"{self.environment}-batch{self.batch_size}-{self.method}"

    @property
    def file_name(self) -> str:
        """A name for files: that of an environment may hold the path of a map."""
        return re.sub(r"[^A-Za-z0-9+.-]+", "_", self.name)


class RunKey(NamedTuple):
    """What tells a run of a cell from the others."""

    stage: str
    choices: Choices
    seed: int


class Evidence(NamedTuple):
    """What tells whether a run learned anything; NaN where it failed.

    `untrained` is at batch 0; `late` is the median over the second half of the evaluations, which a few lucky
    episodes do not move.
    """

    untrained_success: float
    late_success: float
    untrained_return: float
    late_return: float
    episodes: float
    """In each evaluation."""


DEVIATIONS_ABOVE_CHANCE = 3
"""A run is above chance when it is so many standard deviations better late than runs are before they learn."""


def above_chance(runs: Iterable[Evidence]) -> int | None:
    """How many of the runs of a round are above chance, which is what all of them do at batch 0; None without runs.

    Success rates tell. Their deviation is the larger one of that between untrained runs, of which a round may have only
    two or three that differ (settings share their seeds), and of what drawing the episodes alone brings. Where goals
    are always reached at batch 0, or never at all, returns tell.
    """
    finished = [run for run in runs if np.all(np.isfinite(run))]
    if not finished:
        return None
    untrained, late, untrained_returns, late_returns, episodes = np.array(finished).T
    # One success more and one failure more than were seen, so that no success at all does not count as certainty.
    share = (np.sum(untrained * episodes) + 1) / (np.sum(episodes) + 2)
    deviation = max(float(untrained.std()), float(np.sqrt(share * (1 - share) / episodes.min())))
    threshold = share + DEVIATIONS_ABOVE_CHANCE * deviation
    if threshold < 1 and np.any(untrained + late > 0):
        return int(np.sum(late > threshold))
    return int(np.sum(late_returns > untrained_returns.mean() + DEVIATIONS_ABOVE_CHANCE * untrained_returns.std()))


@dataclass(frozen=True)
class Cause:
    """Why a run failed, and in which batch."""

    batch: int
    sentence: str


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run that came to its end, or failed on the way."""

    cell: Cell
    key: RunKey
    settings: Mapping[str, Any]
    """All settings of the run, by name."""
    batches: Int[np.ndarray, " evaluation"]
    episodes: Int[np.ndarray, " evaluation"]
    metrics: Mapping[str, Float[np.ndarray, " evaluation"]]
    """`mean_return` and `success_rate` at each evaluation, NaN from the first after a failure; others by any name."""
    seconds: float
    """The time of one core that went into the run, evaluations included but not compilation."""
    failure: Cause | None = None
    records: Mapping[str, Int[np.ndarray, "..."]] = field(default_factory=dict)
    """What the agent recorded of itself, such as `ratios`: how many active normalised likelihood ratios fell into
    each bin, by time step and bin (equal bins from 0 to 1), over all of training."""
    origin: int = 0
    """Number of the entry in `StudyResults.origins` that made it."""

    @property
    def mean_returns(self) -> Float[np.ndarray, " evaluation"]:
        """Average return at each evaluation."""
        return self.metrics["mean_return"]

    @property
    def success_rates(self) -> Float[np.ndarray, " evaluation"]:
        """Share of episodes that reached their goal, at each evaluation."""
        return self.metrics["success_rate"]

    @property
    def average_performance(self) -> float:
        """Mean return over the evaluations; NaN for a run that failed."""
        return float("nan") if self.failure else float(self.mean_returns.mean())

    @property
    def evidence(self) -> Evidence:
        """Whether it learned anything; NaN for a run that failed."""
        if self.failure or len(self.mean_returns) < 2:
            return Evidence(*[float("nan")] * len(Evidence._fields))
        late = slice(1 + (len(self.batches) - 1) // 2, None)
        return Evidence(
            untrained_success=float(self.success_rates[0]),
            late_success=float(np.median(self.success_rates[late])),
            untrained_return=float(self.mean_returns[0]),
            late_return=float(np.median(self.mean_returns[late])),
            episodes=float(self.settings.get("evaluation_episodes", "nan")),
        )


@dataclass(frozen=True, eq=False)
class StudyResults:
    """All that a study's file holds."""

    facts: Mapping[str, Any]
    """The study's `name`, and what else was said of it as a whole."""
    plans: Mapping[Cell, Mapping[str, Any]]
    """What is to be run for each cell, in the study's order."""
    runs: Sequence[FinishedRun]
    origins: Mapping[int, Mapping[str, Any]]
    """Versions, machine and code version, by number."""
    damaged: Sequence[str] = ()
    """The names of runs and plans that are not what was written; they are left out of the others."""

    def of(self, cell: Cell, stage: str | None = None) -> list[FinishedRun]:
        """The runs of a cell, or of one of its stages, by choices and seed."""
        return [run for run in self.runs if run.cell == cell and stage in (None, run.key.stage)]


def distinct(names: Iterable[str]) -> list[str]:
    """Each name once, in the order of their first appearance."""
    return list(dict.fromkeys(names))


def other_metrics(names: Iterable[str]) -> list[str]:
    """The names of what only some runs record, each once."""
    return [name for name in distinct(names) if name not in USUAL_METRICS]
