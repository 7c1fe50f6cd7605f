"""Simulator steps per second of a rollout as training makes it, beside bare simulators on the same cores."""

import functools
import os
import time
from contextlib import ExitStack
from typing import Any

import jax
import numpy as np
from bare_simulators import BareSimulators
from measured import in_rounds

from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.experiments.configuration import resolve
from hindsight_rl.rollout.hosted import collect_hosted, open_pool
from hindsight_rl.rollout.workers import WorkerPool
from hindsight_rl.training.program import make_program


def measure_rollout(name: str, seconds: float, rounds: int) -> dict[str, Any]:
    """Steps per second of each contestant, round by round.

    Also processor seconds, which a busy machine hardly changes: those of the learning process for each time step of a
    batch, during which the workers wait, and those of one policy call among them.
    """
    job = resolve(name, {"method": "hpg"})
    task, settings = job.environment.task, job.settings
    assert isinstance(task, HostedTask)
    program = make_program(task, settings)
    explore = functools.partial(program.explore, program.agent.init(jax.random.key(0)))
    cores, actions = os.cpu_count() or 1, task.horizon - 1
    wrapped = (task.source(), task.action_count, actions)
    with ExitStack() as stack:
        bare = stack.enter_context(BareSimulators(name, (actions,), cores))
        ours = stack.enter_context(BareSimulators("wrapped", wrapped, cores))
        pool = stack.enter_context(open_pool(task, settings.batch_size, cores))
        keys = iter(jax.random.split(jax.random.key(1), 10_000))
        learner: list[float] = []

        def rollout() -> float:
            began, worked, steps, batches = time.perf_counter(), time.process_time(), 0, 0
            while time.perf_counter() - began < seconds:
                episodes = collect_hosted(task, pool, explore, settings.batch_size, next(keys))
                steps += int(np.sum(episodes.lengths))
                batches += 1
            learner.append((time.process_time() - worked) / (batches * actions))
            return steps / (time.perf_counter() - began)

        contestants = {
            "bare": lambda: bare.steps_per_second(seconds),
            "simulators": lambda: ours.steps_per_second(seconds),
            "pool": lambda: pool_alone(pool, actions, task.action_count, seconds),
            "rollout": rollout,
        }
        for warm_up in contestants.values():
            warm_up()
        rates = in_rounds(contestants, rounds)
        found = {"rates": rates, "policy_call": policy_call(task, explore, settings.batch_size)}
    # The first one compiled.
    return {**found, "learner": learner[1:], "steps": settings.batch_size * actions}


def pool_alone(pool: WorkerPool, actions: int, action_count: int, seconds: float) -> float:
    """The worker processes and their shared memory, with random actions in the place of a policy."""
    slots = np.arange(len(pool.slots.over))
    generator = np.random.default_rng(0)
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        pool.begin(slots, generator.integers(2**32, size=(len(slots), 2), dtype=np.uint64))
        for _ in range(actions):
            pool.step(slots, generator.integers(action_count, size=len(slots)))
        steps += actions * len(slots)
    return steps / (time.perf_counter() - began)


def policy_call(task: HostedTask, explore: Any, count: int) -> float:
    """Processor seconds of one call of the policy."""
    observations = np.zeros((count, *task.observation_shape), task.observation_type)
    goals = np.zeros((count, *task.goal_shape), np.float32)
    began = time.process_time()
    for _ in range(50):
        jax.block_until_ready(explore(observations, goals, np.int32(0), jax.random.key(0)))
    return (time.process_time() - began) / 50
