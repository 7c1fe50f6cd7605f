"""The hosted path plays what the compiled one does, whatever the number of workers and their mishaps."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from reference.hosted_bits import hosted_bits
from reference.linear_policy import linear_policy

from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.hosted import check_workers
from hindsight_rl.rollout import hosted
from hindsight_rl.rollout import workers as pool_module
from hindsight_rl.rollout.compiled import collect, play
from hindsight_rl.rollout.hosted import (
    collect_hosted,
    layout_of,
    open_pool,
    play_hosted,
)
from hindsight_rl.rollout.processes import ProcessWorker
from hindsight_rl.rollout.workers import WorkerPool

BITS = 4
KEY = jax.random.key(5)
POLICY = linear_policy(BitFlipping(BITS), seed=5)
"""Reaches some goals sooner, some later and some not at all."""


def hosted_episodes(workers: int, **trouble: str) -> tuple[Episodes, list[str]]:
    notices: list[str] = []
    environment = hosted_bits(BITS, **trouble)
    with WorkerPool(environment.source(), layout_of(environment), 6, workers, notices.append, 5.0) as pool:
        return collect_hosted(environment, pool, jax.jit(POLICY.explore), 6, KEY), notices


def compiled_episodes() -> Episodes:
    return jax.jit(lambda key: collect(BitFlipping(BITS), POLICY.explore, 6, key))(KEY)


def assert_same(ours: Episodes, theirs: Episodes) -> None:
    taken = np.asarray(theirs.taken)
    np.testing.assert_array_equal(ours.lengths, theirs.lengths)
    np.testing.assert_array_equal(ours.pursued_goals, theirs.pursued_goals)
    np.testing.assert_array_equal(np.asarray(ours.actions)[taken], np.asarray(theirs.actions)[taken])
    for name in ("observations", "achieved_goals"):
        mine, other = np.asarray(getattr(ours, name)), np.asarray(getattr(theirs, name))
        np.testing.assert_array_equal(mine[:, 0], other[:, 0])
        np.testing.assert_array_equal(mine[:, 1:][taken], other[:, 1:][taken])
    mine, other = np.asarray(ours.log_probabilities)[taken], np.asarray(theirs.log_probabilities)[taken]
    np.testing.assert_allclose(mine, other, rtol=1e-5)


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_same_episodes_as_compiled_whatever_the_number_of_workers(workers: int) -> None:
    ours, notices = hosted_episodes(workers)
    assert_same(ours, compiled_episodes())
    assert not notices


def test_a_batch_of_more_episodes_than_there_is_room_for_simulators_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool_module, "MOST_SIMULATORS", 2)
    ours, _ = hosted_episodes(1)
    assert_same(ours, compiled_episodes())
    environment = hosted_bits(BITS)
    with WorkerPool(environment.source(), layout_of(environment), 6, 0) as pool:
        assert pool.places == 2
        collect_hosted(environment, pool, jax.jit(POLICY.explore), 6, KEY)
        played = play_hosted(environment, pool, jax.jit(POLICY.exploit), 20, KEY)
        assert sorted(pool._own) == [0, 1]
    theirs = jax.jit(lambda: play(BitFlipping(BITS), POLICY.exploit, 20, KEY))()
    np.testing.assert_array_equal(played.returns, theirs.returns)


def test_more_workers_than_there_is_memory_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted, "memory", lambda: 100_000_000)
    with pytest.raises(HindsightError, match="4 workers need more memory than there is"):
        open_pool(hosted_bits(BITS), 4, 1000)


def test_nothing_but_the_horizon_ends_an_episode_if_asked_for() -> None:
    environment = hosted_bits(BITS)
    with open_pool(environment, 6, 0) as pool:
        ours = collect_hosted(environment, pool, jax.jit(POLICY.explore), 6, KEY, "horizon")
    theirs = jax.jit(lambda key: collect(BitFlipping(BITS), POLICY.explore, 6, key, "horizon"))(KEY)
    assert_same(ours, theirs)
    assert np.all(np.asarray(ours.lengths) == BITS)
    assert np.any(np.asarray(compiled_episodes().lengths) < BITS)


def test_same_greedy_returns_as_compiled() -> None:
    environment = hosted_bits(BITS)
    with open_pool(environment, 3, 0) as pool:
        ours = play_hosted(environment, pool, jax.jit(POLICY.exploit), 20, KEY)
    theirs = jax.jit(lambda: play(BitFlipping(BITS), POLICY.exploit, 20, KEY))()
    np.testing.assert_array_equal(ours.returns, theirs.returns)
    np.testing.assert_array_equal(ours.successes, theirs.successes)


@pytest.mark.parametrize(("trouble", "said"), [("die", "died (exit code 7)"), ("hang", "did not answer for 5 seconds")])
def test_a_lost_worker_is_named_and_replaced_and_its_episodes_are_the_same(
    tmp_path: Path, trouble: str, said: str
) -> None:
    mark = tmp_path / "crash"
    mark.touch()
    ours, notices = hosted_episodes(2, crash_file=str(mark), trouble=trouble)
    assert not mark.exists()
    assert_same(ours, compiled_episodes())
    assert len(notices) == 1
    assert said in notices[0]


def first_process(pool: WorkerPool) -> Any:
    worker = pool._workers[0]
    assert isinstance(worker, ProcessWorker)
    return worker.process


@pytest.mark.parametrize("lost", ["before it is asked", "between its answers", "never"])
def test_two_teams_are_played_in_turn_and_both_survive_a_lost_worker(lost: str) -> None:
    """One team waits for its next action while the worker is lost over the other's: both are played again."""
    environment = hosted_bits(BITS)
    teams = {0: np.array([0, 1]), 1: np.array([2, 3])}
    seeds = np.arange(8, dtype=np.uint64).reshape(4, 2)

    def shown(workers: int, lost: str) -> np.ndarray:
        with WorkerPool(environment.source(), layout_of(environment), 4, workers) as pool:
            pool.begin(range(4), seeds)
            if lost == "before it is asked":
                first_process(pool).kill()
            pool.ask(teams[0], np.array([0, 1]))
            pool.ask(teams[1], np.array([2, 3]))
            assert pool.answered(teams) == 0
            if lost == "between its answers":
                first_process(pool).kill()
                first_process(pool).join()
            pool.ask(teams[0], np.array([1, 2]))
            assert pool.answered({1: teams[1]}) == 1
            assert pool.answered({0: teams[0]}) == 0
            return pool.slots.observations.copy()

    np.testing.assert_array_equal(shown(1, lost), shown(0, "never"))
    assert len(np.unique(shown(0, "never"), axis=0)) > 1


@pytest.mark.parametrize("workers", [0, 2])
def test_an_environment_that_raises_is_one_sentence(tmp_path: Path, workers: int) -> None:
    mark = tmp_path / "crash"
    mark.touch()
    with pytest.raises(HindsightError, match="raised RuntimeError: the joint broke"):
        hosted_episodes(workers, crash_file=str(mark), trouble="raise")


PARENT = """
import sys, time
import numpy as np
from reference.hosted_bits import hosted_bits
from hindsight_rl.rollout.hosted import open_pool
if __name__ == "__main__":
    pool = open_pool(hosted_bits(3), 2, 2)
    pool.begin([0, 1], np.zeros((2, 2), np.uint64))
    print(*[worker.process.pid for worker in pool._workers], flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_no_orphans(tmp_path: Path, how: signal.Signals) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    tests = Path(__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), *sys.path])}
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        children = [int(word) for word in parent.stdout.readline().split()]
        assert len(children) == 2
        os.kill(children[0], signal.SIGSTOP)  # as deaf as one whose simulator hangs
        parent.send_signal(how)
        parent.wait(timeout=30)
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.1)


def test_a_script_that_trains_where_it_is_imported_gets_a_sentence(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT.replace('if __name__ == "__main__":', "if True:"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 1
    assert "HindsightError: A worker process cannot start" in done.stderr.splitlines()[-1]
    assert "below `if __name__ == '__main__':`" in done.stderr


def test_the_number_of_workers_is_one_for_each_core_unless_told_otherwise() -> None:
    environment = hosted_bits(3)
    for count, started in [(None, os.cpu_count()), (3, 3)]:
        check_workers([BitFlipping(3), environment], count)
        with open_pool(environment, 5, count) as pool:
            assert len(pool._workers) == started
    with pytest.raises(HindsightError, match="at least 1, not 0"):
        check_workers([environment], 0)
    with pytest.raises(HindsightError, match="this one is compiled and needs none"):
        check_workers([BitFlipping(3)], 1)
    check_workers([BitFlipping(3)], None)
