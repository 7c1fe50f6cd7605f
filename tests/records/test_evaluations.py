"""The table of evaluations comes back exactly, and damage to it is named."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_results import metrics

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.checkpoints import load_checkpoint
from hindsight_rl.records.evaluations import Evaluations, read_evaluations, summary

NAN, INFINITY = float("nan"), float("inf")
NAMES = st.sampled_from(["clip", "entropy", "policy loss", "kl/mean", "größe", "x"])
HEADER = "run,seed,learning_rate,baseline_learning_rate,batch,episodes,mean_return,success_rate"


def two_runs() -> Evaluations:
    """Two runs, the second of which failed after its second evaluation."""
    return Evaluations(
        seeds=np.array([5, 6]),
        rates={"learning_rate": np.array([0.1, 1e-5]), "baseline_learning_rate": np.array([0.2, 0.3])},
        batches=np.array([0, 10, 20]),
        episodes=np.array([0, 160, 320]),
        metrics=metrics(np.array([[1.0, 2.0, 6.0], [1.5, 2.5, NAN]]), np.array([[0.1, 0.2, 0.6], [0.15, 0.25, NAN]])),
    )


def with_more() -> Evaluations:
    """The same with two metrics of the agent's own and one more rate; the second run goes on counting."""
    table = two_runs()
    more = {
        "clipped share": np.array([[NAN, 0.25, NAN], [NAN, NAN, NAN]]),
        "steps": np.array([[0, 1.5, 3], [0, 1e300, INFINITY]]),
    }
    return replace(table, rates={**table.rates, "clip": np.array([0.1, 0.3])}, metrics={**more, **table.metrics})


def assert_same(left: Evaluations, right: Evaluations) -> None:
    expected, found = right.to_arrays(), left.to_arrays()
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@st.composite
def any_evaluations(draw: st.DrawFn) -> Evaluations:
    runs, evaluations = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    number = st.floats(allow_nan=False, allow_infinity=False)
    batches = sorted(draw(st.sets(st.integers(0, 10**6), min_size=evaluations, max_size=evaluations)))
    mean_returns, success_rates = np.array(
        draw(st.lists(number, min_size=2 * runs * evaluations, max_size=2 * runs * evaluations))
    ).reshape(2, runs, evaluations)
    for run in range(runs):
        survived = draw(st.integers(0, evaluations))
        mean_returns[run, survived:] = NAN
        success_rates[run, survived:] = NAN
    anything = st.lists(number | st.just(NAN), min_size=runs, max_size=runs)
    names = draw(st.lists(NAMES, unique=True))
    split = draw(st.integers(0, len(names)))
    others = {name: np.array([draw(anything) for _ in range(evaluations)]).T for name in names[split:]}
    return Evaluations(
        seeds=np.array(draw(st.lists(st.integers(0, 2**32 - 1), min_size=runs, max_size=runs)), dtype=np.int64),
        rates={name: np.array(draw(anything)) for name in names[:split]},
        batches=np.array(batches),
        episodes=np.array(batches) * 16,
        metrics=metrics(mean_returns, success_rates) | others,
    )


@given(any_evaluations())
@settings(deadline=None)
def test_round_trip_is_exact(evaluations: Evaluations) -> None:
    assert_same(Evaluations.from_csv(evaluations.to_csv()), evaluations)
    assert_same(Evaluations.from_arrays(evaluations.to_arrays()), evaluations)


def test_table_as_text() -> None:
    assert two_runs().to_csv() == (
        f"{HEADER}\n"
        "0,5,0.1,0.2,0,0,1.0,0.1\n"
        "0,5,0.1,0.2,10,160,2.0,0.2\n"
        "0,5,0.1,0.2,20,320,6.0,0.6\n"
        "1,6,1e-05,0.3,0,0,1.5,0.15\n"
        "1,6,1e-05,0.3,10,160,2.5,0.25\n"
    )


def test_other_rates_and_metrics_are_further_columns() -> None:
    assert with_more().to_csv() == (
        "run,seed,learning_rate,baseline_learning_rate,clip,batch,episodes,"
        "mean_return,success_rate,clipped share,steps\n"
        "0,5,0.1,0.2,0.1,0,0,1.0,0.1,,0.0\n"
        "0,5,0.1,0.2,0.1,10,160,2.0,0.2,0.25,1.5\n"
        "0,5,0.1,0.2,0.1,20,320,6.0,0.6,,3.0\n"
        "1,6,1e-05,0.3,0.3,0,0,1.5,0.15,,0.0\n"
        "1,6,1e-05,0.3,0.3,10,160,2.5,0.25,,1e+300\n"
        "1,6,1e-05,0.3,0.3,20,320,,,,inf\n"
    )
    assert_same(Evaluations.from_csv(with_more().to_csv()), with_more())


@pytest.mark.parametrize("name", ["hpg+b", "dqn+her"])
def test_tables_and_checkpoints_written_before_load(name: str) -> None:
    folder = Path(__file__).parent.parent / "golden" / "format1" / f"run-{name}"
    table = read_evaluations(folder / "evaluations.csv")
    assert list(table.rates) == ["learning_rate", "baseline_learning_rate"]
    assert table.to_csv() == (folder / "evaluations.csv").read_text()
    arrays, _ = load_checkpoint(folder / "checkpoint.npz")
    prefix = "evaluations/"
    older = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    assert {"mean_returns", "baseline_learning_rates"} <= older.keys()
    kept = Evaluations.from_arrays(older)
    assert list(kept.metrics) == ["mean_return", "success_rate"]
    assert kept.to_csv() == table.to_csv()


def test_a_table_whose_every_run_failed_still_says_so() -> None:
    failed = np.full((2, 3), NAN)
    failed[:, 0] = 1.0
    evaluations = replace(two_runs(), metrics=metrics(failed, failed))
    again = Evaluations.from_csv(evaluations.to_csv())
    assert_same(again, evaluations)
    assert np.isnan(again.average_performance).all()


def test_single_precision_is_written_exactly() -> None:
    third = np.full((2, 3), 1 / 3, dtype=np.float32)
    again = Evaluations.from_csv(replace(two_runs(), metrics=metrics(third, third)).to_csv())
    np.testing.assert_array_equal(again.mean_returns, third.astype(np.float64))


def test_order_of_rows_and_windows_line_ends_do_not_matter() -> None:
    header, *rows = two_runs().to_csv().splitlines()
    text = "\r\n".join([header, *reversed(rows)]) + "\r\n"
    assert_same(Evaluations.from_csv(text), two_runs())


def test_properties() -> None:
    evaluations = two_runs()
    np.testing.assert_array_equal(evaluations.average_performance, [3.0, NAN])
    np.testing.assert_array_equal(evaluations.final_return, [6.0, NAN])
    np.testing.assert_array_equal(evaluations.final_success_rate, [0.6, NAN])


def test_read_from_file(tmp_path: Path) -> None:
    path = tmp_path / "evaluations.csv"
    path.write_text(two_runs().to_csv())
    assert_same(read_evaluations(path), two_runs())
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(HindsightError, match=r"evaluations\.csv is damaged: it is not text\."):
        read_evaluations(path)
    path.write_text("something else\n")
    with pytest.raises(HindsightError, match=r"evaluations\.csv is damaged: its first line"):
        read_evaluations(path)
    path.unlink()
    with pytest.raises(HindsightError, match=r"There is no file .*evaluations\.csv"):
        read_evaluations(path)


@pytest.mark.parametrize("table", [two_runs(), with_more()])
def test_every_truncation_within_a_row_is_caught(table: Evaluations) -> None:
    text = table.to_csv()
    for length in range(len(text)):
        if text[:length].endswith("\n") and length > text.index("\n") + 1:
            continue  # A table with whole rows missing at the end is that of runs that failed.
        with pytest.raises(HindsightError, match="is damaged"):
            Evaluations.from_csv(text[:length])


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("0,5,0.1,0.2,10,160,2.0,0.2\n", "", "run 0 lacks an evaluation"),
        ("0,5,0.1,0.2,10,160,2.0,0.2\n", "0,5,0.1,0.2,10,160,2.0\n", "line 3 has 7 cells rather than 8"),
        ("160,2.0,", "160,two,", "line 3 has 'two' for mean_return"),
        ("160,2.0,", "160,nan,", "line 3 has 'nan' for mean_return"),
        ("160,2.0,", "160,,", "must be NaN in the same places"),
        ("0,5,0.1,0.2,0", "0,5.5,0.1,0.2,0", "line 2 has '5.5' for seed"),
        ("0,5,0.1,0.2,0", f"0,{2**63},0.1,0.2,0", f"line 2 has '{2**63}' for seed"),
        ("0,5,0.1,0.2,0", "0,4,0.1,0.2,0", "the rows of run 0 disagree on seed"),
        ("0,5,0.1,0.2,10,160", "0,5,0.1,0.2,10,161", "the rows of batch 10 disagree on episodes"),
        ("0,5,0.1,0.2,10,160", "0,5,0.1,0.2,0,0", "run 0 has two rows for batch 0"),
        ("\n1,6", "\n2,6", "its runs are 0, 2 rather than 0 to 1"),
        (",batch,", ",", "its first line is not run,seed,rates,batch,episodes,mean_return,success_rate,other metrics"),
        (",episodes,", ",", "its first line is not"),
        ("run,seed", "seed,run", "its first line is not"),
        ("mean_return,success_rate", "success_rate,mean_return", "its first line is not"),
        (",baseline_learning_rate", ",learning_rate", "its first line is not"),
        ("success_rate\n", "success_rate,\n", "line 2 has 8 cells rather than 9"),
    ],
)
def test_damaged_tables(old: str, new: str, sentence: str) -> None:
    text = two_runs().to_csv()
    assert old in text
    with pytest.raises(HindsightError, match=f"^table is damaged: .*{sentence}"):
        Evaluations.from_csv(text.replace(old, new), source="table")


def test_table_without_rows() -> None:
    with pytest.raises(HindsightError, match="it has no rows"):
        Evaluations.from_csv(HEADER + "\n")


@pytest.mark.parametrize(
    "change",
    [
        {"rates": {"learning_rate": np.zeros(3)}},
        {"episodes": np.zeros(2)},
        {"metrics": metrics(np.zeros((3, 2)), two_runs().success_rates)},
        {"metrics": metrics(two_runs().mean_returns, np.zeros((2, 3)))},
        {"metrics": {**two_runs().metrics, "entropy": np.zeros(2)}},
        {"metrics": {"mean_return": np.zeros((2, 3))}},
        {"batches": np.array([0, 20, 10])},
        {"batches": np.zeros(0)},
        {"metrics": metrics(np.array([[NAN, 1, 1], [1, 1, 1]]), np.array([[NAN, 1, 1], [1, 1, 1]]))},
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(HindsightError):
        replace(two_runs(), **change)


@pytest.mark.parametrize("name", ["", "batch", "seed", "failure", "a,b", 'a"b', "a\nb", " a", "learning_rate"])
def test_names_that_would_spoil_the_table_are_refused(name: str) -> None:
    table = two_runs()
    with pytest.raises(HindsightError, match="cannot name"):
        replace(table, metrics={**table.metrics, name: np.zeros((2, 3))})


def test_summary_is_over_finite_runs_with_ddof_zero() -> None:
    assert summary(np.array([1.0, NAN, 3.0])) == {"mean": 2.0, "std": 1.0}
    assert summary(np.array([4.0])) == {"mean": 4.0, "std": 0.0}
    assert summary(np.array([NAN, np.inf])) == {"mean": None, "std": None}
    assert summary(np.zeros(0)) == {"mean": None, "std": None}


def test_a_metric_whose_name_looks_like_a_formula() -> None:
    values = np.ones((1, 2))
    metrics = {"mean_return": values, "success_rate": values, "=1+1": values}
    table = Evaluations(np.arange(1), {"-rate": np.ones(1)}, np.arange(2), np.arange(2), metrics)
    assert table.to_csv().splitlines()[0] == "run,seed,'-rate,batch,episodes,mean_return,success_rate,'=1+1"
    assert Evaluations.from_csv(table.to_csv()).to_csv() == table.to_csv()
