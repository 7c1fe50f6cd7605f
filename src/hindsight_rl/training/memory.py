"""Whether a job can fit into this machine's memory: bounds before anything is compiled, the need before it runs."""

import math
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.core.memory import memory
from hindsight_rl.environments.interface import Environment, Task
from hindsight_rl.training.program import Program
from hindsight_rl.training.settings import Settings

_HELD = ("dot_general", "conv_general_dilated", "gather", "scatter", "sort", "cumsum", "concatenate", "scan", "while")
"""Steps whose results are written to memory; those of others may be computed where they are used."""
_BYTES_OF_OUTCOME, _BYTES_OF_HOSTED_OUTCOME = 17, 64
"""Of an evaluation episode: random numbers, return and success; seeds are made elsewhere, and of more numbers."""
_BYTES_OF_EVALUATION = 64
"""Of one run: its batch, episodes, return, success rate, and some metrics."""
_OF_RUNS = ("the runs", "the hidden layers", "the horizon")
_OF_STEPS = ("the batch size", "the evaluation episodes", "the horizon", "the hidden layers")


def require_memory(program: Program, settings: Settings, runs: int) -> None:
    """Refuse what cannot be held at all. What is let through may still be too much: this counts only what must be."""
    needs = needed_bytes(program, settings, runs)
    _require("at least ", sum(needs.values()), max(needs, key=lambda name: needs[name]))


def require_memory_of_episodes(episodes: int, hosted: bool = False) -> None:
    """Refuse more episodes than could be counted in memory, each with its random numbers, return and success."""
    _require("at least ", episodes * (_BYTES_OF_HOSTED_OUTCOME if hosted else _BYTES_OF_OUTCOME), "the episodes")


def require_memory_of_steps(program: Program, traced: Any) -> None:
    """Refuse a traced program of which a single step makes more than there is; that is known before it is compiled."""
    _require("at least ", _largest_result(traced.jaxpr.jaxpr), _either(*_OF_STEPS, *program.agent.sizes))


def require_memory_of_program(program: Program, compiled: Any, shares: int, at_once: int) -> None:
    """Refuse what would need more than there is once it is compiled, for so many shares of runs, so many at once."""
    found = compiled.memory_analysis()
    if found is not None:  # some backends do not say
        held = shares * (found.argument_size_in_bytes + found.output_size_in_bytes)
        _require("", held + at_once * found.temp_size_in_bytes, _either("the runs", *_OF_STEPS, *program.agent.sizes))


def _require(at_least: str, needed: int, lower: str) -> None:
    if needed > (held := memory()):
        raise HindsightError(
            f"This needs {at_least}{_gigabytes(needed)} of memory, and {_gigabytes(held)} can be had: lower {lower}."
        )


def _largest_result(program: Any) -> int:
    """Bytes of the largest result that must be held, of any step of a traced program and of those within it."""
    return max(_results(program), default=0)


def _results(program: Any) -> Iterator[int]:
    for step in program.eqns:
        if step.primitive.name in _HELD:
            yield sum(math.prod(one.aval.shape) * one.aval.dtype.itemsize for one in step.outvars)
        for value in step.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                if hasattr(inner := getattr(inner, "jaxpr", inner), "eqns"):
                    yield from _results(inner)


def needed_bytes(program: Program, settings: Settings, runs: int) -> dict[str, int]:
    """What must be in memory at the same time, by the settings on which it depends."""
    task = program.task
    # What an interruption saves is held until there is a newer one; on the host the two share what has not changed.
    state = _bytes_of_run(program) * (1 if program.agent.updates_on_host else 2)
    evaluated = _bytes_of_state(task) if isinstance(task, Environment) else _BYTES_OF_HOSTED_OUTCOME
    evaluations = -(-settings.batches // settings.evaluate_every)
    return {
        _of_runs(program): runs * state,
        "the batch size or the horizon": settings.batch_size * task.horizon * _bytes_of_state(task),
        "the evaluation episodes": settings.evaluation_episodes * evaluated,
        "the batches, or evaluate less often": runs * evaluations * _BYTES_OF_EVALUATION,
    }


def _of_runs(program: Program) -> str:
    return _either(*_OF_RUNS, *(program.agent.sizes or ("the capacity of the replay buffer",)))


def _either(*settings: str) -> str:
    *others, last = settings
    return f"{', '.join(others)} or {last}"


def _bytes_of_run(program: Program) -> int:
    try:
        leaves = jax.tree.leaves(program.states(1))
    except (TypeError, OverflowError) as error:  # sizes for which not even JAX has a number
        raise HindsightError(f"No memory can hold this ({gist(error)}): lower {_of_runs(program)}.") from error
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)


def _bytes_of_state(task: Task) -> int:
    """Of one state of an episode as a learner sees it: an observation and the goal that it achieves."""
    shown = math.prod(task.observation_shape) * np.dtype(task.observation_type).itemsize
    return shown + math.prod(task.goal_shape) * np.dtype(task.goal_type).itemsize


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"
