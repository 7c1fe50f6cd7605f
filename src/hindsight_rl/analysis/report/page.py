"""A report as one page of HTML that needs no network."""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup
from matplotlib.figure import Figure

from hindsight_rl.analysis.figures import figure_bytes, legend_entries
from hindsight_rl.analysis.study.verdicts import FEWEST_RUNS, Verdict
from hindsight_rl.analysis.tables import NOTHING, Column, Table, Value, show

LONG_TABLE = 30
"""Rows from which a table is folded until a reader opens it."""

WIDE_FIGURE = 900
"""Pixels from which a figure may not shrink as much as others on a narrow screen."""


class Section(NamedTuple):
    """A part of the page."""

    id: str
    heading: str
    guide: str
    """How to read it."""
    nothing: str
    """What it says when there is nothing to show."""


SECTIONS = (
    Section(
        "performance",
        "Average performance",
        "The average performance of a run is the mean return over all its evaluations. Only runs that finished count.",
        "There is no cell, and so no performance.",
    ),
    Section(
        "learning-curves",
        "Learning curves",
        "Average return at each evaluation: the mean over the definitive runs that finished, with its 95 % bootstrap"
        " interval shaded.",
        "There is nothing to draw.",
    ),
    Section(
        "comparisons",
        "Method against method",
        "The probability that a run of the first method has a higher average performance than a run of the second,"
        f" with its 95 % bootstrap interval. A dot is filled where that lies on one side of one half, with at least"
        f" {FEWEST_RUNS} runs of both methods. The intervals are for one pair at a time, and too narrow for few runs.",
        "There are no two methods with finished runs to compare.",
    ),
    Section(
        "paper",
        "Beside the paper",
        "Mean and standard deviation of average performance over runs, here and as published.",
        "",  # left out of studies of what the paper does not have
    ),
    Section(
        "sensitivity",
        "Sensitivity to the settings",
        "What the search found for each setting of a method, from its best to its worst by mean minus standard"
        " deviation, as the paper chooses: the flatter, the easier to tune. Settings with a failed run come last.",
        "No search run has been made yet.",
    ),
    Section(
        "ratios",
        "Likelihood ratios",
        "How the active normalised likelihood ratios of the best definitive run were distributed over training, for"
        " each time step of an episode. The longest bar of each time step has the same length.",
        "No finished run recorded its likelihood ratios.",
    ),
    Section(
        "metrics",
        "Other metrics",
        "What methods recorded beside return and success rate: the mean over the definitive runs that finished and"
        " recorded it, with its 95 % bootstrap interval shaded.",
        "No finished run recorded anything else.",
    ),
    Section("policies", "Policies at work", "Episodes of trained policies.", "No animation was made."),
    Section(
        "settings",
        "Settings",
        "What was to be run for each cell.",
        "There is no cell, and so no setting.",
    ),
    Section(
        "runs",
        "Runs",
        "What each figure rests on, what is missing, and why runs failed.",
        "Nothing was planned.",
    ),
    Section(
        "origins",
        "Origins",
        "The versions, machine and code version that made the runs.",
        "No run has been made yet.",
    ),
)


@dataclass(frozen=True, eq=False)
class ReportFigure:
    """A figure with what stands beneath it."""

    section: str
    title: str
    caption: str
    """On how many runs it rests, and what is missing from it."""
    figure: Figure
    finished: int
    failed: int
    missing: int | None = None
    """None where no number of runs was planned."""


@dataclass(frozen=True)
class ReportTable:
    """A table with its place on the page."""

    section: str
    table: Table
    note: str = ""
    best: frozenset[tuple[int, int]] = frozenset()
    """Rows and columns of the entries to emphasise."""
    targets: tuple[str, ...] = ()
    """The figures that the first entries of the rows link to."""


@dataclass(frozen=True, eq=False)
class Report:
    """All that a report holds, ready to be written as a page or as files."""

    title: str
    description: str
    answer: str
    """Which method is best where, in one sentence."""
    introduction: str
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...]
    """What is missing or failed."""
    figures: Mapping[str, ReportFigure]
    """By the name of its file and anchor."""
    tables: Mapping[str, ReportTable]
    animations: Mapping[str, bytes] = field(default_factory=dict)
    """GIF files by caption."""
    undrawn: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By section, the titles of figures that wait for a finished run."""


def render_report(report: Report, pictures: Mapping[str, bytes] | None = None) -> str:
    """The page; `pictures` are the figures as PNG, if they have been made already."""
    pictures = pngs(report) if pictures is None else pictures
    style, script = _resource("report.css"), _resource("report.js")
    return _template().render(
        report=report,
        style=Markup(style),
        script=Markup(script),
        policy=_content_security_policy(style, script),
        sections=[section for section in SECTIONS if _has_place(report, section.id)],
        figures={section.id: list(_figure_views(report, section.id, pictures)) for section in SECTIONS},
        tables={section.id: list(_table_views(report, section.id)) for section in SECTIONS},
        animations=[(caption, _data("image/gif", content)) for caption, content in report.animations.items()],
        fewest_runs=FEWEST_RUNS,
        nothing=NOTHING,
    )


def _has_place(report: Report, section: str) -> bool:
    """Every section says what it lacks, but a study of what the paper has not cannot lack the paper's values."""
    filled = {one.section for one in report.tables.values() if one.table.rows}
    return section != "paper" or section in filled | {one.section for one in report.figures.values()}


def pngs(report: Report) -> dict[str, bytes]:
    """Each figure as a PNG."""
    return {name: figure_bytes(one.figure, "png") for name, one in report.figures.items()}


@cache
def _template() -> jinja2.Template:
    loader = jinja2.PackageLoader("hindsight_rl.analysis.report", "templates")
    options: dict[str, Any] = {"undefined": jinja2.StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    return jinja2.Environment(loader=loader, autoescape=True, **options).get_template("report.html")


@cache
def _resource(name: str) -> str:
    return files("hindsight_rl.analysis.report").joinpath("templates", name).read_text(encoding="utf-8")


def _content_security_policy(style: str, script: str) -> str:
    """Nothing from the network, and no style or script but ours."""
    return (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}';"
        " base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _figure_views(report: Report, section: str, pictures: Mapping[str, bytes]) -> Iterator[dict[str, Any]]:
    for name, one in report.figures.items():
        if one.section == section:
            vectors = figure_bytes(one.figure, "svg")
            smaller = len(vectors) < len(pictures[name])
            source = _data("image/svg+xml", vectors) if smaller else _data("image/png", pictures[name])
            width, height = (round(100 * inches) for inches in one.figure.get_size_inches())
            size = {"width": width, "height": height, "wide": width > WIDE_FIGURE}
            head = {"id": name, "title": one.title, "caption": one.caption, "source": source}
            yield {**head, **size, "legend": legend_entries(one.figure)}


def _table_views(report: Report, section: str) -> Iterator[dict[str, Any]]:
    for name, one in report.tables.items():
        if one.section == section and one.table.rows:
            columns = one.table.columns
            yield {
                "id": f"table-{name}",
                "title": one.table.title,
                "note": one.note,
                "folded": len(one.table.rows) >= LONG_TABLE,
                "columns": [{"header": column.header, "number": _is_number(column)} for column in columns],
                "rows": [_row_view(one, index, row, columns) for index, row in enumerate(one.table.rows)],
            }


def _row_view(one: ReportTable, index: int, row: Sequence[Value], columns: Sequence[Column]) -> list[dict[str, Any]]:
    return [
        {
            "text": show(value, column),
            "key": _sort_key(value, column),
            "number": _is_number(column),
            "best": (index, position) in one.best,
            "target": one.targets[index] if one.targets and position == 0 else None,
        }
        for position, (value, column) in enumerate(zip(row, columns, strict=True))
    ]


def _is_number(column: Column) -> bool:
    return column.kind not in ("text", "flag")


def _sort_key(value: Value, column: Column) -> str | None:
    """What a column is sorted by: a pair by its first number. None for nothing, which comes last."""
    first = value[0] if isinstance(value, tuple) else value
    if first is None or first != first or first == "":
        return None
    return repr(float(first)) if _is_number(column) else str(first)


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
