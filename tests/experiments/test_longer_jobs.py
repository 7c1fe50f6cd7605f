"""Jobs of any length: short last intervals, jobs made longer, jobs that end early."""

from pathlib import Path
from typing import Any

import pytest
from small_jobs import bytes_in, small_job

from hindsight_rl.environments.registry import specify
from hindsight_rl.experiments.configuration import complete
from hindsight_rl.experiments.definition import Job
from hindsight_rl.experiments.job import load_policies, run_job
from hindsight_rl.experiments.paper import default_values
from hindsight_rl.records.checkpoints import load_checkpoint
from hindsight_rl.running.shown import evaluation_share
from hindsight_rl.training.callbacks import for_minutes, until_success
from hindsight_rl.training.settings import make_settings

pytestmark = pytest.mark.usefixtures("compiled_programs")


def replay_job(method: str, batches: int, **options: Any) -> Job:
    """A job whose buffer has a slot for each episode of the run."""
    sizes = {"batch_size": 4, "evaluate_every": 3, "evaluation_episodes": 8, "hidden_layers": (8,)}
    settings = {"method": method, "batches": batches, "gradient_steps": 2, "minibatch_size": 8, **sizes, **options}
    return Job(specify("bit-flipping-3"), make_settings(settings))


def test_the_last_interval_may_be_short(tmp_path: Path) -> None:
    short, even = (run_job(small_job(batches=40, evaluate_every=every), tmp_path / str(every)) for every in (15, 10))
    assert short.evaluations.batches.tolist() == [0, 15, 30, 40]
    assert short.evaluations.final_return == even.evaluations.final_return
    assert short.evaluations.metrics["steps"][0, -1] == even.evaluations.metrics["steps"][0, -1]


@pytest.mark.parametrize(("method", "runs"), [("dqn", 2), ("dqn+her", 1)])
def test_a_buffer_grows_with_its_run(tmp_path: Path, method: str, runs: int) -> None:
    longer = replay_job(method, 12, runs=runs)
    run_job(replay_job(method, 6, runs=runs), tmp_path / "made longer", keep_every=3)
    for name in ("made longer", "at once"):
        run_job(longer, tmp_path / name, resume=True)
    kept = tmp_path / "made longer" / "checkpoints"
    assert load_policies(tmp_path / "made longer", batch=3)[1].batch == 3
    for file in kept.iterdir():
        file.unlink()
    kept.rmdir()
    assert bytes_in(tmp_path / "made longer") == bytes_in(tmp_path / "at once")


def test_a_buffer_that_was_not_full_yet_grows_too(tmp_path: Path) -> None:
    """The job ends early, so its buffer has empty slots when it is made longer."""
    run_job(replay_job("dqn", 9), tmp_path / "made longer", report=lambda newest: newest.batch == 3)
    for name in ("made longer", "at once"):
        run_job(replay_job("dqn", 12), tmp_path / name, resume=True)
    assert bytes_in(tmp_path / "made longer") == bytes_in(tmp_path / "at once")


def test_an_early_end_keeps_what_was_learned_and_can_be_gone_on_from(tmp_path: Path) -> None:
    ended = run_job(small_job(), tmp_path / "ended", report=lambda newest: newest.batch >= 20)
    assert ended.batch == 20
    arrays, _ = load_checkpoint(tmp_path / "ended" / "checkpoint.npz")
    assert arrays["evaluations/batches"].tolist() == [0, 10, 20]
    for name in ("ended", "at once"):
        run_job(small_job(), tmp_path / name, resume=True)
    assert bytes_in(tmp_path / "ended") == bytes_in(tmp_path / "at once")


def test_success_and_time_end_a_job(tmp_path: Path) -> None:
    snapshot = run_job(small_job(runs=2), tmp_path / "run")
    lowest = float(snapshot.evaluations.success_rates[:, -1].min())
    assert until_success(max(lowest, 0.01)).evaluated(snapshot) is (lowest > 0)
    assert until_success(min(lowest + 0.01, 1.0)).evaluated(snapshot) is (lowest == 1)
    now = [0.0]
    limit = for_minutes(2, lambda: now[0])
    assert not limit.evaluated(snapshot)
    now[0] = 120.0
    assert limit.evaluated(snapshot)


@pytest.mark.parametrize("method", ["hppo", "hpg", "dqn+her"])
@pytest.mark.parametrize(("batch_size", "batches"), [(16, None), (2, None), (16, 317)])
def test_evaluations_take_a_tenth_of_what_simulators_play(method: str, batch_size: int, batches: int | None) -> None:
    values = default_values("gym:FetchReach-v4", method, batch_size, batches)
    assert 10 * values["evaluation_episodes"] <= values["evaluate_every"] * batch_size


@pytest.mark.parametrize("batches", [20, 21, 60, 300])
@pytest.mark.parametrize(
    ("environment", "method"),
    [("gym:FetchReach-v4", "hppo"), ("fetch-push", "hppo"), ("fetch-push", "hpg"), ("ms-pacman", "dqn+her")],
)
def test_short_runs_evaluate_less(environment: str, method: str, batches: int) -> None:
    settings = complete(environment, {"method": method, "batches": batches})
    evaluated = len(settings.evaluation_batches) * settings.evaluation_episodes
    played = evaluated + batches * settings.batch_size
    assert 10 * evaluated <= played
    assert settings.evaluation_episodes >= 8
    assert f"take {evaluated / played:.0%} of all episodes" in evaluation_share(settings)


def test_the_papers_own_runs_keep_its_evaluations() -> None:
    settings = complete("fetch-push", {"method": "hpg"})
    assert (settings.batches, settings.evaluate_every, settings.evaluation_episodes) == (12500, 125, 512)
    assert "take 21% of all episodes (512 every 125 batches)" in evaluation_share(settings)


def test_the_shortest_runs_evaluate_what_says_something() -> None:
    assert complete("gym:FetchReach-v4", {"batches": 1}).evaluation_episodes == 8
