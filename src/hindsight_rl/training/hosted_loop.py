"""The training loop for hosted environments: episodes from worker processes, updates compiled."""

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.rollout.crew import Hands
from hindsight_rl.rollout.hosted import collect_hosted, open_pool, play_hosted
from hindsight_rl.rollout.workers import WorkerPool
from hindsight_rl.training.keys import keys_of
from hindsight_rl.training.program import RETURN_NOT_FINITE, STEPS, Program, totals_of
from hindsight_rl.training.recording import record
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import Runs, RunState, Snapshot

SECONDS_BETWEEN_TICKS = 2.0
FEWEST_SLOTS = 16
"""Episodes that are evaluated side by side, however small the batch."""


def hosted_training(
    program: Program,
    settings: Settings,
    runs: Runs,
    snapshot: Snapshot | None,
    tick: Callable[[int], None],
    notice: Callable[[str], None],
    workers: int | Hands | None,
) -> Iterator[Snapshot]:
    """As `training`. Every episode begins from its own seed, so a job resumes at a batch to the very same numbers."""
    task, slots = program.task, max(settings.batch_size, FEWEST_SLOTS)
    assert isinstance(task, HostedTask)
    for sentence in task.notices:
        notice(sentence)
    with open_pool(task, slots, workers, notice) as pool:
        trainer = _Trainer(task, settings, program, pool, runs, tick)
        if snapshot is None:
            states = jax.tree.map(np.asarray, program.init(jnp.asarray(runs.seeds)))
            snapshot = trainer.evaluated([(state, {STEPS: 0.0}) for state in _each([states])], None, 0)
            yield snapshot
        while (done := snapshot.batch) < settings.batches:
            target = settings.next_evaluation(done)
            advanced = [trainer.advance(run, state, done, target) for run, state in enumerate(_each(snapshot.parts))]
            snapshot = trainer.evaluated(advanced, snapshot, target)
            yield snapshot


class _Trainer:
    """Trains and evaluates one run at a time, in a pool that all of them share."""

    def __init__(
        self,
        task: HostedTask,
        settings: Settings,
        program: Program,
        pool: WorkerPool,
        runs: Runs,
        tick: Callable[[int], None],
    ):
        self._task, self._settings, self._program = task, settings, program
        self._pool, self._runs, self._tick = pool, runs, tick
        self._ticked = time.monotonic()

    def advance(self, run: int, state: RunState, done: int, target: int) -> tuple[RunState, dict[str, float]]:
        """Train a run from one batch to another, and sum up its metrics; one that has failed stays as it is.

        A batch that is played ahead is played by the policy of before the update that is made meanwhile, whatever takes
        longer. None is played ahead beyond an evaluation, where only the state is kept.
        """
        seen: dict[str, float] = {STEPS: 0.0}
        ahead: Episodes | None = None
        for batch in range(done, target):
            if state.failed_batch >= 0:
                break
            episodes = self._play(run, state, batch) if ahead is None else ahead
            learn = functools.partial(self._learn, run, state, episodes, batch)
            if self._settings.play_ahead and batch + 1 < target:
                # A thread of its own: calls from one thread are computed one after another. Workers belong to this one.
                with ThreadPoolExecutor(1) as thread:
                    learning = thread.submit(learn)
                    ahead = self._play(run, state, batch + 1)
                state, totals = learning.result()
            else:
                state, totals = learn()
            self._task.raise_fault()
            for name, value in totals.items():
                seen[name] = seen.get(name, 0.0) + value
            self._report(run, batch + 1, done, target)
        return jax.tree.map(np.asarray, state), seen

    def _keys(self, run: int, batch: int) -> tuple[Key[Array, ""], Key[Array, ""]]:
        """For the episodes of a batch, and for its update."""
        key = keys_of(jnp.uint32(self._runs.seeds[run])).training
        episode_key, update_key = jax.random.split(jax.random.fold_in(key, batch))
        return episode_key, update_key

    def _play(self, run: int, state: RunState, batch: int) -> Episodes:
        """The episodes of a batch, played by the policy of a state."""
        explore = functools.partial(self._program.explore, state.agent)
        size, end = self._settings.batch_size, self._settings.episodes_end
        return collect_hosted(self._task, self._pool, explore, size, self._keys(run, batch)[0], end)

    def _learn(self, run: int, state: RunState, episodes: Episodes, batch: int) -> tuple[RunState, Mapping[str, float]]:
        """The state after an update, and what is summed up of it; nothing where it failed."""
        rates = {name: jnp.float32(values[run]) for name, values in self._runs.rates.items()}
        learned, cause, metrics = self._program.update(state.agent, episodes, rates, self._keys(run, batch)[1])
        failed = int(cause)  # waits for the update, in which rewards may have failed
        if failed:
            return state._replace(failed_batch=jnp.int32(batch), cause=cause), {}
        totals = {name: float(value) for name, value in totals_of(metrics, episodes).items()}
        return state._replace(agent=learned), totals

    def evaluated(
        self, advanced: list[tuple[RunState, dict[str, float]]], past: Snapshot | None, batch: int
    ) -> Snapshot:
        """A snapshot with a new evaluation of every run."""
        outcomes = [self._evaluate(run, state, batch) for run, (state, _) in enumerate(advanced)]
        parts = []
        for (state, _), outcome in zip(advanced, outcomes, strict=True):
            if not np.isfinite(outcome["mean_return"]) and state.failed_batch < 0:
                state = state._replace(failed_batch=jnp.int32(batch), cause=jnp.int32(RETURN_NOT_FINITE))
            # A part for each run, not one array for all: nothing is copied, be a replay buffer as large as it may.
            parts.append(jax.tree.map(lambda leaf: np.asarray(leaf)[None], state))
        evaluation, totals = _columns(outcomes), _columns([seen for _, seen in advanced])
        past_evaluations = past.evaluations if past else None
        recorded = record(past_evaluations, self._runs, self._settings, batch, parts, evaluation, totals)
        return Snapshot(parts, recorded)

    def _evaluate(self, run: int, state: RunState, batch: int) -> dict[str, float]:
        if state.failed_batch >= 0:
            return {"mean_return": 0.0, "success_rate": 0.0}
        key = jax.random.fold_in(keys_of(jnp.uint32(self._runs.seeds[run])).evaluation, batch)
        exploit = functools.partial(self._program.exploit, state.agent)
        outcomes = play_hosted(self._task, self._pool, exploit, self._settings.evaluation_episodes, key)
        return {
            "mean_return": float(np.mean(outcomes.returns)),
            "success_rate": float(np.mean(outcomes.successes)),
        }

    def _report(self, run: int, reached: int, done: int, target: int) -> None:
        """Tell how far all runs are on average, every few seconds."""
        if time.monotonic() - self._ticked >= SECONDS_BETWEEN_TICKS:
            self._ticked = time.monotonic()
            share = (run * (target - done) + reached - done) / len(self._runs.seeds)
            self._tick(done + int(share))


def _each(parts: Sequence[RunState]) -> list[RunState]:
    """The runs one by one."""
    return [
        jax.tree.map(lambda leaf, run=run: leaf[run], part) for part in parts for run in range(len(part.failed_batch))
    ]


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, np.ndarray]:
    """The values of all runs by name; not a number for a run that has none."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}
