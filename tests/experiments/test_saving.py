"""What is saved is let go."""

import gc
import weakref
from typing import Any, cast

from hindsight_rl.experiments.saving import Saver


class State:
    """What stands for a snapshot."""


def test_what_has_been_saved_is_not_held_once_there_is_something_newer() -> None:
    """A replay buffer, or kept episodes of hundreds of megabytes, would be in memory once more."""
    saved: list[int] = []
    first, second = cast(Any, State()), cast(Any, State())
    with Saver(lambda newest: saved.append(id(newest)), 0.0, None) as saver:
        saver.show(first)
        saver.show(first)
        gone = weakref.ref(first)
        saver.newest = second
        del first
        gc.collect()
        assert gone() is None
        saver.save()
        saver.save()
    assert len(saved) == 2


def test_what_the_checkpoint_holds_already_is_not_saved_again() -> None:
    saved: list[Any] = []
    held = cast(Any, State())
    with Saver(saved.append, 0.0, held) as saver:
        saver.save()
        assert saved == []
        saver.newest = cast(Any, State())
        saver.save()
    assert len(saved) == 1
