"""The report of a study, finished or not: statistics, figures and tables gathered, as a page and as files."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from hindsight_rl.analysis.figures import Look, figure_bytes, learning_curves
from hindsight_rl.analysis.report.content import (
    best_entries,
    cell_settings_table,
    common_settings_table,
    facts_table,
    failures_table,
    headline_table,
    introduction,
    not_chosen,
    origins_table,
    runs_behind,
    runs_missing,
    shortcomings,
)
from hindsight_rl.analysis.report.page import Report, ReportFigure, ReportTable, pngs, render_report
from hindsight_rl.analysis.study import figures as study_figures
from hindsight_rl.analysis.study import tables as study_tables
from hindsight_rl.analysis.study.aggregates import aggregate, aggregate_comparisons
from hindsight_rl.analysis.study.curves import LearningCurve, metric_curves
from hindsight_rl.analysis.study.curves import learning_curves as learning_curve_rows
from hindsight_rl.analysis.study.sensitivity import SensitivityRow, searches_at_chance, sensitivities
from hindsight_rl.analysis.study.summaries import (
    ComparisonRow,
    MissingRow,
    PaperValues,
    PerformanceRow,
    comparisons,
    missing,
    performance,
    ratio_histogram,
    thresholds,
)
from hindsight_rl.analysis.study.verdicts import answer, by_place, from_the_better_side, verdicts
from hindsight_rl.analysis.tables import Column, Table, to_csv, to_latex, to_markdown
from hindsight_rl.analysis.words import counted, listed
from hindsight_rl.records.runs import Cell, StudyResults

__all__ = ["Report", "ReportFigure", "ReportTable", "build_report", "render_report", "report_files"]


@dataclass(frozen=True, eq=False)
class _Statistics:
    """All numbers of a report."""

    performance: Sequence[PerformanceRow]
    comparisons: Sequence[ComparisonRow]
    sensitivities: Sequence[SensitivityRow]
    curves: Sequence[LearningCurve]
    missing: Sequence[MissingRow]


def build_report(
    results: StudyResults,
    paper: PaperValues,
    best_returns: Mapping[str, float | None],
    animations: Mapping[str, bytes] | None = None,
) -> Report:
    """Everything that the results have to say so far; `animations` are GIF files by caption."""
    statistics = _Statistics(
        performance=performance(results, paper),
        comparisons=from_the_better_side(comparisons(results)),
        sensitivities=sensitivities(results),
        curves=learning_curve_rows(results),
        missing=missing(results),
    )
    found = verdicts(statistics.performance, statistics.comparisons)
    figures = _named(_figures(results, statistics, best_returns))
    waiting = tuple(_place(*place) for place, rows in by_place(statistics.performance).items() if not _any(rows))
    headline = headline_table(statistics.performance)
    tables = {
        "headline": ReportTable("performance", headline, _HEADLINE_NOTE, best_entries(headline, found)),
        **_tables(results, statistics, best_returns),
        "figures": _basis_table(figures),
        "missing": ReportTable("runs", study_tables.missing_table(statistics.missing)),
        "failures": ReportTable("runs", failures_table(results)),
        "origins": ReportTable("origins", origins_table(results)),
    }
    return Report(
        title=str(results.facts.get("name", "Study")),
        description=str(results.facts.get("description", "")),
        answer=answer(found),
        introduction=introduction(results, statistics.performance),
        verdicts=tuple(found),
        notes=(*shortcomings(statistics.missing), *not_chosen(searches_at_chance(results))),
        figures=figures,
        tables={name: one for name, one in tables.items() if one.table.rows or name in _EVEN_EMPTY},
        animations=dict(animations or {}),
        undrawn={"learning-curves": waiting},
    )


def report_files(
    results: StudyResults,
    paper: PaperValues,
    best_returns: Mapping[str, float | None],
    animations: Mapping[str, bytes] | None = None,
) -> dict[str, bytes]:
    """Every file of a report's folder by its path in it."""
    report = build_report(results, paper, best_returns, animations)
    pictures = pngs(report)
    found = {"report.html": render_report(report, pictures).encode()}
    for name, one in report.figures.items():
        found[f"figures/{name}.png"] = pictures[name]
        found[f"figures/{name}.pdf"] = figure_bytes(one.figure, "pdf")
    for name, shown in report.tables.items():
        for ending, form in (("csv", to_csv), ("md", to_markdown), ("tex", to_latex)):
            found[f"tables/{name}.{ending}"] = form(shown.table).encode()
    return found


def _figures(
    results: StudyResults, statistics: _Statistics, best_returns: Mapping[str, float | None]
) -> Iterator[tuple[str, ReportFigure]]:
    """Each figure with the name that it should have."""
    looks = study_figures.method_looks(cell.method for cell in results.plans)
    yield from _curve_figures(statistics, best_returns, looks)
    yield from _comparison_figures(statistics)
    in_paper = [row for row in statistics.performance if row.paper_mean is not None]
    if _any(in_paper):
        title = "Average performance here and in the paper"
        yield "paper", _of_runs("paper", title, study_figures.ours_and_paper(in_paper, title), in_paper)
    yield from _sensitivity_figures(statistics, looks, searches_at_chance(results))
    yield from _ratio_figures(results, statistics, looks)
    yield from _metric_figures(results, statistics, looks)


def _curve_figures(
    statistics: _Statistics, best_returns: Mapping[str, float | None], looks: Mapping[str, Look]
) -> Iterator[tuple[str, ReportFigure]]:
    for place, rows in by_place(statistics.performance).items():
        if not _any(rows):
            continue
        curves = {one.cell.method: one.curve for one in statistics.curves if one.cell[:2] == place}
        figure = learning_curves(curves, _place(*place), best_returns.get(place[0]), looks)
        yield f"learning-curves-{_key(*place)}", _of_runs("learning-curves", _place(*place), figure, rows)


def _comparison_figures(statistics: _Statistics) -> Iterator[tuple[str, ReportFigure]]:
    for place, rows in by_place(statistics.performance).items():
        pairs = [row for row in statistics.comparisons if (row.environment, row.batch_size) == place]
        if any(row.probability is not None for row in pairs):
            figure = study_figures.probabilities_of_improvement(pairs, _place(*place))
            yield f"comparisons-{_key(*place)}", _of_runs("comparisons", _place(*place), figure, rows)


def _sensitivity_figures(
    statistics: _Statistics, looks: Mapping[str, Look], at_chance: Sequence[Cell]
) -> Iterator[tuple[str, ReportFigure]]:
    for place in by_place(statistics.performance):
        settings: dict[str, list[SensitivityRow]] = {}
        for row in statistics.sensitivities:
            if row.cell[:2] == place:
                settings.setdefault(row.cell.method, []).append(row)
        if not settings:
            continue
        rows = [row for tried in settings.values() for row in tried]
        finished, failed = sum(row.finished for row in rows), sum(row.failed for row in rows)
        caption = f"{counted(len(rows), 'setting')}, {counted(finished, 'finished search run')}, {failed:,} failed."
        if noise := [cell.method for cell in at_chance if cell[:2] == place]:
            caption += f" No run is above chance, so that nothing was chosen: {listed(noise)}."
        figure = study_figures.sensitivity(settings, _place(*place), looks)
        shown = ReportFigure("sensitivity", _place(*place), caption, figure, finished, failed)
        yield f"sensitivity-{_key(*place)}", shown


def _ratio_figures(
    results: StudyResults, statistics: _Statistics, looks: Mapping[str, Look]
) -> Iterator[tuple[str, ReportFigure]]:
    for row in statistics.performance:
        counts = ratio_histogram(results, row.cell)
        if counts is None:
            continue
        title = f"{row.cell.method} on {_place(row.cell.environment, row.cell.batch_size)}"
        figure = study_figures.likelihood_ratios(counts, title, looks[row.cell.method])
        caption = f"{int(counts.sum()):,} ratios of the best of {counted(row.finished, 'finished run')}."
        absent = row.planned - row.finished - row.failed
        yield (
            f"ratios-{row.cell.name}",
            ReportFigure("ratios", title, caption, figure, row.finished, row.failed, absent),
        )


def _metric_figures(
    results: StudyResults, statistics: _Statistics, looks: Mapping[str, Look]
) -> Iterator[tuple[str, ReportFigure]]:
    for name, curves in metric_curves(results).items():
        words = name.replace("_", " ")
        for place, rows in by_place(statistics.performance).items():
            here = {one.cell.method: one.curve for one in curves if one.cell[:2] == place}
            if not here:
                continue
            title = f"{words}, {_place(*place)}"
            figure = learning_curves(here, title, None, looks, words)
            shown = _of_runs("metrics", title, figure, [row for row in rows if row.cell.method in here])
            recorded = sum(curve.runs for curve in here.values())
            if recorded < shown.finished:
                caption = f"{shown.caption} Of these, {recorded:,} recorded it."
                shown = replace(shown, caption=caption, finished=recorded)
            yield f"metric-{name}-{_key(*place)}", shown


def _of_runs(section: str, title: str, figure: Figure, rows: Sequence[PerformanceRow]) -> ReportFigure:
    finished, failed = sum(row.finished for row in rows), sum(row.failed for row in rows)
    return ReportFigure(section, title, runs_behind(rows), figure, finished, failed, sum(map(runs_missing, rows)))


def _tables(
    results: StudyResults, statistics: _Statistics, best_returns: Mapping[str, float | None]
) -> dict[str, ReportTable]:
    together = [row for row in aggregate(results, best_returns) if row.interquartile_mean is not None]
    pairs = from_the_better_side(aggregate_comparisons(results, best_returns))
    compared = [row for row in statistics.comparisons if row.probability is not None]
    timed = [row for row in thresholds(results, best_returns) if row.finished]
    return {
        "aggregate": ReportTable("performance", study_tables.aggregate_table(together), _AGGREGATE_NOTE),
        "performance": ReportTable("performance", study_tables.performance_table(statistics.performance)),
        "thresholds": ReportTable("learning-curves", study_tables.threshold_table(timed), _THRESHOLD_NOTE),
        "comparisons": ReportTable("comparisons", study_tables.comparison_table(compared)),
        "aggregate-comparisons": ReportTable(
            "comparisons", study_tables.aggregate_comparison_table(row for row in pairs if row.environments)
        ),
        "paper": ReportTable("paper", study_tables.paper_table(statistics.performance)),
        "sensitivity": ReportTable("sensitivity", study_tables.sensitivity_table(statistics.sensitivities)),
        "study": ReportTable("settings", facts_table(results.facts)),
        "settings": ReportTable("settings", common_settings_table(results.plans)),
        "cell-settings": ReportTable("settings", cell_settings_table(results.plans)),
    }


def _basis_table(figures: Mapping[str, ReportFigure]) -> ReportTable:
    counts = (Column(header, "count") for header in ("finished runs", "failed", "missing"))
    rows = [(name, one.title, one.finished, one.failed, one.missing) for name, one in figures.items()]
    table = Table("What each figure rests on", (Column("figure", "text"), Column("of", "text"), *counts), tuple(rows))
    return ReportTable("runs", table, targets=tuple(figures))


def _named(figures: Iterable[tuple[str, ReportFigure]]) -> dict[str, ReportFigure]:
    """The figures under names fit for files and anchors, no two alike even on a disk that ignores case."""
    named: dict[str, ReportFigure] = {}
    taken: set[str] = set()
    for wanted, figure in figures:
        name = base = re.sub(r"[^A-Za-z0-9+]+", "-", wanted)[:120].strip("-")
        number = 2
        while name.lower() in taken:
            name, number = f"{base}-{number}", number + 1
        taken.add(name.lower())
        named[name] = figure
    return named


def _any(rows: Iterable[PerformanceRow]) -> bool:
    return any(row.finished for row in rows)


def _place(environment: str, batch_size: int) -> str:
    return f"{environment}, batch size {batch_size}"


def _key(environment: str, batch_size: int) -> str:
    return f"{environment}-batch{batch_size}"


_EVEN_EMPTY = ("missing", "failures")
"""Tables whose files are written without rows too: an older report's would go on telling what is no longer so."""
_HEADLINE_NOTE = "Mean and standard deviation over the definitive runs; the highest mean of a row is marked."
_AGGREGATE_NOTE = (
    "Interquartile mean over the runs of all environments in which every method has finished runs; 1 is the best"
    " possible return from the first evaluation on."
)
_THRESHOLD_NOTE = "The threshold is 90 % of the best possible return, where that is known."
