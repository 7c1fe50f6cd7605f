"""Training: snapshots of a job, one after each evaluation, whoever plays its episodes."""

import warnings
from collections.abc import Callable, Iterator

import numpy as np

from hindsight_rl.core.interruption import is_interruption, raise_if_interrupted
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.rollout.crew import Hands
from hindsight_rl.training.compiled_loop import compiled_training
from hindsight_rl.training.hosted_loop import hosted_training
from hindsight_rl.training.memory import require_memory
from hindsight_rl.training.program import Program
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import Runs, Snapshot


def runs_of(settings: Settings) -> Runs:
    """The runs that the settings ask for: one for each seed, all with the same rates."""
    rates = {name: np.full(settings.runs, rate) for name, rate in settings.rates.items()}
    return Runs(np.array(settings.seeds, dtype=np.uint32), rates)


def training(
    program: Program,
    settings: Settings,
    runs: Runs | None = None,
    snapshot: Snapshot | None = None,
    tick: Callable[[int], None] = lambda batch: None,
    notice: Callable[[str], None] = warnings.warn,
    workers: int | Hands | None = None,
) -> Iterator[Snapshot]:
    """Train, and yield a snapshot after each evaluation: at batch 0, then every `evaluate_every` batches, and last.

    The `program` is one that was made for settings with the same `compiled`. From an earlier `snapshot` the job goes on
    to the very same numbers, since every random key comes from the seed and the batch's number. Where evaluations are
    far apart, `tick` is called with the batch reached every few seconds. Hosted environments are played by so many
    `workers` (processes, or actors of Ray), and call `notice` with a sentence about anything odd that does no harm.
    """
    runs = runs or runs_of(settings)
    require_memory(program, settings, len(runs.seeds))

    def attentive_tick(batch: int) -> None:
        raise_if_interrupted()
        tick(batch)

    if isinstance(program.task, HostedTask):
        return _attentive(hosted_training(program, settings, runs, snapshot, attentive_tick, notice, workers))
    return _attentive(compiled_training(settings, program, runs, snapshot, attentive_tick))


def _attentive(steps: Iterator[Snapshot]) -> Iterator[Snapshot]:
    """The same snapshots; an interruption that came out as another error, or not at all, is one again."""
    try:
        for snapshot in steps:
            raise_if_interrupted()
            yield snapshot
    except Exception as error:
        if is_interruption(error):
            raise KeyboardInterrupt from error
        raise
