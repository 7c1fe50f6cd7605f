"""What is called after each evaluation: it can look on, and it can end the training, which keeps what was learned."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.numbers import is_number
from hindsight_rl.training.state import Snapshot

Evaluated = Callable[[Snapshot], bool | None]
"""Takes the snapshot of an evaluation; True ends the training."""


@dataclass(frozen=True)
class Callback:
    """A function that is called after each evaluation, with something to do before the first and after the last."""

    evaluated: Evaluated
    """Takes the snapshot of an evaluation, with its `batch` and all `evaluations` so far; True ends the training."""
    begin: Callable[[Mapping[str, Any]], None] = lambda settings: None
    """Called with all settings by name, the environment's name among them."""
    end: Callable[[], None] = lambda: None
    """Called once training is over, however that came."""


def as_callback(given: Callback | Evaluated) -> Callback:
    """A plain function is a callback too."""
    if isinstance(given, Callback):
        return given
    if not callable(given):
        raise HindsightError(f"A callback is a function of a snapshot, or a hindsight_rl.Callback, not {given!r}.")
    return Callback(given)


def wants_end(callbacks: Sequence[Callback], snapshot: Snapshot) -> bool:
    """Call all of them; whether one of them ends the training."""
    wishes = [each.evaluated(snapshot) for each in callbacks]
    return any(wish is True for wish in wishes)


def until_success(rate: float) -> Callback:
    """Ends the training once the newest success rate of every run that has not failed is at least `rate`."""
    if not is_number(rate) or not 0 < rate <= 1:
        raise HindsightError(f"until_success must be a number above 0 and at most 1, not {rate}.")

    def evaluated(snapshot: Snapshot) -> bool:
        newest = snapshot.evaluations.success_rates[:, -1]
        known = newest[np.isfinite(newest)]
        return len(known) > 0 and bool(np.all(known >= rate))

    return Callback(evaluated)


def for_minutes(minutes: float, clock: Callable[[], float] = time.monotonic) -> Callback:
    """Ends the training at the first evaluation after so many minutes, counted from now on."""
    if not is_number(minutes) or not (math.isfinite(minutes) and minutes > 0):
        raise HindsightError(f"minutes must be a finite number above zero, not {minutes}.")
    began = clock()
    return Callback(lambda snapshot: clock() - began >= 60 * minutes)
