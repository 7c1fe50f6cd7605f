"""Tasks whose episodes are played by simulators, outside of the compiled program.

A compiled environment is one object; a hosted one is two. The task describes it; a `Simulator` holds an emulator or a
physics engine and plays one episode at a time.
"""

from abc import abstractmethod
from collections.abc import Iterable

import equinox as eqx

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.interruption import raise_if_interrupted
from hindsight_rl.core.numbers import require_positive_integer
from hindsight_rl.environments.interface import Task
from hindsight_rl.environments.simulators import SimulatorSource


class HostedTask(Task):
    """A task that simulators play; `source` can be sent to worker processes, which make the simulators."""

    name: eqx.AbstractVar[str]
    """How people call it."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences that a user should see before learning starts."""
        return ()

    @property
    def state_limit(self) -> int | None:
        """There is no bound worth using."""
        return None

    @abstractmethod
    def source(self, pictures: bool = False) -> SimulatorSource:
        """How to make a simulator of this task, here or in another process, one that can draw if asked for."""

    def take_fault(self) -> HindsightError | KeyboardInterrupt | None:
        """What went wrong in `reached` or `reward` since this was last asked.

        A compiled program cannot raise a sentence, so a task whose rewards may fail remembers the failure; and nor can
        it be interrupted, so an interruption is remembered too.
        """
        return None

    def raise_fault(self) -> None:
        """Raise what went wrong there."""
        raise_if_interrupted()
        fault = self.take_fault()
        if fault is not None:
            raise fault


def check_workers(tasks: Iterable[Task], count: int | None) -> None:
    """Refuse a number of worker processes that is none, or that no task has a use for; None is always right."""
    if count is None:
        return
    if not any(isinstance(task, HostedTask) for task in tasks):
        raise HindsightError("workers play hosted environments; this one is compiled and needs none: leave them out.")
    require_positive_integer("workers", count)
