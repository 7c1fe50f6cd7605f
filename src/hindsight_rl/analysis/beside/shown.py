"""Runs beside each other as tables and as one figure, from numbers that were computed before."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from hindsight_rl.analysis.beside.entries import Entry
from hindsight_rl.analysis.beside.summaries import Measure, Over, Panel, Row
from hindsight_rl.analysis.figures import (
    COLOURS,
    FAINT,
    INK,
    STYLES,
    Look,
    draw_curve,
    dress,
    legend_beside,
    new_figure,
)
from hindsight_rl.analysis.tables import Column, Table

LONGEST_VALUE = 40
"""Letters of a setting's value: that of a map would fill a screen."""
AXES = {"episodes": "training episodes", "steps": "simulator steps", "seconds": "seconds of a run"}


def comparison_table(panel: Panel, measure: Measure) -> Table:
    """How well each entry did, and how probably one of its runs beats one of the first entry's."""
    first = panel.rows[0].name
    columns = (
        Column("name", "text"),
        Column("runs", "text"),
        Column(_WORDS[measure], "number"),
        Column("95 % interval", "interval"),
        Column("success", "number"),
        Column("beats first", "number"),
        Column("95 % interval", "interval"),
    )
    return Table(panel.environment, columns, tuple(_cells(row, first) for row in panel.rows))


_WORDS = {"average_return": "return", "final_return": "final return", "final_success_rate": "final success"}


def _cells(row: Row, first: str) -> tuple[Any, ...]:
    probability, interval = row.probabilities.get(first, (None, None)) if row.name != first else (None, None)
    runs = f"{row.finished}, {row.failed} failed" if row.failed else str(row.finished)
    return row.name, runs, row.interquartile_mean, row.interval, row.final_success_rate, probability, interval


def settings_table(entries: Sequence[Entry], differing: Mapping[str, Sequence[Any]]) -> Table:
    """The settings that differ, a row for each."""
    columns = (Column("setting", "text"), *(Column(name, "text") for name in full_names(entries)))
    rows = tuple((name, *map(_value, values)) for name, values in differing.items())
    return Table("Settings that differ", columns, rows)


def full_names(entries: Sequence[Entry]) -> list[str]:
    """Names of entries outside of their panels: a study has a method once for each environment."""
    several = len({entry.environment for entry in entries}) > 1
    return [f"{entry.name} on {entry.environment}" if several else entry.name for entry in entries]


def _value(value: Any) -> str | None:
    if value is None:
        return None
    text = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def comparison_figure(panels: Sequence[Panel], over: Over) -> Figure:
    """Mean return with its interval against episodes, steps or seconds: a panel for each environment."""
    figure = new_figure((8.6, 4.2 * len(panels)))
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(len(panels), 1, place + 1)
        for index, (name, curve) in enumerate(panel.curves.items()):
            draw_curve(axes, name, curve, Look(COLOURS[index % len(COLOURS)], STYLES[index % len(STYLES)]), index)
        if panel.extent < panel.longest:
            axes.axvline(panel.extent, color=FAINT, linestyle="dotted", linewidth=1.2, zorder=1)
            # On the side that has more room.
            side, offset = ("right", -4) if panel.extent > panel.longest / 2 else ("left", 4)
            beside: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "xytext": (offset, 6), "ha": side}
            label = "compared up to here"
            axes.annotate(label, (panel.extent, 0), color=INK, fontsize=8.5, textcoords="offset points", **beside)
        dress(axes, panel.environment, "average return", AXES[over])
        legend_beside(axes, "mean over runs, 95 % interval")
    return figure
