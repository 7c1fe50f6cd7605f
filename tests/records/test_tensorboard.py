"""TensorBoard event files: read record by record, as TensorBoard does."""

import sys
import time
from pathlib import Path

import pytest
from small_results import events_in, refusal, scalars_in

from hindsight_rl.records.tensorboard import EventFiles


def purged_from(folder: Path) -> list[int]:
    """The steps from which on a file takes the place of earlier ones."""
    return [
        event.step
        for path in folder.iterdir()
        for event in events_in(path)
        if event.HasField("session_log") and event.session_log.status == event.session_log.START
    ]


def test_values_can_be_read_back(tmp_path: Path) -> None:
    with EventFiles(tmp_path / "events") as events:
        for batch in (0, 10, 20):
            events.write("one/run", batch, {"return": batch / 4, "success rate": 0.5})
        events.write("two", 0, {"return": -1.0})
        events.close("one/run")
        events.close("never begun")
    assert scalars_in(tmp_path / "events" / "one" / "run") == [
        (0, "return", 0.0),
        (0, "success_rate", 0.5),
        (10, "return", 2.5),
        (10, "success_rate", 0.5),
        (20, "return", 5.0),
        (20, "success_rate", 0.5),
    ]
    assert scalars_in(tmp_path / "events" / "two") == [(0, "return", -1.0)]


def test_any_metric_is_written_where_it_is_finite(tmp_path: Path) -> None:
    with EventFiles(tmp_path) as events:
        events.write("run", 0, {"mean_return": 1.0, "entropy": float("nan"), "kl": float("inf")})
        events.write("run", 10, {"mean_return": float("nan"), "entropy": 0.5, "kl": float("-inf")})
    assert scalars_in(tmp_path / "run") == [(0, "mean_return", 1.0), (10, "entropy", 0.5)]


def test_what_is_written_can_be_watched_before_the_end(tmp_path: Path) -> None:
    expected = [(0, "return", 1.0), (10, "return", 2.0)]
    with EventFiles(tmp_path) as events:
        for batch, _, value in expected:
            events.write("run", batch, {"return": value})
        for _ in range(1000):
            if scalars_in(tmp_path / "run") == expected:
                break
            time.sleep(0.02)
        assert scalars_in(tmp_path / "run") == expected


def test_a_second_start_replaces_what_lies_behind_its_first_batch(tmp_path: Path) -> None:
    with EventFiles(tmp_path) as events:
        events.write("run", 0, {"return": 1.0})
        events.write("run", 10, {"return": 2.0})
    with EventFiles(tmp_path) as events:
        events.write("run", 10, {"return": 3.0})
    assert scalars_in(tmp_path / "run") == [(0, "return", 1.0), (10, "return", 2.0), (10, "return", 3.0)]
    assert sorted(purged_from(tmp_path / "run")) == [0, 10]


def test_nothing_is_made_before_something_is_written(tmp_path: Path) -> None:
    with EventFiles(tmp_path / "events"):
        pass
    assert not (tmp_path / "events").exists()


def test_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    message = refusal(lambda: EventFiles(tmp_path))
    assert message == "TensorBoard files need the package tensorboardX: pip install 'hindsight-rl[tensorboard]'."
