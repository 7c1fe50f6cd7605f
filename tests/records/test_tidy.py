"""The tidy table: a row for each evaluation, exact as CSV and as Parquet."""

import csv
import io
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from small_results import CELL, example_run, metrics, refusal

from hindsight_rl.records.runs import DEFINITIVE, Cause, Cell, FinishedRun, RunKey, StudyResults
from hindsight_rl.records.tidy import columns, rows, to_csv, to_parquet
from hindsight_rl.records.tidy_files import read_tidy

NAN = float("nan")
EMPTY = np.zeros(0, np.int64)

FAILED = example_run(
    1,
    metrics=metrics(np.array([0.1, 1 / 3, NAN, NAN, NAN]), np.array([0.5, 2 / 3, NAN, NAN, NAN])),
    failure=Cause(13, 'it "diverged", quickly'),
)
RAISED = example_run(
    2,
    batches=EMPTY,
    episodes=EMPTY,
    metrics=metrics(np.zeros(0), np.zeros(0)),
    failure=Cause(-1, "ValueError: no"),
)
WITH_BASELINE = example_run(
    3,
    cell=Cell("grid:a,b.txt", 2, "hpg+b"),
    key=RunKey("search 1", (("learning_rate", 1e-5), ("baseline_learning_rate", 5e-2)), 1_000_000),
    seconds=2.0,
)
WITH_MORE = example_run(
    4,
    cell=Cell("a", 2, "ppo"),
    key=RunKey("search", (("clip", 0.1), ("learning_rate", 1e-4)), 0),
    metrics=metrics(np.ones(5), np.ones(5), **{"clipped, share": np.array([NAN, 0.1, NAN, np.inf, 1 / 3])}),
)
USUAL: tuple[str, ...] = (
    "environment",
    "batch_size",
    "method",
    "stage",
    "learning_rate",
    "baseline_learning_rate",
    "seed",
)
USUAL += ("batch", "episodes", "mean_return", "success_rate", "failure")


def study(*runs: FinishedRun) -> StudyResults:
    return StudyResults({"name": "example"}, {}, runs, {1: {}})


ALL = study(example_run(0), FAILED, RAISED, WITH_BASELINE)
MORE = study(example_run(0), FAILED, RAISED, WITH_BASELINE, WITH_MORE)


def named(results: StudyResults) -> list[dict[str, Any]]:
    return [dict(zip(columns(results), row, strict=True)) for row in rows(results)]


def test_a_row_for_each_evaluation() -> None:
    (first, *_), found = rows(study(example_run(0))), named(ALL)
    assert first == ("bit-flipping-4", 8, "hpg", DEFINITIVE, 1e-2, 0, 0, 0, 0.0, 0.0, None)
    assert len(found) == 5 + 5 + 1 + 5
    assert [row["batch"] for row in found[:5]] == [0, 10, 20, 30, 40]
    assert [row["episodes"] for row in found[:5]] == [0, 80, 160, 240, 320]


def test_a_column_for_each_choice_and_metric_that_any_run_has() -> None:
    assert columns(ALL) == USUAL
    assert columns(study(example_run(0))) == tuple(name for name in USUAL if name != "baseline_learning_rate")
    assert columns(MORE) == (*USUAL[:6], "clip", *USUAL[6:11], "clipped, share", "failure")


def test_what_a_run_does_not_have_is_missing() -> None:
    found = named(MORE)
    assert (found[0]["baseline_learning_rate"], found[0]["clip"], found[0]["clipped, share"]) == (None, None, None)
    assert tuple(found[11].values())[:8] == ("grid:a,b.txt", 2, "hpg+b", "search 1", 1e-5, 5e-2, None, 1_000_000)
    assert [row["clipped, share"] for row in found[-5:]] == [None, 0.1, None, math.inf, 1 / 3]
    assert {(row["learning_rate"], row["clip"], row["baseline_learning_rate"]) for row in found[-5:]} == {
        (1e-4, 0.1, None)
    }


def test_what_a_failed_run_lacks_is_missing() -> None:
    found = named(study(FAILED, RAISED))
    assert [row["mean_return"] for row in found] == [0.1, 1 / 3, None, None, None, None]
    assert [row["success_rate"] for row in found] == [0.5, 2 / 3, None, None, None, None]
    assert [row["failure"] for row in found] == ['it "diverged", quickly'] * 5 + ["ValueError: no"]
    assert [row["batch"] for row in found] == [0, 10, 20, 30, 40, None]


def typed(row: dict[str, str]) -> dict[str, Any]:
    """A row of the CSV file as it was before it was written."""
    kinds: dict[str, type] = dict.fromkeys(("environment", "method", "stage", "failure"), str)
    kinds |= dict.fromkeys(("batch_size", "seed", "batch", "episodes"), int)
    return {name: kinds.get(name, float)(text) if text else None for name, text in row.items()}


@pytest.mark.parametrize("results", [ALL, MORE])
def test_csv_gives_every_row_back(results: StudyResults) -> None:
    reader = csv.DictReader(io.StringIO(to_csv(results).decode()))
    assert [typed(line) for line in reader] == named(results)
    assert reader.fieldnames == list(columns(results))


def test_csv_as_text() -> None:
    lines = to_csv(study(FAILED, WITH_BASELINE)).decode().splitlines()
    assert lines[0] == (
        "environment,batch_size,method,stage,learning_rate,baseline_learning_rate,seed,"
        "batch,episodes,mean_return,success_rate,failure"
    )
    head = "bit-flipping-4,8,hpg,definitive,0.01,,1"
    cause = '"it ""diverged"", quickly"'
    assert lines[2] == f"{head},10,80,0.3333333333333333,0.6666666666666666,{cause}"
    assert lines[3] == f"{head},20,160,,,{cause}"
    assert b"\r" not in to_csv(ALL)


@pytest.mark.parametrize("results", [ALL, MORE])
def test_parquet_gives_every_row_back(results: StudyResults) -> None:
    table = polars.read_parquet(io.BytesIO(to_parquet(results)))
    assert table.columns == list(columns(results))
    assert list(table.iter_rows()) == list(rows(results))
    assert table.schema["seed"] == polars.Int64
    assert table.schema["mean_return"] == table.schema["learning_rate"] == polars.Float64


def test_a_study_without_runs_is_a_table_without_rows() -> None:
    names = [name for name in USUAL if "learning_rate" not in name]
    assert to_csv(study()).decode().splitlines() == [",".join(names)]
    table = polars.read_parquet(io.BytesIO(to_parquet(study())))
    assert (table.columns, table.height) == (names, 0)
    only_raised = polars.read_parquet(io.BytesIO(to_parquet(study(RAISED))))
    assert only_raised.drop("learning_rate").schema == table.schema
    assert only_raised["failure"].to_list() == ["ValueError: no"]


def test_extreme_numbers_come_back() -> None:
    values = np.array([1e-320, -0.0, 1.7976931348623157e308, 0.1 + 0.2, math.pi])
    run = example_run(0, metrics=metrics(values, values[::-1]))
    table = polars.read_parquet(io.BytesIO(to_parquet(study(run))))
    assert np.array(table["mean_return"]).tobytes() == values.tobytes()
    lines = csv.DictReader(io.StringIO(to_csv(study(run)).decode()))
    assert np.array([float(line["mean_return"]) for line in lines]).tobytes() == values.tobytes()


def test_parquet_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    message = refusal(lambda: to_parquet(ALL))
    assert message == "Parquet needs the package polars: pip install 'hindsight-rl[parquet]'."
    assert CELL.environment.encode() in to_csv(ALL)


def test_names_that_look_like_formulas_come_back(tmp_path: Path) -> None:
    strange = example_run(1, cell=Cell("=A1", 2, "+m"), failure=Cause(3, "-it broke"))
    (tmp_path / "table.csv").write_bytes(to_csv(StudyResults({}, {}, [strange], {})))
    assert "\n'=A1,2,'+m," in (tmp_path / "table.csv").read_text()
    (found,) = read_tidy(tmp_path / "table.csv")
    assert found.cell == strange.cell
    assert found.failure == Cause(-1, "-it broke")
