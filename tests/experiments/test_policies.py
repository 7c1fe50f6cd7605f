"""Trained policies in use: acting, loading from wherever they are, and the best beside the last."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_jobs import ENVIRONMENT, alter, bytes_in, compiled_programs, small_job, small_settings
from small_studies import small_plan

import hindsight_rl
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.described import DescribedTask, Spaces
from hindsight_rl.experiments.job import load_policies, run_job
from hindsight_rl.experiments.policies import load_known
from hindsight_rl.experiments.policy_files import Card, load_policy, save_policy
from hindsight_rl.experiments.study.policies import policy_path
from hindsight_rl.experiments.train import Result
from hindsight_rl.records.checkpoints import load_checkpoint, save_checkpoint
from hindsight_rl.records.results import RESULTS, ResultsFile
from hindsight_rl.training.state import Snapshot, state_to_arrays
from hindsight_rl.training.trained_policy import TrainedPolicy

__all__ = ["compiled_programs"]

pytestmark = pytest.mark.usefixtures("compiled_programs")

RANDOM = np.random.default_rng(0)
STATES = RANDOM.integers(0, 2, (32, 4)).astype(np.float32)
GOALS = RANDOM.integers(0, 2, (32, 4)).astype(np.float32)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(HindsightError) as caught:
        call()
    return str(caught.value)


def arrays(policy: TrainedPolicy) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in state_to_arrays(policy.model).items()}


@pytest.fixture(scope="module")
def finished(compiled_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with all their checkpoints."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    run_job(small_job(runs=2), folder, keep_every=10)
    return folder


@pytest.fixture(scope="module")
def result(finished: Path) -> Result:
    job, snapshot, policies = load_policies(finished)
    return Result(job.settings, snapshot.evaluations, policies, [], job.environment)


def test_one_observation_or_a_batch(finished: Path) -> None:
    policy = hindsight_rl.load(finished)[0]
    actions = policy.act(STATES, GOALS)
    assert actions.shape == (32,)
    assert len(set(actions.tolist())) > 1
    assert [int(policy.act(*row)) for row in zip(STATES[:5], GOALS[:5], strict=True)] == actions[:5].tolist()
    assert policy.act(STATES[:1], GOALS[:1]).shape == (1,)
    assert policy.act(STATES[0], GOALS[0]).shape == ()
    same = policy.act(STATES, GOALS[0])
    assert same.tolist() == [int(policy.act(state, GOALS[0])) for state in STATES]
    rows = jnp.asarray(policy.log_probabilities(jnp.asarray(STATES), jnp.asarray(GOALS)))
    assert actions.tolist() == jnp.argmax(rows, axis=1).tolist()
    traced = jax.jit(lambda state, goal: policy.act(state, goal))
    assert traced(STATES, GOALS[0]).tolist() == same.tolist()
    assert int(traced(STATES[0], GOALS[0])) == int(same[0])


def test_wrong_shapes_are_said(finished: Path) -> None:
    policy = hindsight_rl.load(finished)[0]
    wrong = "The policy's observations have the shape (4,), alone or in a batch, but this one has the shape (5,)."
    assert refusal(lambda: policy.act(np.zeros(5), np.zeros(4))) == wrong
    message = refusal(lambda: policy.act(STATES, GOALS[:3]))
    assert message.startswith("There are 32 observations, 3 goals and 1 times")
    assert refusal(lambda: policy.act({"a": 1}, GOALS[0])).endswith("are arrays of numbers, not dict.")


def test_checkpoints_to_choose_from(finished: Path) -> None:
    _, snapshot, last = load_policies(finished)
    assert [arrays(policy) for policy in hindsight_rl.load(finished)] == [arrays(policy) for policy in last]
    returns = snapshot.evaluations.mean_returns
    for run, (policy, card) in enumerate(load_known(finished, "best")):
        best = int(np.argmax(returns[run]))
        assert card.batch is not None
        assert card.batch == snapshot.evaluations.batches[best]
        assert card.measured["mean_return"] == returns[run, best]
        assert arrays(policy) == arrays(hindsight_rl.load(finished, card.batch)[run])
    assert arrays(hindsight_rl.load(finished, "10")[0]) != arrays(last[0])
    assert "those of the batches 0, 10, 20, 30, 40" in refusal(lambda: hindsight_rl.load(finished, 15))
    message = refusal(lambda: hindsight_rl.load(finished, "bets"))
    assert message == "checkpoint must be last, best or the number of a batch, not 'bets'."


def test_a_stopped_job_comes_to_the_same_best(finished: Path, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(snapshot: Snapshot) -> None:
        if snapshot.batch == 20:
            raise Stop

    with pytest.raises(Stop):
        run_job(small_job(runs=2), tmp_path / "run", report=stop)
    assert bytes_in(tmp_path / "run/best")
    run_job(small_job(runs=2), tmp_path / "run", resume=True)
    assert bytes_in(tmp_path / "run/best") == bytes_in(finished / "best")


def test_without_best(finished: Path, tmp_path: Path) -> None:
    run_job(small_job(batches=10), tmp_path / "last", keep_best=False)
    assert not (tmp_path / "last/best").exists()
    assert "holds no best policy of seed 0" in refusal(lambda: hindsight_rl.load(tmp_path / "last", "best"))
    copied = Path(shutil.copytree(finished, tmp_path / "copied"))
    alter(copied / "best/seed-0.npz")
    assert "is damaged" in refusal(lambda: hindsight_rl.load(copied, "best"))


def test_checkpoints_and_policies_that_changed_their_names(finished: Path, tmp_path: Path) -> None:
    """Each is whole, and matches its own digests, but is not what its name says."""
    copied = Path(shutil.copytree(finished, tmp_path / "copied"))
    shutil.copy(copied / "checkpoints/batch-10.npz", copied / "checkpoints/batch-20.npz")
    (copied / "checkpoints/batch-10.npz").rename(copied / "checkpoints/batch-x.npz")
    message = refusal(lambda: hindsight_rl.load(copied, 20))
    assert message.endswith("batch-20.npz' is not of the batch that its name says: it holds batch 10.")
    assert refusal(lambda: hindsight_rl.load(copied, 15)).endswith("it has those of the batches 0, 20, 30, 40.")
    shutil.copy(copied / "best/seed-0.npz", copied / "best/seed-1.npz")
    message = refusal(lambda: hindsight_rl.load(copied, "best"))
    assert message.endswith("seed-1.npz' holds a policy of another run (seed 0), not of seed 1 here.")


def test_a_better_policy_of_another_run_does_not_stay_the_best(finished: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(finished, tmp_path / "copied"))
    policy, card = load_policy(copied / "best/seed-1.npz")
    praised = {**card.measured, "mean_return": 1000.0}
    save_policy(copied / "best/seed-1.npz", policy, replace(card, settings=small_settings(runs=3), measured=praised))
    assert "of another run" in refusal(lambda: hindsight_rl.load(copied, "best"))
    run_job(small_job(runs=2, batches=50), copied, resume=True)
    assert load_known(copied, "best")[1].card.measured["mean_return"] < 1000


@pytest.mark.parametrize("environment", [3, "four-rooms", {"name": "four-rooms"}, {"name": "x", "options": [1]}])
def test_a_policy_file_that_names_no_environment(finished: Path, tmp_path: Path, environment: object) -> None:
    arrays, metadata = load_checkpoint(finished / "best/seed-0.npz")
    metadata["policy"]["environment"] = environment
    save_checkpoint(tmp_path / "policy.npz", arrays, metadata)
    assert "is not a policy file of this version: " in refusal(lambda: load_policy(tmp_path / "policy.npz"))


def test_saved_results_come_back(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "saved")
    for source in (tmp_path / "saved", str(tmp_path / "saved")):
        loaded = hindsight_rl.load(source)
        assert [arrays(policy) for policy in loaded] == [arrays(policy) for policy in result.policies]
    known = load_known(tmp_path / "saved/policies/seed-1.npz")[0]
    assert known.card.specification.id == ENVIRONMENT
    assert (known.card.seed, known.card.batch, known.card.settings) == (1, 40, result.settings)
    assert refusal(lambda: result.save(tmp_path / "saved")).endswith("already holds a result: choose another folder.")


def test_a_file_of_a_checkpoint_loads(finished: Path) -> None:
    loaded = hindsight_rl.load(finished / "checkpoints/batch-20.npz")
    assert [arrays(each) for each in loaded] == [arrays(each) for each in hindsight_rl.load(finished, 20)]


def test_policies_of_a_study_load(finished: Path, tmp_path: Path) -> None:
    plan = small_plan()
    _, snapshot, policies = load_policies(finished)
    with ResultsFile.open(tmp_path / RESULTS, create=True) as file:
        file.write_plans({plan.cell: plan.to_json()})
    path = policy_path(tmp_path, plan.cell)
    path.parent.mkdir()
    state = jax.tree.map(lambda leaf: leaf[1:], snapshot.states)
    metadata: dict[str, Any] = {"key": ["definitive", [["learning_rate", 0.01]], 7], "average_performance": 1.0}
    save_checkpoint(path, state_to_arrays(state), metadata)
    for source in (path, tmp_path):
        ((policy, card),) = load_known(source)
        assert arrays(policy) == arrays(policies[1])
        assert card.seed == 7
    (tmp_path / RESULTS).unlink()
    assert refusal(lambda: hindsight_rl.load(path)).endswith("is missing.")


def test_policies_load_without_their_environment(tmp_path: Path) -> None:
    spaces = Spaces((3,), "float32", (2,), 2, True, ((-1.0, float("-inf")), (1.0, float("inf"))), 11)
    settings = small_settings()
    agent = settings.row.make(DescribedTask(spaces), settings.options)
    policy = TrainedPolicy(agent.policy(agent.init(jax.random.key(0))), spaces)
    save_policy(tmp_path / "policy.npz", policy, Card(settings, {"name": "gym", "options": {"id": "Not-There"}}, 0))
    loaded, card = load_policy(tmp_path / "policy.npz")
    assert loaded.spaces == spaces
    assert arrays(loaded) == arrays(policy)
    np.testing.assert_array_equal(loaded.act(np.ones(3), np.ones(2)), policy.act(np.ones(3), np.ones(2)))
    assert card.specification.id == "gym:Not-There"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere", "There is no file"),
        ("zoo:four-roms", "There is no policy 'four-roms' in the zoo. Did you mean 'four-rooms'?"),
        ("policy.onnx", "is for onnxruntime to read; load the policy.npz beside it."),
    ],
)
def test_what_holds_no_policy_is_said(name: str, sentence: str) -> None:
    assert sentence in refusal(lambda: hindsight_rl.load(name))


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "other.npz", {"a": np.zeros(3)}, {})
    assert refusal(lambda: hindsight_rl.load(tmp_path / "other.npz")).endswith("holds no policy.")
    assert "holds no policies" in refusal(lambda: hindsight_rl.load(tmp_path))
