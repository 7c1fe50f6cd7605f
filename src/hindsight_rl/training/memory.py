"""Whether a job can fit into this machine's memory: a lower bound, found before anything is compiled."""

import math
import os
import resource
from contextlib import suppress
from pathlib import Path

import jax
import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.interface import Environment, Task
from hindsight_rl.training.program import Program
from hindsight_rl.training.settings import Settings

_LIMIT_OF_GROUP = Path("/sys/fs/cgroup/memory.max")


def require_memory(program: Program, settings: Settings, runs: int) -> None:
    """Refuse what cannot be held at all. What is let through may still be too much: this counts only what must be."""
    needs = needed_bytes(program, settings, runs)
    needed, held = sum(needs.values()), memory()
    if needed > held:
        lower = max(needs, key=lambda name: needs[name])
        raise HindsightError(
            f"This needs at least {_gigabytes(needed)} of memory, and {_gigabytes(held)} can be had: lower {lower}."
        )


def needed_bytes(program: Program, settings: Settings, runs: int) -> dict[str, int]:
    """What must be in memory at the same time, by the settings on which it depends."""
    task = program.task
    state = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(program.states(1)))
    evaluated = _bytes_of_state(task) if isinstance(task, Environment) else np.dtype(np.float64).itemsize
    return {
        "the runs, the hidden layers or the capacity of the replay buffer": runs * state,
        "the batch size or the horizon": settings.batch_size * task.horizon * _bytes_of_state(task),
        "the evaluation episodes": settings.evaluation_episodes * evaluated,
    }


def memory() -> int:
    """Bytes that this process can have: the machine's, unless a limit of the process or of its group is lower."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        limits.append(soft)
    with suppress(OSError, ValueError):  # there may be no group, or none with a limit ("max")
        limits.append(int(_LIMIT_OF_GROUP.read_text()))
    return min(limits)


def _bytes_of_state(task: Task) -> int:
    """Of one state of an episode as a learner sees it: an observation and the goal that it achieves."""
    shown = math.prod(task.observation_shape) * np.dtype(task.observation_type).itemsize
    return shown + math.prod(task.goal_shape) * np.dtype(task.goal_type).itemsize


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"
