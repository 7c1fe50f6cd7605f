"""What every run is told, whatever its environment and method. Imports nothing heavy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.options import Count, Options

EpisodesEnd = Literal["goal", "horizon"]


@dataclass(frozen=True)
class RunSettings(Options):
    """How long to train, how to evaluate, how often to repeat it."""

    batch_size: Count = 16
    """Episodes collected for each update."""
    batches: Count = 1000
    """Updates in each run."""
    evaluate_every: Count = 10
    """Batches between evaluations; one more is at the end, whatever the number of batches."""
    evaluation_episodes: Count = 256
    """Greedy episodes in each evaluation."""
    episodes_end: EpisodesEnd = "goal"
    """When training episodes end. goal: when the pursued goal is reached. horizon: only at the horizon (unbiased)."""
    play_ahead: bool = False
    """Hosted environments: play a batch while the one before is learned from, by the policy of before that. The first
    one after an evaluation is played by the newest policy, so that evaluate_every then has a say in what is learned."""
    runs: Count = 1
    """Independent runs, trained side by side."""
    seed: int = 0
    """Seed of the first run; the others follow it one by one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.runs > 2**32:
            raise HindsightError(f"runs must be at most {2**32}, each with a seed of its own, not {self.runs}.")
        if self.seed < 0 or self.seed + self.runs > 2**32:
            raise HindsightError(f"seed must lie between 0 and {2**32 - self.runs}, not {self.seed}.")

    @property
    def seeds(self) -> range:
        """The seed of each run."""
        return range(self.seed, self.seed + self.runs)

    @property
    def evaluation_batches(self) -> list[int]:
        """The number of batches seen at each evaluation, batch 0 included."""
        return evaluation_batches(self.batches, self.evaluate_every)

    def next_evaluation(self, done: int) -> int:
        """The batch of the evaluation that follows so many batches; a job that was made longer meets the same ones."""
        return min((done // self.evaluate_every + 1) * self.evaluate_every, self.batches)


def evaluation_batches(batches: int, every: int) -> list[int]:
    """The number of batches seen at each evaluation: 0, then one interval after another; the last may be short.

    >>> evaluation_batches(10, 4)
    [0, 4, 8, 10]
    """
    return [*range(0, batches, every), batches]


def evaluation_count(batches: int, every: int) -> int:
    """How many there are; a list of them may be too long for memory.

    >>> evaluation_count(10, 4)
    4
    """
    return -(-batches // every) + 1


EARLIER_ENDS = {"paper": "goal", "full": "horizon"}


def translated(values: Mapping[str, Any], notice: Callable[[str], None] = lambda sentence: None) -> dict[str, Any]:
    """Settings with today's names: `horizon = "paper"` or `"full"` was once the name for when episodes end."""
    values, earlier = dict(values), values.get("horizon")
    if isinstance(earlier, str) and earlier in EARLIER_ENDS:
        values["episodes_end"] = EARLIER_ENDS[values.pop("horizon")]
        notice(f'horizon = "{earlier}" is now episodes_end = "{values["episodes_end"]}" (a horizon is a length).')
    return values
