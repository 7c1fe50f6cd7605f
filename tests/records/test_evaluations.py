"""The table of evaluations comes back exactly, and damage to it is named."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.evaluations import Evaluations, read_evaluations, summary

NAN = float("nan")
HEADER = "run,seed,learning_rate,baseline_learning_rate,batch,episodes,mean_return,success_rate"


def two_runs() -> Evaluations:
    """Two runs, the second of which failed after its second evaluation."""
    return Evaluations(
        seeds=np.array([5, 6]),
        learning_rates=np.array([0.1, 1e-5]),
        baseline_learning_rates=np.array([0.2, 0.3]),
        batches=np.array([0, 10, 20]),
        episodes=np.array([0, 160, 320]),
        mean_returns=np.array([[1.0, 2.0, 6.0], [1.5, 2.5, NAN]]),
        success_rates=np.array([[0.1, 0.2, 0.6], [0.15, 0.25, NAN]]),
    )


def assert_same(left: Evaluations, right: Evaluations) -> None:
    for field in fields(Evaluations):
        np.testing.assert_array_equal(getattr(left, field.name), getattr(right, field.name), err_msg=field.name)


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
    return Evaluations(
        seeds=np.array(draw(st.lists(st.integers(0, 2**32 - 1), min_size=runs, max_size=runs)), dtype=np.int64),
        learning_rates=np.array(draw(st.lists(number, min_size=runs, max_size=runs))),
        baseline_learning_rates=np.array(draw(st.lists(number | st.just(NAN), min_size=runs, max_size=runs))),
        batches=np.array(batches),
        episodes=np.array(batches) * 16,
        mean_returns=mean_returns,
        success_rates=success_rates,
    )


@given(any_evaluations())
@settings(deadline=None)
def test_round_trip_is_exact(evaluations: Evaluations) -> None:
    assert_same(Evaluations.from_csv(evaluations.to_csv()), evaluations)


def test_table_as_text() -> None:
    assert two_runs().to_csv() == (
        f"{HEADER}\n"
        "0,5,0.1,0.2,0,0,1.0,0.1\n"
        "0,5,0.1,0.2,10,160,2.0,0.2\n"
        "0,5,0.1,0.2,20,320,6.0,0.6\n"
        "1,6,1e-05,0.3,0,0,1.5,0.15\n"
        "1,6,1e-05,0.3,10,160,2.5,0.25\n"
    )


def test_a_table_whose_every_run_failed_still_says_so() -> None:
    failed = np.full((2, 3), NAN)
    failed[:, 0] = 1.0
    evaluations = replace(two_runs(), mean_returns=failed, success_rates=failed)
    again = Evaluations.from_csv(evaluations.to_csv())
    assert_same(again, evaluations)
    assert np.isnan(again.average_performance).all()


def test_single_precision_is_written_exactly() -> None:
    third = np.full((2, 3), 1 / 3, dtype=np.float32)
    again = Evaluations.from_csv(replace(two_runs(), mean_returns=third, success_rates=third).to_csv())
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


def test_every_truncation_within_a_row_is_caught() -> None:
    text = two_runs().to_csv()
    for length in range(len(text)):
        if text[:length].endswith("\n") and length > len(HEADER) + 1:
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
        {"learning_rates": np.zeros(3)},
        {"episodes": np.zeros(2)},
        {"mean_returns": np.zeros((3, 2))},
        {"success_rates": np.zeros((2, 3))},
        {"batches": np.array([0, 20, 10])},
        {"batches": np.zeros(0)},
        {"mean_returns": np.array([[NAN, 1, 1], [1, 1, 1]]), "success_rates": np.array([[NAN, 1, 1], [1, 1, 1]])},
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(change: dict[str, np.ndarray]) -> None:
    with pytest.raises(HindsightError):
        replace(two_runs(), **change)


def test_summary_is_over_finite_runs_with_ddof_zero() -> None:
    assert summary(np.array([1.0, NAN, 3.0])) == {"mean": 2.0, "std": 1.0}
    assert summary(np.array([4.0])) == {"mean": 4.0, "std": 0.0}
    assert summary(np.array([NAN, np.inf])) == {"mean": None, "std": None}
    assert summary(np.zeros(0)) == {"mean": None, "std": None}
