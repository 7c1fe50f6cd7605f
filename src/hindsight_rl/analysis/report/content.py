"""What a report says in sentences and small tables of its own: what was studied, what is missing, what was set."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hindsight_rl.analysis.study.summaries import MissingRow, PerformanceRow
from hindsight_rl.analysis.study.verdicts import Verdict, by_place
from hindsight_rl.analysis.tables import Column, Table, Value
from hindsight_rl.analysis.words import counted, listed
from hindsight_rl.records.runs import DEFINITIVE, Cell, StudyResults, distinct


def introduction(results: StudyResults, rows: Sequence[PerformanceRow]) -> str:
    """What was studied, and how far it has come."""
    cells = list(results.plans)
    if not cells:
        return "This study has no cells yet."
    methods = distinct(cell.method for cell in cells)
    environments = distinct(cell.environment for cell in cells)
    sizes = [str(size) for size in sorted({cell.batch_size for cell in cells})]
    finished, planned = sum(row.finished for row in rows), sum(row.planned for row in rows)
    search = sum(run.key.stage != DEFINITIVE for run in results.runs)
    return (
        f"{counted(len(methods), 'method')} ({listed(methods)}) on {counted(len(environments), 'environment')}"
        f" ({listed(environments)}) with batch {'size' if len(sizes) == 1 else 'sizes'} {listed(sizes)}."
        f" Of {counted(planned, 'planned definitive run')}, {finished:,} finished,"
        f" after {counted(search, 'search run')}."
    )


def shortcomings(rows: Sequence[MissingRow]) -> list[str]:
    """A sentence for each kind of thing that the study lacks; none for a complete study."""
    absent = sum(row.missing for row in rows)
    failed = sum(len(row.failures) for row in rows)
    empty = sum(row.missing == row.planned for row in rows)
    sentences = []
    if absent:
        cells = sum(row.missing > 0 for row in rows)
        sentences.append(f"{counted(absent, 'definitive run')} not made yet, in {counted(cells, 'cell')}.")
    if empty:
        sentences.append(f"{counted(empty, 'cell')} without any definitive run, still to be searched or begun.")
    if failed:
        causes = Counter(cause.sentence for row in rows for _, cause in row.failures)
        reasons = " ".join(f"{sentence} ({counted(count, 'run')})" for sentence, count in causes.most_common(3))
        sentences.append(f"{counted(failed, 'definitive run')} failed, left out of all statistics: {reasons}")
    return sentences


def not_chosen(cells: Sequence[Cell]) -> list[str]:
    """A sentence about the cells whose search found nothing; none where there are no such cells."""
    if not cells:
        return []
    named = listed([f"{cell.method} on {cell.environment}, batch size {cell.batch_size}" for cell in cells])
    return [f"No run of the search is above chance, so that the rates of the definitive runs mean nothing: {named}."]


def runs_behind(rows: Sequence[PerformanceRow]) -> str:
    """How many definitive runs a figure of these cells rests on, and what it lacks."""
    finished, planned = sum(row.finished for row in rows), sum(row.planned for row in rows)
    if finished >= planned and not any(row.failed for row in rows):
        return f"All {counted(planned, 'planned run')} finished."
    begun = f"{finished:,} of {counted(planned, 'planned run')} finished"
    if len(by_place(rows)) > 1:
        return f"{begun} ({_lack(sum(row.failed for row in rows), sum(map(runs_missing, rows)))})."
    lacks = {row.cell.method: _lack(row.failed, runs_missing(row)) for row in rows}
    return f"{begun} ({'; '.join(f'{method}: {lack}' for method, lack in lacks.items() if lack)})."


def _lack(failed: int, absent: int) -> str:
    return " and ".join([f"{failed:,} failed"] * (failed > 0) + [f"{absent:,} missing"] * (absent > 0))


def runs_missing(row: PerformanceRow) -> int:
    """Definitive runs that were planned but not made yet; a plan may have become smaller since."""
    return max(row.planned - row.finished - row.failed, 0)


def headline_table(performance: Sequence[PerformanceRow]) -> Table:
    """Mean and standard deviation: a row for each environment and batch size, a column for each method."""
    methods = distinct(row.cell.method for row in performance)
    columns = [Column("environment", "text"), Column("batch size", "count")]
    columns += [Column(method, "spread") for method in methods]
    rows: list[tuple[Value, ...]] = []
    for place, here in by_place(performance).items():
        found = {row.cell.method: (row.mean, row.std) for row in here}
        rows.append((*place, *(found.get(method) for method in methods)))
    return Table("Average performance by method", tuple(columns), tuple(rows))


def best_entries(table: Table, found: Sequence[Verdict]) -> frozenset[tuple[int, int]]:
    """Row and column of each best method in the headline table, whose rows are in the verdicts' order."""
    headers = [column.header for column in table.columns]
    return frozenset((row, headers.index(one.best, 2)) for row, one in enumerate(found) if one.best is not None)


def failures_table(results: StudyResults) -> Table:
    """Every run that failed, those of the search included."""
    failed = [(run, run.failure) for run in results.runs if run.failure is not None]
    names = distinct(name for run, _ in failed for name, _ in run.key.choices)
    rows: list[tuple[Value, ...]] = []
    for run, cause in failed:
        batch = cause.batch if cause.batch >= 0 else None
        chosen = dict(run.key.choices)
        choices = (chosen.get(name) for name in names)
        rows.append((*run.cell, run.key.stage, *choices, run.key.seed, batch, cause.sentence))
    head = _columns({"environment": "text", "batch size": "count", "method": "text", "stage": "text"})
    varied = tuple(Column(name.replace("_", " "), "rate") for name in names)
    tail = _columns({"seed": "count", "failed in batch": "count", "cause": "text"})
    return Table("Runs that failed", head + varied + tail, tuple(rows))


def facts_table(facts: Mapping[str, Any]) -> Table:
    """What else was said of the study as a whole."""
    elsewhere = ("name", "description", "format")
    rows = tuple((name, _said(value)) for name, value in _flat(facts) if name not in elsewhere)
    return Table("The study as a whole", _columns({"fact": "text", "value": "text"}), rows)


def common_settings_table(plans: Mapping[Cell, Mapping[str, Any]]) -> Table:
    """The settings on which all cells agree."""
    flat = [dict(_flat(plan)) for plan in plans.values()]
    shared = {name: value for name, value in (flat[0] if flat else {}).items() if _agreed(name, flat)}
    rows = tuple((name, _said(value)) for name, value in shared.items())
    return Table("Settings of all cells", _columns({"setting": "text", "value": "text"}), rows)


def cell_settings_table(plans: Mapping[Cell, Mapping[str, Any]]) -> Table:
    """The settings in which cells differ."""
    flat = [dict(_flat(plan)) for plan in plans.values()]
    names = [name for name in distinct(name for plan in flat for name in plan) if not _agreed(name, flat)]
    whole = {name for name in names if all(type(plan.get(name)) in (int, type(None)) for plan in flat)}
    kinds = {"environment": "text", "batch size": "count", "method": "text"}
    # A setting may have the name of a column that is there already, and a table by header would then lose one.
    columns = _columns(kinds) + tuple(Column(name, "count" if name in whole else "text") for name in names)
    rows = [
        (*cell, *(plan.get(name) if name in whole else _said(plan.get(name)) for name in names))
        for cell, plan in zip(plans, flat, strict=True)
    ]
    return Table("Settings that differ between cells", columns, tuple(rows) if names else ())


def origins_table(results: StudyResults) -> Table:
    """Versions, machine and code version behind the runs: a column for each origin."""
    made = Counter(run.origin for run in results.runs)
    flat = {number: dict(_flat(content)) for number, content in sorted(results.origins.items())}
    names = distinct(name for content in flat.values() for name in content)
    rows: list[tuple[Value, ...]] = [("runs made", *(f"{made[number]:,}" for number in flat))]
    rows += [(name, *(_said(content.get(name)) for content in flat.values())) for name in names]
    columns = [Column("what", "text"), *(Column(f"origin {number}", "text") for number in flat)]
    return Table("What made the runs", tuple(columns), tuple(rows) if flat else ())


def _flat(plan: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in plan.items():
        words = f"{prefix}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{words} ")
        else:
            yield words, value


def _agreed(name: str, plans: Sequence[Mapping[str, Any]]) -> bool:
    return all(name in plan and plan[name] == plans[0].get(name) for plan in plans)


def _said(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(str(_said(one)) for one in value) or None
    return f"{value:g}" if isinstance(value, float) else str(value)


def _columns(kinds: Mapping[str, Any]) -> tuple[Column, ...]:
    return tuple(Column(header, kind) for header, kind in kinds.items())
