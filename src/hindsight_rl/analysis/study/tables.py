"""The tables of a study, from the rows that its statistics come in."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hindsight_rl.analysis.study.aggregates import AggregateComparisonRow, AggregateRow
from hindsight_rl.analysis.study.sensitivity import SensitivityRow
from hindsight_rl.analysis.study.summaries import ComparisonRow, MissingRow, PerformanceRow, ThresholdRow
from hindsight_rl.analysis.tables import Column, Table, Value
from hindsight_rl.records.runs import distinct

Entry = tuple[Column, Callable[[Any], Value]]
"""A column, and where its value is in a row of the statistics."""

_CELL: tuple[Entry, ...] = (
    (Column("environment", "text"), lambda row: row.cell.environment),
    (Column("batch size", "count"), lambda row: row.cell.batch_size),
    (Column("method", "text"), lambda row: row.cell.method),
)
_BATCH_SIZE: Entry = (Column("batch size", "count"), lambda row: row.batch_size)
_INTERVAL: Entry = (Column("interval (95 %)", "interval"), lambda row: (row.low, row.high))
_PAIR: tuple[Entry, ...] = (
    (Column("first", "text"), lambda row: row.first),
    (Column("second", "text"), lambda row: row.second),
    (Column("probability", "number"), lambda row: row.probability),
    _INTERVAL,
)
_ENVIRONMENTS: Entry = (Column("environments", "text"), lambda row: ", ".join(row.environments))


def performance_table(rows: Sequence[PerformanceRow]) -> Table:
    """How well each cell's definitive runs did."""
    return _table(
        "Average performance of the definitive runs",
        rows,
        *_CELL,
        (Column("planned runs", "count"), lambda row: row.planned),
        (Column("finished", "count"), lambda row: row.finished),
        (Column("failed", "count"), lambda row: row.failed),
        *_choices(rows),
        (Column("average performance", "spread"), lambda row: (row.mean, row.std)),
        (Column("interquartile mean", "number"), lambda row: row.interquartile_mean),
        _INTERVAL,
        (Column("final return", "number"), lambda row: row.final_return),
        (Column("final success rate", "number"), lambda row: row.final_success_rate),
    )


def paper_table(rows: Iterable[PerformanceRow]) -> Table:
    """Average performance beside the paper's, for the cells that the paper has."""
    return _table(
        "Average performance here and in the paper",
        [row for row in rows if row.paper_mean is not None],
        *_CELL,
        (Column("finished runs", "count"), lambda row: row.finished),
        (Column("here", "spread"), lambda row: (row.mean, row.std)),
        (Column("paper", "spread"), lambda row: (row.paper_mean, row.paper_std)),
        (Column("difference", "number"), lambda row: row.difference),
        (Column("in the paper's standard deviations", "number", digits=1), lambda row: row.difference_in_stds),
    )


def threshold_table(rows: Iterable[ThresholdRow]) -> Table:
    """How long it took to come near the best possible return."""
    return _table(
        "Episodes and seconds until the threshold",
        rows,
        *_CELL,
        (Column("threshold", "number"), lambda row: row.threshold),
        (Column("finished runs", "count"), lambda row: row.finished),
        (Column("reached it", "count"), lambda row: row.reached),
        (Column("median episodes", "number", digits=0), lambda row: row.median_episodes),
        (Column("median seconds", "number", digits=1), lambda row: row.median_seconds),
    )


def comparison_table(rows: Iterable[ComparisonRow]) -> Table:
    """How probable it is that one method beats another."""
    rows = list(rows)
    return _table(
        f"Probability that a run of the first method beats one of the second{_uncorrected(rows)}",
        rows,
        (Column("environment", "text"), lambda row: row.environment),
        _BATCH_SIZE,
        *_PAIR,
        (Column("runs of the first", "count"), lambda row: row.first_runs),
        (Column("runs of the second", "count"), lambda row: row.second_runs),
    )


def sensitivity_table(rows: Sequence[SensitivityRow]) -> Table:
    """What the search found for each setting."""
    return _table(
        "Settings that the search tried, from best to worst",
        rows,
        *_CELL,
        (Column("rank", "count"), lambda row: row.rank),
        (Column("stage", "text"), lambda row: row.stage),
        *_choices(rows),
        (Column("average performance", "spread"), lambda row: (row.mean, row.std)),
        (Column("score", "number"), lambda row: row.score),
        (Column("finished runs", "count"), lambda row: row.finished),
        (Column("failed", "count"), lambda row: row.failed),
        (Column("chosen", "flag"), lambda row: row.chosen),
    )


def missing_table(rows: Iterable[MissingRow]) -> Table:
    """What the study still lacks, for the cells that are not complete."""
    return _table(
        "Definitive runs that are missing or failed",
        [row for row in rows if not row.complete],
        *_CELL,
        (Column("planned runs", "count"), lambda row: row.planned),
        (Column("missing", "count"), lambda row: row.missing),
        (Column("failed", "count"), lambda row: len(row.failures)),
        (Column("causes", "text"), _causes),
        (Column("search runs so far", "count"), lambda row: row.search_runs),
        (Column("search unfinished", "flag"), lambda row: row.search_unfinished),
    )


def aggregate_table(rows: Iterable[AggregateRow]) -> Table:
    """Each method over all environments together."""
    return _table(
        "Average performance as a share of the best possible, over all environments",
        rows,
        _BATCH_SIZE,
        (Column("method", "text"), lambda row: row.method),
        (Column("interquartile mean", "number", digits=3), lambda row: row.interquartile_mean),
        (Column("interval (95 %)", "interval", digits=3), lambda row: (row.low, row.high)),
        (Column("runs", "count"), lambda row: row.runs),
        _ENVIRONMENTS,
    )


def aggregate_comparison_table(rows: Iterable[AggregateComparisonRow]) -> Table:
    """How probable it is that one method beats another, over all environments together."""
    rows = list(rows)
    title = "Probability that a run of the first method beats one of the second, over all environments"
    return _table(title + _uncorrected(rows), rows, _BATCH_SIZE, *_PAIR, _ENVIRONMENTS)


def _uncorrected(comparisons: Sequence[Any]) -> str:
    """What to bear in mind of many intervals of 95 %: about one in twenty misses."""
    return f" ({len(comparisons)} comparisons, not corrected for their number)" if len(comparisons) > 1 else ""


def _choices(rows: Sequence[PerformanceRow | SensitivityRow]) -> list[Entry]:
    """A column for each option that any of the rows has a value of."""

    def entry(name: str) -> Entry:
        return Column(name.replace("_", " "), "rate"), lambda row: row.choices.get(name)

    return [entry(name) for name in distinct(name for row in rows for name in row.choices)]


def _table(title: str, rows: Iterable[Any], *entries: Entry) -> Table:
    columns = tuple(column for column, _ in entries)
    return Table(title, columns, tuple(tuple(value(row) for _, value in entries) for row in rows))


def _causes(row: MissingRow) -> str:
    """Each cause once, with the runs that it ended."""
    runs: dict[str, list[str]] = {}
    for seed, cause in row.failures:
        place = "" if cause.batch < 0 else f" in batch {cause.batch}"  # an exception ends all of a piece's runs at once
        runs.setdefault(cause.sentence, []).append(f"seed {seed}{place}")
    return " ".join(f"{sentence} ({', '.join(ended)})" for sentence, ended in runs.items())
