"""The training loop for compiled environments: compiled between evaluations; a thread for each core, or all devices."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from hindsight_rl.core.cores import cores
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.rollout.hosted import shapes_of_episodes
from hindsight_rl.training.devices import device_count, over_devices
from hindsight_rl.training.memory import require_memory_of_program, require_memory_of_steps
from hindsight_rl.training.program import STEPS, Evaluation, Program, Totals
from hindsight_rl.training.recording import record
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import Runs, RunState, Snapshot

SECONDS_BETWEEN_TICKS = 2.0
RUNS_IN_A_SHARE = 5
"""Runs that one call trains, where that divides them evenly among the cores; otherwise a call trains one."""

Parts = Sequence[RunState]
"""The runs in shares that are trained together."""


def compiled_training(
    settings: Settings, program: Program, runs: Runs, snapshot: Snapshot | None, tick: Callable[[int], None]
) -> Iterator[Snapshot]:
    """As `training`, for an environment that compiles."""
    shares = _shares(len(runs.seeds))
    assert program.advance is not None
    assert program.nothing is not None
    compiled = _advance(program, shares)
    nothing = [program.nothing(shares[0].stop)] * len(shares)
    if snapshot is None or snapshot.batch < settings.batches:
        traced, together = _traced(program, runs, shares, nothing[0]), _workers(len(shares))
        require_memory_of_program(program, traced.lower().compile(), len(shares), together)
    with ThreadPoolExecutor(_workers(len(shares))) as pool:

        def advance(
            parts: Parts, totals: Sequence[Totals], done: int, more: int, evaluates: bool
        ) -> tuple[Parts, Sequence[Evaluation], Sequence[Totals]]:
            def work(share: slice, part: RunState, seen: Totals) -> tuple[RunState, Evaluation, Totals]:
                rates = {name: jnp.float32(values[share]) for name, values in runs.rates.items()}
                return jax.block_until_ready(compiled(part, runs.seeds[share], rates, done, more, evaluates, seen))

            advanced = list(pool.map(work, shares, parts, totals))
            return tuple(zip(*advanced, strict=True))  # type: ignore[return-value]

        if snapshot is None:
            parts: Parts = list(pool.map(lambda share: program.init(jnp.asarray(runs.seeds[share])), shares))
            parts, evaluation, totals = advance(parts, nothing, 0, 0, True)
            recorded = record(None, runs, settings, 0, parts, _together(evaluation), _together(totals))
            snapshot = Snapshot(parts, recorded)
            yield snapshot
        parts = snapshot.parts
        if [len(part.cause) for part in parts] != [share.stop - share.start for share in shares]:
            parts = [jax.tree.map(lambda leaf, share=share: leaf[share], snapshot.states) for share in shares]
        stride = 1
        while (done := snapshot.batch) < settings.batches:
            # Summed up in the same order wherever it pauses, so that not a bit depends on that.
            target, totals, steps = settings.next_evaluation(done), nothing, np.zeros(len(runs.seeds))
            while done < target:
                began, more = time.monotonic(), min(stride, target - done)
                parts, evaluation, totals = advance(parts, totals, done, more, done + more == target)
                # Counted here: 32 bits do not hold as many actions as can be taken between two evaluations.
                steps = steps + _together(totals)[STEPS]
                totals = [{**part, STEPS: zero[STEPS]} for part, zero in zip(totals, nothing, strict=True)]
                done += more
                stride = max(1, min(2 * stride, int(more * SECONDS_BETWEEN_TICKS / (time.monotonic() - began))))
                if done < target:
                    tick(done)
            seen = _together(evaluation), {**_together(totals), STEPS: steps}
            snapshot = Snapshot(parts, record(snapshot.evaluations, runs, settings, target, parts, *seen))
            yield snapshot


def require_memory_to_compile(program: Program, runs: Runs, batch_size: int) -> None:
    """Refuse what no compiler could make fit. Tracing takes a few seconds, which the first call then need not take."""
    if program.advance is not None and program.nothing is not None:
        shares = _shares(len(runs.seeds))
        require_memory_of_steps(program, _traced(program, runs, shares, program.nothing(shares[0].stop)))
    elif not program.agent.updates_on_host:
        assert isinstance(program.task, HostedTask)
        rates = {name: jnp.float32(values[0]) for name, values in runs.rates.items()}
        episodes, key = shapes_of_episodes(program.task, batch_size), jax.random.key(0)
        state = jax.eval_shape(program.agent.init, key)
        require_memory_of_steps(program, cast(Any, program.update).trace(state, episodes, rates, key))


def _traced(program: Program, runs: Runs, shares: Sequence[slice], nothing: Totals) -> Any:
    """The program as the first call will find it, so that it is traced and compiled only once."""
    share, advance = shares[0], cast(Any, _advance(program, shares))
    rates = {name: jnp.float32(values[share]) for name, values in runs.rates.items()}
    return advance.trace(program.states(share.stop), runs.seeds[share], rates, 0, 0, True, nothing)


def _together(shares: Sequence[dict[str, Array]]) -> dict[str, np.ndarray]:
    """What was found of all runs, by name."""
    return {name: np.concatenate([share[name] for share in shares]) for name in shares[0]}


def _advance(program: Program, shares: Sequence[slice]) -> Callable[..., tuple[RunState, Evaluation, Totals]]:
    """What trains a share. Several devices have one share in common, which is divided among them within."""
    assert program.advance is not None
    return program.advance if device_count() == 1 else over_devices(program.advance, shares[0].stop)


def _workers(shares: int) -> int:
    return min(shares, cores())


def _shares(runs: int) -> list[slice]:
    """Equal shares of the runs for the cores. Few sizes of share, since each is a program that must be compiled."""
    if device_count() > 1:
        return [slice(0, runs)]
    size = RUNS_IN_A_SHARE if runs % (RUNS_IN_A_SHARE * _workers(runs)) == 0 else 1
    return [slice(start, start + size) for start in range(0, runs, size)]
