"""Gradient steps per second of stable-baselines3 and of ours, doing the same work on the same cores in turns."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from typing import Any

import jax
import jax.numpy as jnp
from measured import in_rounds, need
from ours import Ours
from replay_contestants import EPISODES, MATCHED, REPLAY_RATE, Arena
from stable_baselines import StableBaselines

from hindsight_rl.environments.registry import make_compiled
from hindsight_rl.rollout.compiled import collect

PROBE = 32
"""Gradient steps with which numbers of threads are compared."""


def measure_speed(arena: Arena, minibatch: int, cycles: int, rounds: int) -> dict[str, Any]:
    """Gradient steps per second: of learning alone, with a buffer that is filled, and of the whole of training."""
    theirs_set, ours_set = (replace(contestant, minibatch=minibatch) for contestant in MATCHED)
    theirs, ours = StableBaselines(arena, theirs_set, 0), Ours(arena, ours_set, 0)
    for _ in range(cycles):
        theirs.collect()
    ours.train(cycles * EPISODES)
    update, steps = compiled_update(ours, arena), arena.gradient_steps
    update()
    threads = best_threads(theirs)
    contestants: dict[str, Callable[[], float]] = {
        "SB3 learning": lambda: rate(steps, lambda: theirs.learn(steps)),
        "ours learning": lambda: rate(steps, update),
        "SB3 network alone": lambda: network_alone(theirs, steps),
        "SB3 training": lambda: training(theirs),
        "ours training": lambda: training(ours),
    }
    with torch_threads(threads):
        rates = in_rounds(contestants, rounds)
    return {"rates": rates, "threads": threads, "compilation": ours.compilation}


def best_threads(theirs: StableBaselines) -> int:
    """The number of threads with which their learning is fastest: small matrices gain little from a second one."""
    rates = {}
    for threads in sorted({1, os.cpu_count() or 1}):
        with torch_threads(threads):
            rates[threads] = rate(PROBE, lambda: theirs.learn(PROBE))
            if rates[threads] > max(rates.values()) / 2:  # no need to look twice at one that is much slower
                rates[threads] = max(rates[threads], *(rate(PROBE, lambda: theirs.learn(PROBE)) for _ in range(2)))
    return max(rates, key=lambda threads: rates[threads])


def compiled_update(learner: Ours, arena: Arena) -> Callable[[], None]:
    """Our learning alone: a batch of episodes into the buffer, then the gradient steps of a cycle."""
    agent = learner.program.agent
    state = jax.tree.map(lambda leaf: jnp.array(leaf[0]), learner.states.agent)

    def explore(*situation: Any) -> Any:
        return agent.explore(state, *situation)

    episodes = collect(make_compiled(arena.name), explore, EPISODES, jax.random.key(1))
    rates = {"learning_rate": jnp.float32(REPLAY_RATE)}
    # In training the buffer is updated where it lies; a copy of it for each call would be an artefact.
    update = jax.jit(agent.update, donate_argnums=0)
    kept = [jax.tree.map(jnp.copy, state)]

    def learn_once() -> None:
        kept[0] = jax.block_until_ready(update(kept[0], episodes, rates, jax.random.key(2))).state

    return learn_once


def network_alone(theirs: StableBaselines, steps: int) -> float:
    """Their learning from minibatches drawn beforehand: the network, its gradient and Adam, but no buffer."""
    buffer = theirs.model.replay_buffer
    drawn = cycle([buffer.sample(theirs.model.batch_size) for _ in range(8)])
    buffer.sample = lambda *arguments, **options: next(drawn)
    try:
        return rate(steps, lambda: theirs.learn(steps))
    finally:
        del buffer.sample


def training(learner: StableBaselines | Ours) -> float:
    """Gradient steps per second with the episodes between them."""
    before, began = learner.gradient_steps, time.perf_counter()
    learner.train(EPISODES)
    return (learner.gradient_steps - before) / (time.perf_counter() - began)


def rate(steps: int, work: Callable[[], Any]) -> float:
    """Steps per second of some work."""
    began = time.perf_counter()
    work()
    return steps / (time.perf_counter() - began)


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """PyTorch with so many threads."""
    torch = need("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
