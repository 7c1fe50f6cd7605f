"""Who is called best, and how surely."""

import pytest

from hindsight_rl.analysis.study.aggregates import AggregateComparisonRow
from hindsight_rl.analysis.study.summaries import ComparisonRow, PerformanceRow
from hindsight_rl.analysis.study.verdicts import FEWEST_RUNS, answer, from_the_better_side, is_settled, verdicts
from hindsight_rl.records.runs import Cell


def row(method: str, mean: float | None, finished: int = 6) -> PerformanceRow:
    nothing = (None,) * 9
    std = None if mean is None else 0.1
    return PerformanceRow(Cell("maze", 2, method), 6, finished, 0, {"learning_rate": 1e-3}, mean, std, *nothing)


def pair(first: str, second: str, probability: float | None, half: float = 0.1, runs: int = 6) -> ComparisonRow:
    low, high = (None, None) if probability is None else (probability - half, probability + half)
    return ComparisonRow("maze", 2, first, second, probability, low, high, runs, runs + 1)


def test_clear_best_names_who_comes_closest() -> None:
    rows = [row("gcpg", 1), row("hpg", 3), row("hpg+b", 2)]
    pairs = [pair("gcpg", "hpg", 0.05, 0.05), pair("gcpg", "hpg+b", 0.4), pair("hpg", "hpg+b", 0.8)]
    (verdict,) = verdicts(rows, pairs)
    assert (verdict.best, verdict.certainty, verdict.mean, verdict.finished) == ("hpg", "clear", 3, 6)
    assert [rival.second for rival in verdict.rivals] == ["hpg+b"]
    assert "hpg+b" in verdict.sentence
    assert "0.80" in verdict.sentence
    assert "gcpg" not in verdict.sentence


def test_open_names_every_rival() -> None:
    rows = [row("gcpg", 1), row("hpg", 3), row("hpg+b", 2.9)]
    pairs = [pair("gcpg", "hpg", 0.45), pair("hpg", "hpg+b", 0.55), pair("gcpg", "hpg+b", 0.4)]
    (verdict,) = verdicts(rows, pairs)
    assert verdict.certainty == "open"
    assert {rival.second for rival in verdict.rivals} == {"gcpg", "hpg+b"}
    (turned,) = (rival for rival in verdict.rivals if rival.second == "gcpg")
    assert (turned.probability, turned.low, turned.high) == pytest.approx((0.55, 0.45, 0.65))
    assert (turned.first_runs, turned.second_runs) == (7, 6)


def test_few_runs_are_never_clear() -> None:
    rows = [row("gcpg", 1, 3), row("hpg", 3, 3)]
    (verdict,) = verdicts(rows, [pair("hpg", "gcpg", 1.0, 0.0, runs=FEWEST_RUNS - 1)])
    assert verdict.certainty == "too few runs"
    (enough,) = verdicts(rows, [pair("hpg", "gcpg", 1.0, 0.0, runs=FEWEST_RUNS)])
    assert enough.certainty == "clear"


def test_method_without_runs_keeps_it_from_being_clear() -> None:
    rows = [row("gcpg", 1), row("hpg", 3), row("dqn", None, 0)]
    pairs = [pair("hpg", "gcpg", 0.9), pair("hpg", "dqn", None), pair("gcpg", "dqn", None)]
    (verdict,) = verdicts(rows, pairs)
    assert (verdict.best, verdict.certainty, verdict.waiting) == ("hpg", "unfinished", ("dqn",))
    assert "dqn" in verdict.sentence


def test_alone_and_without_runs() -> None:
    (alone,) = verdicts([row("hpg", 3)], [])
    assert (alone.best, alone.certainty) == ("hpg", "alone")
    (nothing,) = verdicts([row("hpg", None, 0)], [])
    assert (nothing.best, nothing.certainty, nothing.mean) == (None, "no runs", None)
    assert verdicts([], []) == []


def test_best_may_have_a_negative_mean() -> None:
    (verdict,) = verdicts([row("gcpg", -3), row("hpg", -1)], [pair("hpg", "gcpg", 0.9)])
    assert verdict.best == "hpg"


def test_settled_needs_an_interval_and_runs() -> None:
    assert is_settled(pair("a", "b", 0.7))
    assert is_settled(pair("a", "b", 0.2))
    assert not is_settled(pair("a", "b", 0.55))
    assert not is_settled(pair("a", "b", 1.0, 0.0, runs=2))
    assert not is_settled(pair("a", "b", None))


def test_comparisons_are_told_from_the_better_side() -> None:
    kept, turned = from_the_better_side([pair("a", "b", 0.7), pair("a", "c", 0.2)])
    assert kept == pair("a", "b", 0.7)
    assert (turned.first, turned.second) == ("c", "a")
    assert (turned.probability, turned.low, turned.high) == pytest.approx((0.8, 0.7, 0.9))
    unknown = AggregateComparisonRow(2, "a", "b", (), None, None, None)
    assert from_the_better_side([unknown]) == [unknown]
    (together,) = from_the_better_side([AggregateComparisonRow(2, "a", "b", ("maze",), 0.1, 0.0, 0.3)])
    assert (together.first, together.low, together.high) == ("b", 0.7, 1.0)


def test_answer_counts_places() -> None:
    rows = [row("gcpg", 1), row("hpg", 3)]
    found = verdicts(rows, [pair("hpg", "gcpg", 0.9)])
    assert (
        answer(found) == "Highest average performance: hpg in 1 of 1 combination of environment and batch size (clear)."
    )
    waiting = verdicts([row("gcpg", 1), row("hpg", None, 0)], [])
    assert answer([*found, *found, *waiting]) == (
        "Highest average performance: hpg in 2 of 3 combinations of environment and batch size (2 clear)."
        " In 1 not every method has a finished run yet."
    )
    assert "nothing to compare" in answer(waiting)
