"""A run's numbers are its seed's and its rates' alone: bit for bit, whoever runs beside it, whenever it pauses."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from small_jobs import ENVIRONMENT, SMALL, bytes_of_run, small_settings, train_to_the_end

from hindsight_rl.environments.registry import make
from hindsight_rl.training import compiled_loop
from hindsight_rl.training.loop import training
from hindsight_rl.training.program import make_program
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import Runs, Snapshot

pytestmark = pytest.mark.usefixtures("compiled_programs")

SEED = 7
RATES = {"learning_rate": 1e-2, "baseline_learning_rate": 3e-3}


def train_small(settings: Settings, runs: Runs | None = None, snapshot: Snapshot | None = None) -> Snapshot:
    return train_to_the_end(make(ENVIRONMENT), settings, runs, snapshot)


def train_step_by_step(settings: Settings, **options: Any) -> Iterator[Snapshot]:
    return training(make_program(make(ENVIRONMENT), settings), settings, **options)


@pytest.fixture(scope="module")
def alone(compiled_programs: object) -> Snapshot:
    """The run that the other jobs are compared with, with a baseline and hence all kinds of numbers."""
    return train_small(small_settings(method="hpg+b", seed=SEED, **RATES))


def test_same_seed_gives_the_same_bytes(alone: Snapshot) -> None:
    again = train_small(small_settings(method="hpg+b", seed=SEED, **RATES))
    assert bytes_of_run(again, 0) == bytes_of_run(alone, 0)


def test_bytes_hold_parameters_optimisers_and_evaluations(alone: Snapshot) -> None:
    names = bytes_of_run(alone, 0).keys()
    for part in ("agent/policy/", "agent/policy_optimiser/", "agent/baseline/", "agent/baseline_optimiser/"):
        assert any(name.startswith(part) for name in names)
    assert {"mean_return", "success_rate", "steps"} <= names


# On two cores, three runs go one by one, four go as two pairs; on one core, two are a single share.
@pytest.mark.parametrize(("count", "cores"), [(2, 2), (3, 2), (4, 2), (2, 1)])
def test_a_run_is_the_same_among_others(
    alone: Snapshot, monkeypatch: pytest.MonkeyPatch, count: int, cores: int
) -> None:
    monkeypatch.setattr("hindsight_rl.training.compiled_loop.cores", lambda: cores)
    settings = small_settings(method="hpg+b", seed=SEED - 1, runs=count, **RATES)
    assert bytes_of_run(train_small(settings), 1) == bytes_of_run(alone, 0)


@pytest.mark.parametrize("count", [3, 4])
def test_a_run_is_the_same_among_others_with_other_rates(
    alone: Snapshot, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr("hindsight_rl.training.compiled_loop.cores", lambda: 2)
    seeds = np.array([SEED, 3, SEED, SEED][:count], dtype=np.uint32)
    rates = {
        "learning_rate": np.array([1e-3, 5e-2, RATES["learning_rate"], 1e-5][:count]),
        "baseline_learning_rate": np.array([1e-3, 1e-1, RATES["baseline_learning_rate"], 1e-2][:count]),
    }
    together = train_small(small_settings(method="hpg+b", runs=count), Runs(seeds, rates))
    assert bytes_of_run(together, 2) == bytes_of_run(alone, 0)
    assert bytes_of_run(together, 0) != bytes_of_run(alone, 0)
    recorded = {name: values.tolist() for name, values in together.evaluations.rates.items()}
    assert recorded == {name: values.tolist() for name, values in rates.items()}


def test_different_seeds_differ() -> None:
    snapshot = train_small(small_settings(runs=3))
    numbers = [bytes_of_run(snapshot, run) for run in range(3)]
    for name in ("agent/policy/network/weights/0", "agent/policy/network/weights/1", "mean_return"):
        assert len({run[name] for run in numbers}) == 3, name


def test_evaluates_before_the_first_batch_and_then_every_so_many() -> None:
    settings = small_settings(runs=2)
    snapshots = list(train_step_by_step(settings))
    assert [snapshot.batch for snapshot in snapshots] == [0, 10, 20, 30, 40]
    for number, snapshot in enumerate(snapshots, 1):
        evaluations = snapshot.evaluations
        assert evaluations.batches.tolist() == list(settings.evaluation_batches)[:number]
        assert evaluations.episodes.tolist() == [settings.batch_size * batch for batch in evaluations.batches]
        assert evaluations.mean_returns.shape == evaluations.success_rates.shape == (2, number)
        assert evaluations.seeds.tolist() == [0, 1]
        assert snapshot.failures == []


def test_an_evaluation_trains_nothing() -> None:
    often, seldom = (train_small(small_settings(evaluate_every=batches)) for batches in (5, 40))
    numbers = [bytes_of_run(snapshot, 0) for snapshot in (often, seldom)]
    for name in numbers[0].keys() - often.evaluations.metrics.keys():
        assert numbers[0][name] == numbers[1][name], name
    for name in ("mean_return", "success_rate", "steps"):
        assert often.evaluations.metrics[name][0, -1] == seldom.evaluations.metrics[name][0, -1]


def test_every_batch_has_fresh_episodes() -> None:
    """With a policy that stands still, equal batches would give equal gradients, and so equal mean gradients."""
    _, *later = train_step_by_step(small_settings(learning_rate=1e-30))
    means = []
    for snapshot in later:
        adam = snapshot.states.agent.policy_optimiser
        weight_of_the_past = 1 - 0.9**snapshot.batch
        means.append(np.asarray(adam.mu.network.weights[0]) / weight_of_the_past)
    for earlier, following in itertools.pairwise(means):
        assert np.abs(earlier - following).max() > 0.1 * np.abs(earlier).max()


def ticks_and_bytes(monkeypatch: pytest.MonkeyPatch, seconds: float) -> tuple[list[int], dict[str, bytes]]:
    monkeypatch.setattr(compiled_loop, "SECONDS_BETWEEN_TICKS", seconds)
    ticks: list[int] = []
    *_, newest = train_step_by_step(small_settings(evaluate_every=20), tick=ticks.append)
    return ticks, bytes_of_run(newest, 0)


def test_pauses_for_ticks_change_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    many, one_by_one = ticks_and_bytes(monkeypatch, 0.0)
    few, in_strides = ticks_and_bytes(monkeypatch, 1e9)
    assert many == [batch for batch in range(1, SMALL["batches"]) if batch != 20]
    # Strides of 1, 2, 4, 8 and the rest; then one of 10, and the rest again.
    assert few == [1, 3, 7, 15]
    assert one_by_one == in_strides


@pytest.mark.parametrize("middle", [0, 2])
def test_going_on_from_a_snapshot_changes_no_number(alone: Snapshot, middle: int) -> None:
    settings = small_settings(method="hpg+b", seed=SEED, **RATES)
    snapshots = train_step_by_step(settings)
    stopped = [next(snapshots) for _ in range(middle + 1)][-1]
    assert stopped.batch < settings.batches
    assert bytes_of_run(train_small(settings, snapshot=stopped), 0) == bytes_of_run(alone, 0)


def test_a_finished_job_has_nothing_left_to_do(alone: Snapshot) -> None:
    settings = small_settings(method="hpg+b", seed=SEED, **RATES)
    assert list(train_step_by_step(settings, snapshot=alone)) == []
