"""A job's folder: what it holds, whom it refuses, and how it goes on."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from small_jobs import (
    SMALL,
    alter,
    bytes_in,
    bytes_of_run,
    claimed_by_another_process,
    small_job,
    small_settings,
    truncate,
)

from hindsight_rl.agents.options import HindsightOptions
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.options import names_of
from hindsight_rl.environments.registry import specify
from hindsight_rl.experiments import job as job_module
from hindsight_rl.experiments.definition import Job, describe_difference, load_job
from hindsight_rl.experiments.job import check_folder, load_policies, run_job
from hindsight_rl.records.checkpoints import load_checkpoint, save_checkpoint
from hindsight_rl.records.digests import content_digest
from hindsight_rl.records.evaluations import read_evaluations
from hindsight_rl.records.versions import versions
from hindsight_rl.training import memory
from hindsight_rl.training.numerics import numerics
from hindsight_rl.training.state import Snapshot, state_to_arrays

pytestmark = pytest.mark.usefixtures("compiled_programs")


@pytest.fixture(scope="module")
def finished(compiled_programs: object, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs") / "made" / "on the way"
    run_job(small_job(runs=2), folder)
    return folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copied"))


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(HindsightError) as refused:
        call()
    return str(refused.value)


def test_folder_holds_settings_versions_evaluations_and_checkpoint(finished: Path) -> None:
    assert sorted(bytes_in(finished)) == ["checkpoint.npz", "evaluations.csv", "settings.json", "versions.json"]


def test_settings_file_holds_every_setting(finished: Path) -> None:
    content = json.loads((finished / "settings.json").read_text())
    settings = small_settings(runs=2)
    assert content == {
        "format": 2,
        "environment": {"name": "bit-flipping", "options": {"bits": 4}},
        "method": {"name": "hpg", "options": {**settings.method_options, "hidden_layers": [16]}},
        "run": settings.run,
    }
    assert tuple(content["method"]["options"]) == names_of(HindsightOptions)
    assert load_job(finished) == small_job(runs=2)


def test_versions_file(finished: Path) -> None:
    content = json.loads((finished / "versions.json").read_text())
    assert content == {**versions(), **numerics()}
    assert content["jax"] == jax.__version__


def test_evaluations_file(finished: Path) -> None:
    header, *lines = (finished / "evaluations.csv").read_text().splitlines()
    assert header == "run,seed,learning_rate,batch,episodes,mean_return,success_rate,steps"
    assert len(lines) == 2 * 5
    table = read_evaluations(finished / "evaluations.csv")
    assert table.batches.tolist() == [0, 10, 20, 30, 40]
    assert table.episodes.tolist() == [8 * batch for batch in table.batches]
    assert {name: rates.tolist() for name, rates in table.rates.items()} == {
        "learning_rate": [SMALL["learning_rate"]] * 2
    }
    assert np.all(np.diff(table.metrics["steps"], axis=1) >= 10 * 8)


def test_checkpoint_holds_states_and_evaluations(finished: Path) -> None:
    arrays, metadata = load_checkpoint(finished / "checkpoint.npz")
    settings = json.loads((finished / "settings.json").read_text())
    assert metadata == {"job": settings, "settings_digest": content_digest(settings), "numerics": numerics()}
    assert {name.partition("/")[0] for name in arrays} == {"states", "evaluations"}
    table = read_evaluations(finished / "evaluations.csv")
    assert list(table.metrics) == ["mean_return", "success_rate", "steps"]
    for name, values in table.metrics.items():
        np.testing.assert_array_equal(arrays[f"evaluations/metrics/{name}"], values)


def test_snapshot_comes_back_from_the_folder(finished: Path, tmp_path: Path) -> None:
    made = run_job(small_job(runs=2), tmp_path / "again")
    job, loaded, policies = load_policies(finished)
    assert job == small_job(runs=2)
    assert loaded.batch == 40
    expected = state_to_arrays(made.states)
    assert {name: array.tobytes() for name, array in state_to_arrays(loaded.states).items()} == {
        name: array.tobytes() for name, array in expected.items()
    }
    assert len(policies) == 2


def test_same_job_leaves_the_same_bytes(finished: Path, tmp_path: Path) -> None:
    run_job(small_job(runs=2), tmp_path / "again", seconds_between_checkpoints=0.0)
    assert bytes_in(tmp_path / "again") == bytes_in(finished)


def test_reports_every_evaluation_and_saves_as_often_as_asked(tmp_path: Path) -> None:
    reported: list[int] = []
    saved: list[int] = []

    def report(snapshot: Snapshot) -> None:
        reported.append(snapshot.batch)
        path = tmp_path / "job" / "evaluations.csv"
        saved.append(int(read_evaluations(path).batches[-1]) if path.exists() else -1)

    run_job(small_job(), tmp_path / "job", report=report, seconds_between_checkpoints=0.0)
    assert reported == [0, 10, 20, 30, 40]
    assert saved == [-1, 0, 10, 20, 30]


@pytest.mark.parametrize(
    "job",
    [
        small_job(),
        small_job(method="hpg+b", runs=3, seed=5, max_active_goals=2, episodes_end="horizon", ended="carry"),
        small_job(method="dqn+her", relabelling="future", epsilon=0.5),
        Job(specify("four-rooms", slip=0.1), small_settings(hidden_layers=(4, 5))),
    ],
)
def test_json_gives_the_job_back(job: Job) -> None:
    content = json.loads(json.dumps(job.to_json()))
    assert Job.from_json(content, Path("settings.json")) == job


def without(part: str) -> dict[str, Any]:
    content = small_job().to_json()
    del content[part]
    return content


@pytest.mark.parametrize(
    "content", [[], {}, 3, None, "run", without("environment"), without("method"), without("run"), {"settings": {}}]
)
def test_other_json_is_no_job(content: Any) -> None:
    message = refusal(lambda: Job.from_json(content, Path("settings.json")))
    assert message.startswith("'settings.json' is not a settings file of this version: ")


@pytest.mark.parametrize(
    ("part", "changes", "words"),
    [
        ("run", {"warmth": 3}, "There is no setting 'warmth' of hpg. Did you mean 'batches'? Known: batch_size, "),
        ("run", {"batches": 0}, "batches must be a whole number of at least 1, not 0."),
        ("options", {"epsilon": 0.1}, "The method hpg has no option 'epsilon'; dqn, dqn+her have it."),
        ("options", {"hidden_layers": 3}, "hidden_layers must be a sequence of widths, not 3."),
        ("method", {"name": "hgp"}, "There is no method 'hgp'. Did you mean 'hpg'? Known: gcpg, "),
    ],
)
def test_settings_that_cannot_be_are_refused_with_their_file(part: str, changes: dict[str, Any], words: str) -> None:
    content = small_job().to_json()
    tables = {"run": content["run"], "options": content["method"]["options"], "method": content["method"]}
    tables[part].update(changes)
    assert refusal(lambda: Job.from_json(content, Path("settings.json"))).startswith(f"In 'settings.json': {words}")


@pytest.mark.parametrize("found", [0, 3, "2"])
def test_another_format_is_refused(found: Any) -> None:
    content = {**small_job().to_json(), "format": found}
    message = refusal(lambda: Job.from_json(content, Path("settings.json")))
    assert message == f"'settings.json' has format {found}, but this hindsight reads 1 and 2."


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"seed": 1}, "seed 0, not 1"),
        ({"runs": 3}, "runs 2, not 3"),
        ({"learning_rate": 0.02}, "learning_rate 0.01, not 0.02"),
        ({"method": "gcpg"}, "method hpg, not gcpg"),
        ({"batches": 20}, "batches 40, not 20"),
        ({"hidden_layers": (16, 16)}, "hidden_layers (16,), not (16, 16)"),
        ({"episodes_end": "horizon"}, "episodes_end goal, not horizon"),
        ({"ended": "carry"}, "ended drop, not carry"),
    ],
)
@pytest.mark.parametrize("resume", [False, True])
def test_a_different_run_is_refused(copied: Path, changes: dict[str, Any], difference: str, resume: bool) -> None:
    before = bytes_in(copied)
    job = small_job(**{"runs": 2, **changes})
    message = refusal(lambda: run_job(job, copied, resume=resume))
    assert message == f"'{copied}' already holds a different run ({difference}): choose another output folder."
    assert bytes_in(copied) == before


def test_a_different_environment_is_refused(copied: Path) -> None:
    before = bytes_in(copied)
    job = Job(specify("bit-flipping-3"), small_settings(runs=2))
    message = refusal(lambda: run_job(job, copied, resume=True))
    assert "environment bit-flipping-4, not bit-flipping-3" in message
    assert bytes_in(copied) == before


def test_the_same_run_is_refused_without_resume(copied: Path) -> None:
    before = bytes_in(copied)
    for job in (small_job(runs=2), small_job(runs=2, batches=80)):
        assert "add --resume to go on" in refusal(partial(run_job, job, copied))
    assert bytes_in(copied) == before


def test_going_on_for_longer_is_no_difference() -> None:
    assert describe_difference(small_job(batches=40), small_job(batches=80)) == ""
    assert describe_difference(small_job(batches=80), small_job(batches=40)) == "batches 80, not 40"


def test_a_checkpoint_without_settings_is_not_overwritten(copied: Path) -> None:
    (copied / "settings.json").unlink()
    before = bytes_in(copied)
    message = refusal(lambda: run_job(small_job(runs=2), copied, resume=True))
    assert "has a checkpoint.npz but no settings.json" in message
    assert bytes_in(copied) == before


def test_other_files_in_a_run_folder_stay(copied: Path) -> None:
    for name in ("notes.txt", ".notes.tmp"):
        (copied / name).write_text("mine")
    run_job(small_job(runs=2, batches=50), copied, resume=True)
    for name in ("notes.txt", ".notes.tmp"):
        assert (copied / name).read_text() == "mine"


def test_a_folder_of_somebody_else_is_refused_and_nothing_in_it_is_touched(tmp_path: Path) -> None:
    for name in ("summary.json", "versions.json", ".notes.tmp"):
        (tmp_path / name).write_text("mine")
    before = bytes_in(tmp_path)
    for call in (lambda: check_folder(small_job(), tmp_path, resume=False), lambda: run_job(small_job(), tmp_path)):
        with pytest.raises(HindsightError, match="is not empty, and what it holds is not ours"):
            call()
    assert bytes_in(tmp_path) == before


def test_resume_of_a_finished_job_changes_nothing(copied: Path) -> None:
    before = bytes_in(copied)
    reported: list[int] = []
    snapshot = run_job(small_job(runs=2), copied, resume=True, report=lambda newest: reported.append(newest.batch))
    assert snapshot.batch == 40
    assert reported == [40]
    assert bytes_in(copied) == before


def test_resume_of_an_empty_folder_starts(tmp_path: Path, finished: Path) -> None:
    run_job(small_job(runs=2), tmp_path / "new", resume=True)
    assert bytes_in(tmp_path / "new") == bytes_in(finished)


def test_resume_with_more_batches_equals_a_longer_job(copied: Path, tmp_path: Path) -> None:
    longer = small_job(runs=2, batches=90)
    run_job(longer, copied, resume=True)
    run_job(longer, tmp_path / "at once")
    assert bytes_in(copied) == bytes_in(tmp_path / "at once")


def test_a_folder_in_which_nothing_was_learned_can_be_begun_with_other_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a sentence asks for: where the memory does not suffice for a batch, lower it."""
    large, fits = small_job(batch_size=9), small_job(batches=10)
    with monkeypatch.context() as little:
        little.setattr(memory, "memory", lambda: 1000)
        assert "This needs at least" in refusal(lambda: run_job(large, tmp_path / "run"))
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["settings.json", "versions.json"]
    run_job(fits, tmp_path / "run")
    run_job(fits, tmp_path / "at once")
    assert bytes_in(tmp_path / "run") == bytes_in(tmp_path / "at once")
    (tmp_path / "run" / "checkpoint.npz").unlink()
    assert "already holds a different run" in refusal(lambda: run_job(large, tmp_path / "run"))


def test_without_its_checkpoint_a_job_starts_again(copied: Path, finished: Path) -> None:
    (copied / "checkpoint.npz").unlink()
    run_job(small_job(runs=2), copied, resume=True)
    assert bytes_in(copied) == bytes_in(finished)


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [truncate, alter, empty])
def test_a_damaged_checkpoint_is_refused(copied: Path, damage: Callable[[Path], None]) -> None:
    damage(copied / "checkpoint.npz")
    before = bytes_in(copied)
    for call in (lambda: run_job(small_job(runs=2), copied, resume=True), lambda: load_policies(copied)):
        message = refusal(call)
        assert message.startswith(f"{copied / 'checkpoint.npz'} is damaged or not a checkpoint: ")
        assert "\n" not in message
    assert bytes_in(copied) == before


def test_a_checkpoint_of_other_settings_is_refused(copied: Path, tmp_path: Path) -> None:
    run_job(small_job(runs=2, seed=9), tmp_path / "other")
    shutil.copy(tmp_path / "other" / "checkpoint.npz", copied)
    assert "belongs to other settings than" in refusal(lambda: run_job(small_job(runs=2), copied, resume=True))


def test_a_run_from_before_there_was_a_setting_goes_on(copied: Path, finished: Path) -> None:
    """An old folder does not name a setting that came later, and means what was always done."""
    arrays, metadata = load_checkpoint(copied / "checkpoint.npz")
    content = json.loads((copied / "settings.json").read_text())
    for held in (metadata["job"], content):
        assert held["method"]["options"].pop("skip_reached") is False
    metadata["settings_digest"] = content_digest(content)
    save_checkpoint(copied / "checkpoint.npz", arrays, metadata)
    (copied / "settings.json").write_text(json.dumps(content))
    run_job(small_job(runs=2), copied, resume=True)
    assert load_policies(copied)[1].batch == 40
    assert (copied / "settings.json").read_bytes() == (finished / "settings.json").read_bytes()
    assert (copied / "evaluations.csv").read_bytes() == (finished / "evaluations.csv").read_bytes()


def test_policies_need_a_checkpoint_and_settings(copied: Path, tmp_path: Path) -> None:
    (copied / "checkpoint.npz").unlink()
    assert refusal(lambda: load_policies(copied)) == f"There is no file {copied / 'checkpoint.npz'}."
    assert refusal(lambda: load_policies(tmp_path)) == f"'{tmp_path}' holds no run: it has no settings.json."


def test_a_second_writer_is_refused(copied: Path) -> None:
    before = bytes_in(copied)
    longer = small_job(runs=2, batches=50)
    with claimed_by_another_process(copied):
        assert refusal(lambda: run_job(longer, copied, resume=True)) == f"Another process is writing to '{copied}'."
        assert bytes_in(copied) == before
    assert run_job(longer, copied, resume=True).batch == 50


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    message = refusal(lambda: run_job(small_job(), tmp_path / "file"))
    assert message == f"The output folder '{tmp_path / 'file'}' cannot be used: File exists."


def test_kept_checkpoints_are_those_of_shorter_jobs(tmp_path: Path) -> None:
    run_job(small_job(), tmp_path / "kept", keep_every=20)
    assert sorted(bytes_in(tmp_path / "kept" / "checkpoints")) == ["batch-0.npz", "batch-20.npz", "batch-40.npz"]
    shorter = run_job(small_job(batches=20), tmp_path / "shorter")
    _, kept, (policy,) = load_policies(tmp_path / "kept", batch=20)
    assert int(policy.act(np.zeros(4), np.ones(4))) in range(4)
    assert bytes_of_run(kept, 0) == bytes_of_run(shorter, 0)
    message = refusal(lambda: load_policies(tmp_path / "kept", batch=30))
    assert message.endswith("has no checkpoint of batch 30; it has those of the batches 0, 20, 40.")


@pytest.mark.parametrize("keep_every", [0, -10, 15])
def test_only_evaluated_batches_can_be_kept(tmp_path: Path, keep_every: int) -> None:
    message = refusal(lambda: run_job(small_job(), tmp_path / "job", keep_every=keep_every))
    assert message == f"keep_every must be a multiple of evaluate_every (10), not {keep_every}."
    assert not (tmp_path / "job").exists()


def test_settings_that_were_edited_are_refused(tmp_path: Path) -> None:
    """More batches too: a finished run would pass for one that is not."""
    job = small_job(batches=10)
    run_job(job, tmp_path)
    path = tmp_path / "settings.json"
    before = path.read_text()
    path.write_text(before.replace('"batches": 10', '"batches": 20'))
    for call in (lambda: load_policies(tmp_path), lambda: run_job(small_job(batches=20), tmp_path, resume=True)):
        with pytest.raises(HindsightError, match=r"settings\.json' is not what was written"):
            call()
    path.write_text(before)
    run_job(small_job(batches=20), tmp_path, resume=True)
    assert load_policies(tmp_path)[1].batch == 20


def test_a_kill_between_longer_settings_and_their_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the one file before the other, nor both without any training, look like damage."""
    run_job(small_job(batches=10), tmp_path)
    longer = small_job(batches=20)

    def stop(path: Path, value: Any) -> None:
        raise KeyboardInterrupt

    for name in ("write_json", "training"):  # before and after the settings are written
        with monkeypatch.context() as patch:
            patch.setattr(job_module, name, stop if name == "write_json" else lambda *_, **__: stop(tmp_path, None))
            with pytest.raises(KeyboardInterrupt):
                run_job(longer, tmp_path, resume=True)
        assert load_policies(tmp_path)[1].batch == 10
    run_job(longer, tmp_path, resume=True)
    assert load_policies(tmp_path)[1].batch == 20
