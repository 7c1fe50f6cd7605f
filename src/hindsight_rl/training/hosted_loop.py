"""The training loop for hosted environments: episodes from worker processes, updates compiled."""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from hindsight_rl.agents.interface import Agent, LearningRates
from hindsight_rl.environments.hosted import HostedEnvironment
from hindsight_rl.rollout.hosted import collect_hosted, open_pool, play_hosted
from hindsight_rl.rollout.workers import WorkerPool
from hindsight_rl.training.keys import keys_of
from hindsight_rl.training.recording import Evaluation, record
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import Runs, RunState, Snapshot

SECONDS_BETWEEN_TICKS = 2.0
FEWEST_SLOTS = 16
"""Episodes that are evaluated side by side, however small the batch."""


class HostedProgram(NamedTuple):
    """The compiled functions of a job, and its agent."""

    init: Callable
    explore: Callable
    exploit: Callable
    update: Callable
    agent: Agent


def make_hosted_program(agent: Agent) -> HostedProgram:
    """Compile (at first use) what a job needs of its agent."""

    def init(seed: Array) -> RunState:
        return RunState(agent.init(keys_of(seed).init), jnp.int32(-1), jnp.int32(0))

    return HostedProgram(
        jax.jit(lambda seeds: jax.lax.map(init, seeds)),
        jax.jit(agent.explore),
        jax.jit(agent.exploit),
        agent.update if agent.updates_on_host else jax.jit(agent.update),
        agent,
    )


def hosted_training(
    environment: HostedEnvironment,
    settings: Settings,
    program: HostedProgram,
    runs: Runs,
    snapshot: Snapshot | None,
    tick: Callable[[int], None],
    notice: Callable[[str], None],
) -> Iterator[Snapshot]:
    """As `training`. Every episode begins from its own seed, so a job resumes at a batch to the very same numbers."""
    slots = max(settings.batch_size, FEWEST_SLOTS)
    for sentence in environment.notices:
        notice(sentence)
    with open_pool(environment, slots, notice=notice) as pool:
        trainer = _Trainer(environment, settings, program, pool, runs, tick)
        if snapshot is None:
            states = jax.tree.map(np.asarray, program.init(jnp.asarray(runs.seeds)))
            snapshot = trainer.evaluated(_each([states]), None, 0)
            yield snapshot
        while (done := snapshot.batch) < settings.batches:
            target = done + settings.evaluate_every
            each = [trainer.advance(run, state, done, target) for run, state in enumerate(_each(snapshot.parts))]
            snapshot = trainer.evaluated(each, snapshot, target)
            yield snapshot


class _Trainer:
    """Trains and evaluates one run at a time, in a pool that all of them share."""

    def __init__(
        self,
        environment: HostedEnvironment,
        settings: Settings,
        program: HostedProgram,
        pool: WorkerPool,
        runs: Runs,
        tick: Callable[[int], None],
    ):
        self._environment, self._settings, self._program = environment, settings, program
        self._pool, self._runs, self._tick = pool, runs, tick
        self._ticked = time.monotonic()

    def advance(self, run: int, state: RunState, done: int, target: int) -> RunState:
        """Train a run from one batch to another; one that has failed stays as it is."""
        rates = LearningRates(
            jnp.float32(self._runs.learning_rates[run]), jnp.float32(self._runs.baseline_learning_rates[run])
        )
        training_key = keys_of(jnp.uint32(self._runs.seeds[run])).training
        for batch in range(done, target):
            if state.failed_batch >= 0:
                break
            episode_key, update_key = jax.random.split(jax.random.fold_in(training_key, batch))
            explore = functools.partial(self._program.explore, state.agent)
            size, horizon = self._settings.batch_size, self._settings.horizon
            episodes = collect_hosted(self._environment, self._pool, explore, size, episode_key, horizon)
            learned, cause = self._program.update(state.agent, episodes, rates, update_key)
            failed = int(cause)  # waits for the update, in which rewards may have failed
            self._environment.task.raise_fault()
            if failed:
                state = state._replace(failed_batch=jnp.int32(batch), cause=cause)
            else:
                state = state._replace(agent=learned)
            self._report(run, batch + 1, done, target)
        return jax.tree.map(np.asarray, state)

    def evaluated(self, states: list[RunState], past: Snapshot | None, batch: int) -> Snapshot:
        """A snapshot with a new evaluation of every run."""
        outcomes = [self._evaluate(run, state, batch) for run, state in enumerate(states)]
        evaluation = Evaluation(*(jnp.array(column) for column in zip(*outcomes, strict=True)))
        parts = []
        for state, (mean_return, _) in zip(states, outcomes, strict=True):
            if not np.isfinite(mean_return) and state.failed_batch < 0:
                state = state._replace(failed_batch=jnp.int32(batch), cause=jnp.int32(4))
            # A part for each run, not one array for all: nothing is copied, be a replay buffer as large as it may.
            parts.append(jax.tree.map(lambda leaf: np.asarray(leaf)[None], state))
        past_evaluations = past.evaluations if past else None
        return Snapshot(parts, record(past_evaluations, self._runs, self._settings, batch, parts, evaluation))

    def _evaluate(self, run: int, state: RunState, batch: int) -> tuple[float, float]:
        if state.failed_batch >= 0:
            return 0.0, 0.0
        key = jax.random.fold_in(keys_of(jnp.uint32(self._runs.seeds[run])).evaluation, batch)
        exploit = functools.partial(self._program.exploit, state.agent)
        outcomes = play_hosted(self._environment, self._pool, exploit, self._settings.evaluation_episodes, key)
        return float(np.mean(outcomes.returns)), float(np.mean(outcomes.successes))

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
