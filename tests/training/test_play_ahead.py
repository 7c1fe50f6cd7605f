"""Playing ahead: batches by the policy of one update before, to the same bytes whatever takes longer."""

import functools
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.hosted_bits import hosted_bits

from hindsight_rl.agents.interface import CAUSES
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.methods.registry import METHODS
from hindsight_rl.rollout.hosted import collect_hosted, open_pool
from hindsight_rl.training import hosted_loop
from hindsight_rl.training.hosted_loop import FEWEST_SLOTS
from hindsight_rl.training.keys import keys_of
from hindsight_rl.training.loop import training
from hindsight_rl.training.program import Program, make_program
from hindsight_rl.training.settings import Settings, make_settings
from hindsight_rl.training.state import Snapshot

BITS = 4
TASK = hosted_bits(BITS)
SMALL = {"hidden_layers": (8,), "gradient_steps": 4, "steps_per_draw": 2, "pairs": 6, "minibatch": 8}
SIZES = {"batch_size": 6, "batches": 6, "evaluate_every": 3, "evaluation_episodes": 20}
SETTINGS = make_settings({"method": "hppo", "play_ahead": True, "kept_episodes": 24, **SIZES, **SMALL})
ROOT = Path(__file__).parent.parent.parent
ON_ONE_CORE = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from hindsight_rl.experiments.configuration import resolve
from hindsight_rl.training.loop import training
from hindsight_rl.training.program import make_program
sizes = {"batches": 3, "batch_size": 4, "evaluate_every": 3, "evaluation_episodes": 1, "play_ahead": True}
small = {"hidden_layers": (8,), "pairs": 1024, "gradient_steps": 4, "steps_per_draw": 1, "minibatch": 64}
job = resolve("examples.point_robot:PointRobot", {**sizes, **small})
*_, last = training(make_program(job.environment.task, job.settings), job.settings, workers=0)
print(last.batch)
"""
"""1,024 pairs of 51 states: more than 100 KB, which callbacks are handed without copying."""
PATIENCE = 60.0
"""Seconds after which a thread that waits for another has waited in vain."""


@pytest.fixture(scope="module")
def program() -> Program:
    return make_program(TASK, SETTINGS)


@pytest.fixture(scope="module")
def whole(program: Program) -> list[Snapshot]:
    return list(training(program, SETTINGS, workers=1))


def assert_same(left: Any, right: Any) -> None:
    for one, other in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_same_bytes_again_with_any_number_of_workers(program: Program, whole: list[Snapshot], workers: int) -> None:
    *_, again = training(program, SETTINGS, workers=workers)
    assert_same(again.states, whole[-1].states)
    assert_same(dict(again.evaluations.metrics), dict(whole[-1].evaluations.metrics))


@pytest.mark.parametrize("slow", ["update", "explore"])
def test_the_same_bytes_whatever_takes_longer(program: Program, whole: list[Snapshot], slow: str) -> None:
    function = getattr(program, slow)

    def slower(*arguments: Any) -> Any:
        time.sleep(0.2)
        return function(*arguments)

    *_, last = training(cast(Any, program)._replace(**{slow: slower}), SETTINGS, workers=0)
    assert_same(last.states, whole[-1].states)


def test_training_resumes_to_the_same_bytes(program: Program, whole: list[Snapshot]) -> None:
    assert [snapshot.batch for snapshot in whole] == [0, 3, 6]
    *_, resumed = training(program, SETTINGS, snapshot=whole[1], workers=0)
    assert_same(resumed.states, whole[-1].states)
    assert_same(dict(resumed.evaluations.metrics), dict(whole[-1].evaluations.metrics))


def test_each_batch_is_played_by_the_policy_of_the_update_before(program: Program, whole: list[Snapshot]) -> None:
    """One thing after another, in a plain loop. After an evaluation the newest policy plays."""
    rates = {name: jnp.float32(rate) for name, rate in SETTINGS.rates.items()}
    state = jax.tree.map(lambda leaf: leaf[0], whole[0].states).agent
    acting = state
    with open_pool(TASK, max(SETTINGS.batch_size, FEWEST_SLOTS), 0) as pool:
        for batch in range(SETTINGS.batches):
            if batch % SETTINGS.evaluate_every == 0:
                acting = state
            key = jax.random.fold_in(keys_of(jnp.uint32(SETTINGS.seed)).training, batch)
            episode_key, update_key = jax.random.split(key)
            explore = functools.partial(program.explore, acting)
            episodes = collect_hosted(TASK, pool, explore, SETTINGS.batch_size, episode_key)
            acting = state
            state = program.update(state, episodes, rates, update_key).state
    assert_same(state, jax.tree.map(lambda leaf: leaf[0], whole[-1].states).agent)


def test_it_is_not_what_is_learned_without(program: Program, whole: list[Snapshot]) -> None:
    *_, plain = training(program, replace(SETTINGS, play_ahead=False), workers=0)
    weights = [jax.tree.leaves(last.states.agent.learned.actor) for last in (plain, whole[-1])]
    assert any(np.any(left != right) for left, right in zip(*weights, strict=True))


def test_episodes_are_played_while_an_update_is_made(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits for the other to have begun."""
    updating, playing = threading.Event(), threading.Event()
    batches, met = [], []

    def collect(*arguments: Any) -> Any:
        batches.append(arguments)
        if len(batches) == 2:
            playing.set()
            met.append(updating.wait(PATIENCE))
        return collect_hosted(*arguments)

    def update(*arguments: Any) -> Any:
        if not updating.is_set():
            updating.set()
            met.append(playing.wait(PATIENCE))
        return program.update(*arguments)

    monkeypatch.setattr(hosted_loop, "collect_hosted", collect)
    settings = replace(SETTINGS, batches=2, evaluate_every=2)
    assert [one.batch for one in training(program._replace(update=update), settings, workers=0)] == [0, 2]
    assert met == [True, True]


def test_a_failed_update_ends_the_run_there(program: Program) -> None:
    updates = []

    def update(*arguments: Any) -> Any:
        learned, _, metrics = program.update(*arguments)
        updates.append(learned)
        return learned, jnp.int32(1 if len(updates) == 2 else 0), metrics

    *_, last = training(program._replace(update=update), SETTINGS, workers=0)
    assert [(failure.batch, failure.cause) for failure in last.failures] == [(1, CAUSES[1])]
    assert len(updates) == 2
    assert_same(updates[0], jax.tree.map(lambda leaf: leaf[0], last.states).agent)


def test_what_fails_while_an_update_is_made_is_told(program: Program) -> None:
    calls = []

    def explore(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) > 2 * BITS:
            raise HindsightError("the joint broke")
        return program.explore(*arguments)

    snapshots = training(program._replace(explore=explore), SETTINGS, workers=0)
    next(snapshots)
    with pytest.raises(HindsightError, match="the joint broke"):
        next(snapshots)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to a core")
def test_an_update_that_asks_for_rewards_and_episodes_go_on_together_on_one_core() -> None:
    """JAX's usual callback would wait for ever there: for a thread to copy what it is given."""
    ran = subprocess.run([sys.executable, "-c", ON_ONE_CORE], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert ran.stdout.split() == ["3"], ran.stderr


def with_method(method: str) -> Settings:
    return make_settings({"method": method, "play_ahead": True, **SIZES})


@pytest.mark.parametrize("method", METHODS)
def test_methods_that_take_the_newest_policy_for_the_one_that_acted_are_refused(method: str) -> None:
    if method in ("hppo", "ppo", "hpg", "hpg+b", "policy-gradient", "dqn", "dqn+her"):
        make_program(TASK, with_method(method))
        return
    with pytest.raises(HindsightError, match=f"^{method} learns from episodes of its newest policy".replace("+", ".")):
        make_program(TASK, with_method(method))


def test_estimators_without_ratios_are_refused() -> None:
    chosen = {"method": "policy-gradient", "estimator": "gcpg", "play_ahead": True, **SIZES}
    with pytest.raises(HindsightError, match="newest policy alone"):
        make_program(TASK, make_settings(chosen))


def test_compiled_environments_are_refused() -> None:
    with pytest.raises(HindsightError, match=r"^play_ahead has simulators play .* this environment is compiled"):
        make_program(BitFlipping(BITS), SETTINGS)
