"""One HPG update on Ms. Pac-man's pictures: ours beside PyTorch's, with a check that both compute the same gradient."""

import os
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from measured import in_rounds, need
from synthetic_episodes import batch
from torch_update import TorchUpdate, torch_kernel

from hindsight_rl.agents.active_goals import active_goals
from hindsight_rl.agents.interface import Agent
from hindsight_rl.agents.options import HindsightBaselineOptions
from hindsight_rl.agents.policy_gradient import training_coefficients
from hindsight_rl.agents.surrogate import encode_states, surrogate_gradient
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.estimators.table import find_estimator
from hindsight_rl.experiments.configuration import resolve
from hindsight_rl.networks.images import LAYERS
from hindsight_rl.networks.policy import Policy
from hindsight_rl.training.program import make_program

GOALS_EACH = 3
Clock = Callable[[], float]
RATES = {"learning_rate": jnp.float32(1e-4)}


def measure_images(rounds: int, with_naive: bool, clock: Clock = time.perf_counter) -> dict[str, Any]:
    """Seconds of an update for each contestant, round by round, and how far the gradients are apart."""
    torch = need("torch")
    job = resolve("ms-pacman", {"method": "hpg", "max_active_goals": GOALS_EACH})
    task = job.environment.task
    assert isinstance(task, HostedTask)
    episodes = batch(task, "ms-pacman")
    agent = make_program(task, job.settings).agent
    state, key = agent.init(jax.random.key(0)), jax.random.key(1)

    def theirs(channels_last: bool) -> TorchUpdate:
        return TorchUpdate(task, state.policy, episodes, GOALS_EACH, key, channels_last)

    difference = gradient_difference(task, state, key, theirs(False))
    ours, cores = our_update(agent, state, episodes, key, clock), os.cpu_count() or 1
    updates = {layout: theirs(layout == "last").shared for layout in ("first", "last")}
    ways = [(layout, threads) for layout in updates for threads in sorted({1, cores})]
    probes = {way: min(timed(updates[way[0]], torch, way[1], clock) for _ in range(2)) for way in ways}
    layout, threads = best = min(ways, key=lambda way: probes[way])
    contestants = {"ours": ours, "PyTorch": lambda: timed(updates[layout], torch, threads, clock)}
    found: dict[str, Any] = {"seconds": in_rounds(contestants, rounds), "gradient_difference": difference}
    found |= {"layout": best[0], "threads": best[1]}
    if with_naive:
        found["naive"] = timed(theirs(False).naive, torch, cores, clock)
    return found


def our_update(agent: Agent, state: Any, episodes: Episodes, key: jax.Array, clock: Clock) -> Callable[[], float]:
    """A function that makes one update and says how long it took."""
    update = jax.jit(agent.update)

    def measure() -> float:
        began = clock()
        jax.block_until_ready(update(state, episodes, RATES, key))
        return clock() - began

    measure()
    return measure


def timed(work: Callable[[], None], torch: Any, threads: int, clock: Clock) -> float:
    """Seconds of some work of PyTorch with so many threads."""
    torch.set_num_threads(threads)
    began = clock()
    work()
    return clock() - began


def gradient_difference(task: HostedTask, state: Any, key: jax.Array, theirs: TorchUpdate) -> float:
    """The largest difference between the two gradients, relative to the largest entry of the same array."""
    episodes = batch(task, "ms-pacman")
    estimator, options = find_estimator("weighted"), HindsightBaselineOptions(max_active_goals=GOALS_EACH)

    def gradient(policy: Policy) -> Policy:
        goals = active_goals(task, episodes, key, options)
        states = encode_states(task, policy, episodes)
        now = state._replace(policy=policy)
        coefficients, _ = training_coefficients(task, estimator, options, now, episodes, states, goals)
        return surrogate_gradient(policy, episodes, states, goals, coefficients)

    ours = jax.jit(gradient)(state.policy)
    assert ours.trunk is not None
    theirs.shared()
    pairs, depth = [], ours.trunk.shape[2]
    for layer, kernel, (channels, size, stride) in zip(theirs.trunk, ours.trunk.kernels, LAYERS, strict=True):
        pairs.append((layer.weight, torch_kernel(np.asarray(kernel), size, stride, depth, channels)))
        depth = channels
    weights = [ours.trunk.state_weight, ours.trunk.goal_weight, *ours.network.weights]
    pairs += [(layer.weight, np.asarray(weight).T) for layer, weight in zip(theirs.heads, weights, strict=True)]
    # Their loss is the negative of our objective.
    return max(float(np.abs(one.grad.numpy() + other).max() / np.abs(other).max()) for one, other in pairs)
