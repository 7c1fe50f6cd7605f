"""`hindsight_rl.train` beside the command line: folders, progress, callbacks, logging, trackers."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import hindsight_rl
from hindsight_rl.running.tracking import mlflow_run, newest_values, weights_and_biases
from hindsight_rl.training.state import Snapshot

pytestmark = pytest.mark.usefixtures("compiled_programs")

SMALL: dict[str, Any] = {"method": "hpg", "batch_size": 4, "batches": 6, "evaluate_every": 2, "evaluation_episodes": 8}


def train(**changes: Any) -> hindsight_rl.Result:
    return hindsight_rl.train("bit-flipping-3", **{**SMALL, "hidden_layers": (8,), "progress": False, **changes})


def test_the_folder_is_that_of_the_command_line(tmp_path: Path) -> None:
    from hindsight_rl.cli.main import main

    flags = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    main(["train", "bit-flipping-3", *flags, "--hidden-layers", "8", "--output", str(tmp_path / "cli"), "--json"])
    result = train(output=tmp_path / "python")
    names = {path.name for path in (tmp_path / "cli").iterdir()}
    assert names == {path.name for path in (tmp_path / "python").iterdir()}
    for name in ("settings.json", "evaluations.csv", "checkpoint.npz"):
        assert (tmp_path / "cli" / name).read_bytes() == (tmp_path / "python" / name).read_bytes()
    longer = train(output=tmp_path / "python", resume=True, batches=8)
    assert longer.evaluations.batches.tolist() == [*result.evaluations.batches.tolist(), 8]
    assert json.loads((tmp_path / "python" / "summary.json").read_text())["batches"] == 8


def test_a_folder_needs_an_environment_with_a_name(tmp_path: Path) -> None:
    made = hindsight_rl.make("bit-flipping-3")
    with pytest.raises(hindsight_rl.HindsightError, match="has no name by which it can be made again"):
        hindsight_rl.train(made, output=tmp_path / "run", progress=False)
    with pytest.raises(hindsight_rl.HindsightError, match="give output=FOLDER"):
        train(resume=True)
    assert not (tmp_path / "run").exists()


def test_progress_callbacks_and_log(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []
    callback = hindsight_rl.Callback(
        lambda snapshot: seen.append(snapshot.batch),
        lambda settings: seen.append((settings["environment"], settings["batches"])),
        lambda: seen.append("end"),
    )
    with caplog.at_level(logging.INFO, "hindsight_rl"):
        result = train(callbacks=[callback, lambda snapshot: snapshot.batch == 4], progress=True)
    assert seen == [("bit-flipping-3", 6), 0, 2, 4, "end"]
    assert result.evaluations.batches.tolist() == [0, 2, 4]
    assert result.policies[0].act([0, 0, 0], [1, 1, 1]) in range(3)
    returned, succeeded = result.evaluations.final_return[0], result.evaluations.final_success_rate[0]
    last = f"return {returned:.2f}, success rate {succeeded:.2f}"
    assert repr(result) == f"Result(hpg on bit-flipping-3: 1 run, 4 batches, {last})"
    captured = capfd.readouterr()
    assert "4/6 batches" in captured.err
    assert "±" not in captured.err
    assert captured.out == ""
    logged = [record.message.partition(":")[0] for record in caplog.records[1:]]
    assert logged == ["0 of 6 batches", "2 of 6 batches", "4 of 6 batches"]
    train(until_success=1.0, minutes=60)
    assert "batches" not in capfd.readouterr().err


def test_what_is_no_callback_is_refused() -> None:
    with pytest.raises(hindsight_rl.HindsightError, match="A callback is a function of a snapshot"):
        train(callbacks=["often"])


def test_public_modules_need_no_import_of_their_own() -> None:
    assert callable(hindsight_rl.estimators.weighted_per_decision)
    assert callable(hindsight_rl.exact.exact_gradient)


def test_weights_and_biases_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", exc_type=ImportError)
    monkeypatch.setenv("WANDB_SILENT", "true")
    train(callbacks=[weights_and_biases(project="test", mode="offline", dir=str(tmp_path))])
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))


def test_mlflow_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database would need more packages
    mlflow = pytest.importorskip("mlflow", exc_type=ImportError)
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    shown: list[Snapshot] = []
    train(callbacks=[mlflow_run(run_name="small"), lambda snapshot: shown.append(snapshot)], runs=2)
    (found,) = mlflow.MlflowClient().search_runs(["0"])
    assert found.data.params["method"] == "hpg"
    assert found.data.metrics == pytest.approx(newest_values(shown[-1]))
    assert "seed1/success_rate" in found.data.metrics
