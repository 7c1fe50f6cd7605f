"""The training loop: compiled between evaluations, one program for all runs, one thread for each core."""

import functools
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from hindsight_rl.agents.active_goals import Lessons
from hindsight_rl.agents.dqn import dqn_agent
from hindsight_rl.agents.interface import Agent, LearningRates
from hindsight_rl.agents.policy_gradient import Options, policy_gradient_agent
from hindsight_rl.agents.registry import find_method
from hindsight_rl.agents.replay_options import ReplayOptions
from hindsight_rl.environments.hosted import HostedEnvironment
from hindsight_rl.environments.interface import Environment, Task
from hindsight_rl.rollout.compiled import collect, play
from hindsight_rl.training.hosted_loop import HostedProgram, hosted_training, make_hosted_program
from hindsight_rl.training.keys import keys_of
from hindsight_rl.training.recording import Evaluation, record
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import Runs, RunState, Snapshot

SECONDS_BETWEEN_TICKS = 2.0
RUNS_IN_A_SHARE = 5
"""Runs that one call trains, where that divides them evenly among the cores; otherwise a call trains one."""


Parts = Sequence[RunState]
"""The runs in shares that are trained together."""


class Program(NamedTuple):
    """The compiled functions of a training job; each takes an array axis of runs."""

    init: Callable[[Int[Array, " run"]], RunState]
    advance: Callable[..., tuple[RunState, Evaluation]]
    """(states, seeds, rates, batches done, batches to do, whether to evaluate): train that much further."""
    agent: Agent


def runs_of(settings: Settings) -> Runs:
    """The runs that the settings ask for: one for each seed, all with the same learning rates."""
    return Runs(
        np.array(settings.seeds, dtype=np.uint32),
        np.full(settings.runs, settings.learning_rate),
        np.full(settings.runs, settings.baseline_learning_rate),
    )


def make_agent(task: Task, settings: Settings) -> Agent:
    """The agent of the settings' method."""
    method = find_method(settings.method)
    if method.replay:
        return dqn_agent(task, replay_options(settings))
    options = Options(
        tuple(settings.hidden_layers),
        settings.max_active_goals,
        settings.ended,
        settings.initial_weights,
        settings.normalise,
        Lessons(settings.reward_offset, settings.skip_reached, settings.share_places),
    )
    return policy_gradient_agent(task, method, options)


def replay_options(settings: Settings) -> ReplayOptions:
    """The part of the settings that an agent with a replay buffer needs."""
    return ReplayOptions(
        relabel=find_method(settings.method).hindsight,
        strategy=settings.relabelling,
        relabelled_goals=settings.relabelled_goals,
        capacity=settings.replay_capacity,
        epsilon=settings.epsilon,
        discount=settings.discount,
        gradient_steps=settings.gradient_steps,
        minibatch_size=settings.minibatch_size,
        hidden_layers=tuple(settings.hidden_layers),
        reward_offset=settings.reward_offset,
        beyond_horizon=settings.beyond_horizon,
        episode_limit=settings.batches * settings.batch_size,
    )


def essence(settings: Settings) -> Settings:
    """The settings that a program is compiled for: numbers of runs and batches, rates and seeds are its inputs.

    A replay buffer has room for the episodes of a run, so there the number of batches counts.
    """
    batches = settings.batches if find_method(settings.method).replay else 1
    inputs: dict[str, Any] = {"runs": 1, "seed": 0, "learning_rate": 1.0, "baseline_learning_rate": 1.0}
    return replace(settings, batches=batches, evaluate_every=batches, **inputs)


def make_program(environment: Task, settings: Settings) -> Program | HostedProgram:
    """Compile (at first use) what a job needs. Seeds and learning rates are inputs, so one program serves them all."""
    agent = make_agent(environment, settings)
    if isinstance(environment, HostedEnvironment):
        return make_hosted_program(agent)
    assert isinstance(environment, Environment)
    return _compiled_program(environment, agent, settings)


def _compiled_program(environment: Environment, agent: Agent, settings: Settings) -> Program:

    def init(seed: Int[Array, ""]) -> RunState:
        return RunState(agent.init(keys_of(seed).init), jnp.int32(-1), jnp.int32(0))

    def update(state: RunState, batch: Int[Array, ""], key: Key[Array, ""], rates: LearningRates) -> RunState:
        episode_key, update_key = jax.random.split(jax.random.fold_in(key, batch))
        explore = functools.partial(agent.explore, state.agent)
        episodes = collect(environment, explore, settings.batch_size, episode_key, settings.horizon)
        learned, cause = agent.update(state.agent, episodes, rates, update_key)
        return RunState(learned, jnp.where(cause != 0, batch, state.failed_batch), cause)

    def advance_one(
        state: RunState, seed: Array, rates: LearningRates, done: Array, more: Array, evaluates: Array
    ) -> tuple[RunState, Evaluation]:
        keys = keys_of(seed)

        # A run that has failed trains no more. (Selecting its old state instead would copy a whole replay buffer.)
        def goes_on(carry: tuple[Array, RunState]) -> Array:
            return (carry[0] < done + more) & (carry[1].failed_batch < 0)

        def train(carry: tuple[Array, RunState]) -> tuple[Array, RunState]:
            return carry[0] + 1, update(carry[1], carry[0], keys.training, rates)

        _, state = jax.lax.while_loop(goes_on, train, (jnp.int32(done), state))

        def evaluate() -> Evaluation:
            exploit = functools.partial(agent.exploit, state.agent)
            key = jax.random.fold_in(keys.evaluation, done + more)
            outcomes = play(environment, exploit, settings.evaluation_episodes, key)
            return Evaluation(jnp.mean(outcomes.returns), jnp.mean(outcomes.successes))

        evaluation = jax.lax.cond(evaluates, evaluate, lambda: Evaluation(jnp.float32(0), jnp.float32(0)))
        fails_now = ~jnp.isfinite(evaluation.mean_return) & (state.failed_batch < 0)
        failed_batch = jnp.where(fails_now, done + more, state.failed_batch)
        return state._replace(failed_batch=failed_batch, cause=jnp.where(fails_now, 4, state.cause)), evaluation

    # One run after another, not a batch of runs: what a run works on stays in the cache.
    def advance(
        states: RunState, seeds: Array, rates: LearningRates, done: Array, more: Array, evaluates: Array
    ) -> tuple[RunState, Evaluation]:
        def one(run: tuple[RunState, Array, LearningRates]) -> tuple[RunState, Evaluation]:
            state, seed, own_rates = run
            return advance_one(state, seed, own_rates, done, more, evaluates)

        return jax.lax.map(one, (states, seeds, rates))

    return Program(jax.jit(lambda seeds: jax.lax.map(init, seeds)), jax.jit(advance), agent)


def training(
    environment: Task,
    settings: Settings,
    runs: Runs | None = None,
    snapshot: Snapshot | None = None,
    tick: Callable[[int], None] = lambda batch: None,
    program: Program | HostedProgram | None = None,
    notice: Callable[[str], None] = warnings.warn,
) -> Iterator[Snapshot]:
    """Train, and yield a snapshot after each evaluation: at batch 0, then every `evaluate_every` batches.

    From an earlier `snapshot` the job goes on to the very same numbers, since every random key comes from the seed
    and the batch's number. Where evaluations are far apart, `tick` is called with the batch reached every few seconds.
    A `program` that was made for settings with the same `essence` saves compiling it again.
    Hosted environments call `notice` with a sentence about anything odd that does no harm.
    """
    runs = runs or runs_of(settings)
    program = program or make_program(environment, settings)
    if isinstance(program, HostedProgram):
        assert isinstance(environment, HostedEnvironment)
        return hosted_training(environment, settings, program, runs, snapshot, tick, notice)
    return _compiled_training(settings, program, runs, snapshot, tick)


def _compiled_training(
    settings: Settings, program: Program, runs: Runs, snapshot: Snapshot | None, tick: Callable[[int], None]
) -> Iterator[Snapshot]:
    shares = _shares(len(runs.seeds))
    with ThreadPoolExecutor(_workers(len(shares))) as pool:

        def advance(parts: Parts, done: int, more: int, evaluates: bool) -> tuple[Parts, Evaluation]:
            def work(share: slice, part: RunState) -> tuple[RunState, Evaluation]:
                seeds, *both = (array[share] for array in runs)
                rates = LearningRates(*map(jnp.float32, both))
                return jax.block_until_ready(program.advance(part, seeds, rates, done, more, evaluates))

            advanced = list(pool.map(work, shares, parts))
            evaluations = jax.tree.map(lambda *leaves: np.concatenate(leaves), *(found for _, found in advanced))
            return [part for part, _ in advanced], evaluations

        if snapshot is None:
            parts: Parts = list(pool.map(lambda share: program.init(jnp.asarray(runs.seeds[share])), shares))
            parts, evaluation = advance(parts, 0, 0, True)
            snapshot = Snapshot(parts, record(None, runs, settings, 0, parts, evaluation))
            yield snapshot
        parts = snapshot.parts
        if [len(part.cause) for part in parts] != [share.stop - share.start for share in shares]:
            parts = [jax.tree.map(lambda leaf, share=share: leaf[share], snapshot.states) for share in shares]
        stride = 1
        while (done := snapshot.batch) < settings.batches:
            target = done + settings.evaluate_every
            while done < target:
                began, more = time.monotonic(), min(stride, target - done)
                parts, evaluation = advance(parts, done, more, done + more == target)
                done += more
                stride = max(1, min(2 * stride, int(more * SECONDS_BETWEEN_TICKS / (time.monotonic() - began))))
                if done < target:
                    tick(done)
            snapshot = Snapshot(parts, record(snapshot.evaluations, runs, settings, target, parts, evaluation))
            yield snapshot


def initial_states(environment: Task, settings: Settings) -> RunState:
    """The shape of a job's states, as a template for loading a checkpoint."""
    program = make_program(environment, settings)
    return jax.eval_shape(program.init, jnp.asarray(runs_of(settings).seeds))


def _workers(shares: int) -> int:
    return min(shares, os.cpu_count() or 1)


def _shares(runs: int) -> list[slice]:
    """Equal shares of the runs for the cores. Few sizes of share, since each is a program that must be compiled."""
    size = RUNS_IN_A_SHARE if runs % (RUNS_IN_A_SHARE * _workers(runs)) == 0 else 1
    return [slice(start, start + size) for start in range(0, runs, size)]
