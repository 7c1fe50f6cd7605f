"""The tidy table: a row for each evaluation, exact as CSV and as Parquet."""

import csv
import io
import math
import sys
from collections.abc import Sequence

import numpy as np
import polars
import pytest
from small_results import CELL, example_run, refusal

from hindsight_rl.records.runs import DEFINITIVE, Cause, Cell, FinishedRun, RunKey, StudyResults
from hindsight_rl.records.tidy import Row, rows, to_csv, to_parquet

NAN = float("nan")
EMPTY = np.zeros(0, np.int64)

FAILED = example_run(
    1,
    mean_returns=np.array([0.1, 1 / 3, NAN, NAN, NAN]),
    success_rates=np.array([0.5, 2 / 3, NAN, NAN, NAN]),
    failure=Cause(13, 'it "diverged", quickly'),
)
RAISED = example_run(
    2,
    batches=EMPTY,
    episodes=EMPTY,
    mean_returns=np.zeros(0),
    success_rates=np.zeros(0),
    failure=Cause(-1, "ValueError: no"),
)
WITH_BASELINE = example_run(
    3, cell=Cell("grid:a,b.txt", 2, "hpg+b"), key=RunKey("search 1", 1e-5, 5e-2, 1_000_000), seconds=2.0
)


def study(*runs: FinishedRun) -> StudyResults:
    return StudyResults({"name": "example"}, {}, runs, {1: {}})


ALL = study(example_run(0), FAILED, RAISED, WITH_BASELINE)


def test_a_row_for_each_evaluation() -> None:
    (first, *_), found = rows(study(example_run(0))), list(rows(ALL))
    assert first == Row("bit-flipping-4", 8, "hpg", DEFINITIVE, 1e-2, None, 0, 0, 0, 0.0, 0.0, None)
    assert len(found) == 5 + 5 + 1 + 5
    assert [row.batch for row in found[:5]] == [0, 10, 20, 30, 40]
    assert [row.episodes for row in found[:5]] == [0, 80, 160, 240, 320]


def test_a_method_without_a_baseline_has_no_baseline_rate() -> None:
    found = list(rows(ALL))
    assert found[0].baseline_learning_rate is None
    assert found[-1][:7] == ("grid:a,b.txt", 2, "hpg+b", "search 1", 1e-5, 5e-2, 1_000_000)


def test_what_a_failed_run_lacks_is_missing() -> None:
    found = list(rows(study(FAILED, RAISED)))
    assert [row.mean_return for row in found] == [0.1, 1 / 3, None, None, None, None]
    assert [row.success_rate for row in found] == [0.5, 2 / 3, None, None, None, None]
    assert [row.failure for row in found] == ['it "diverged", quickly'] * 5 + ["ValueError: no"]
    assert [row.batch for row in found] == [0, 10, 20, 30, 40, None]


def typed(row: Sequence[str]) -> Row:
    """A row of the CSV file as it was before it was written."""
    kinds = (str, int, str, str, float, float, int, int, int, float, float, str)
    return Row(*(kind(text) if text else None for kind, text in zip(kinds, row, strict=True)))  # type: ignore[arg-type]


def test_csv_gives_every_row_back() -> None:
    header, *lines = csv.reader(io.StringIO(to_csv(ALL).decode()))
    assert header == list(Row._fields)
    assert [typed(line) for line in lines] == list(rows(ALL))


def test_csv_as_text() -> None:
    lines = to_csv(study(FAILED)).decode().splitlines()
    assert lines[0] == (
        "environment,batch_size,method,stage,learning_rate,baseline_learning_rate,seed,"
        "batch,episodes,mean_return,success_rate,failure"
    )
    head = "bit-flipping-4,8,hpg,definitive,0.01,,1"
    cause = '"it ""diverged"", quickly"'
    assert lines[2] == f"{head},10,80,0.3333333333333333,0.6666666666666666,{cause}"
    assert lines[3] == f"{head},20,160,,,{cause}"
    assert b"\r" not in to_csv(ALL)


def test_parquet_gives_every_row_back() -> None:
    table = polars.read_parquet(io.BytesIO(to_parquet(ALL)))
    assert table.columns == list(Row._fields)
    assert [Row(*row) for row in table.iter_rows()] == list(rows(ALL))
    assert table.schema["seed"] == polars.Int64
    assert table.schema["mean_return"] == polars.Float64


def test_a_study_without_runs_is_a_table_without_rows() -> None:
    assert to_csv(study()).decode().splitlines() == [",".join(Row._fields)]
    table = polars.read_parquet(io.BytesIO(to_parquet(study())))
    assert (table.columns, table.height) == (list(Row._fields), 0)
    only_raised = polars.read_parquet(io.BytesIO(to_parquet(study(RAISED))))
    assert only_raised.schema == table.schema
    assert only_raised["failure"].to_list() == ["ValueError: no"]


def test_extreme_numbers_come_back() -> None:
    values = np.array([1e-320, -0.0, 1.7976931348623157e308, 0.1 + 0.2, math.pi])
    run = example_run(0, mean_returns=values, success_rates=values[::-1])
    table = polars.read_parquet(io.BytesIO(to_parquet(study(run))))
    assert np.array(table["mean_return"]).tobytes() == values.tobytes()
    found = [float(line.split(",")[9]) for line in to_csv(study(run)).decode().splitlines()[1:]]
    assert np.array(found).tobytes() == values.tobytes()


def test_parquet_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    message = refusal(lambda: to_parquet(ALL))
    assert message == "Parquet needs the package polars: pip install 'hindsight-rl[parquet]'."
    assert CELL.environment.encode() in to_csv(ALL)
