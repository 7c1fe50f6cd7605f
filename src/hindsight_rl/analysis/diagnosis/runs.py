"""One run as a rule looks at it: what it recorded, and what it was told."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from hindsight_rl.records.evaluations import Evaluations
from hindsight_rl.records.runs import Cause

SOLVED = 0.9
"""From this success rate on, nothing is wrong."""
RISE = 0.05
"""A success rate that gained so much has risen, if evaluations have enough episodes to tell."""


@dataclass(frozen=True)
class Setting:
    """What was trained, and how."""

    method: str
    options: Mapping[str, Any]
    """All settings by name; a rule recommends only those that the method has."""
    horizon: int
    actions: int
    """How many there are; for continuous ones, how many numbers one is made of."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What the settings would be unless something was said."""
    half_range: float | None = None
    """For continuous actions, half the distance between their bounds: the geometric mean over their numbers."""


@dataclass(frozen=True)
class Figure:
    """A recorded number that a sentence rests on."""

    metric: str
    value: float
    batch: int

    def __str__(self) -> str:
        return f"{self.metric} {number(self.value)} at batch {self.batch:,}"


def number(value: float) -> str:
    """Two digits are enough to judge by."""
    return f"{value:.2f}" if 0.1 <= abs(value) < 10 else f"{value:.2g}"


@dataclass(frozen=True, eq=False)
class RunRecord:
    """One run of a job."""

    batches: Int[np.ndarray, " evaluation"]
    metrics: Mapping[str, Float[np.ndarray, " evaluation"]]
    """NaN where nothing was recorded."""
    setting: Setting
    failed: bool = False
    cause: Cause | None = field(default=None)
    """Why it failed, where that is known."""

    def figures(self, metric: str) -> list[Figure]:
        """All that was recorded under a name, in order."""
        values = self.metrics.get(metric, np.full(len(self.batches), np.nan))
        return [
            Figure(metric, float(value), int(batch))
            for batch, value in zip(self.batches, values, strict=True)
            if not math.isnan(value)
        ]

    def last(self, metric: str) -> Figure:
        """The newest number under a name that has one."""
        return self.figures(metric)[-1]

    def highest(self, metric: str) -> Figure:
        """The first of the largest numbers under a name that has one."""
        return max(self.figures(metric), key=lambda figure: figure.value)

    def success_at(self, batch: int) -> Figure:
        """The success rate at the last evaluation up to a batch."""
        return [figure for figure in self.figures("success_rate") if figure.batch <= batch][-1]

    @property
    def solved(self) -> bool:
        """Whether nearly every goal is reached in the end."""
        return self.last("success_rate").value >= SOLVED

    @property
    def rising(self) -> bool:
        """Whether the mean success rate of the last third is higher than that of the third before, and than any before.

        A rate that comes back from a fall does not count. The difference of two shares, each of n episodes, has a
        deviation of at most 0.7 / sqrt(n).
        """
        rates = [figure.value for figure in self.figures("success_rate")]
        third = max(1, len(rates) // 3)
        earlier, last = rates[:-third], float(np.mean(rates[-third:]))
        scatter = 1 / math.sqrt(third * self.setting.options.get("evaluation_episodes", math.inf))
        return last >= max(earlier) and last - float(np.mean(earlier[-third:])) >= max(RISE, scatter)


def run_records(
    evaluations: Evaluations, setting: Setting, failures: Mapping[int, Cause] | None = None
) -> list[RunRecord]:
    """The runs of a table; `failures` says why some of them failed, by their number."""
    return [
        RunRecord(
            evaluations.batches,
            {name: values[run] for name, values in evaluations.metrics.items()},
            setting,
            bool(np.isnan(evaluations.final_return[run])),
            (failures or {}).get(run),
        )
        for run in range(len(evaluations.seeds))
    ]
