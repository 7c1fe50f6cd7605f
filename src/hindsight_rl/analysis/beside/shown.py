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
    words = measure.replace("_", " ")
    last = (Column("final return", "number"), Column("final success", "number"))
    columns = (
        Column("runs of", "text"),
        Column("finished", "count"),
        Column("failed", "count"),
        Column(words, "number"),
        Column("std", "number"),
        Column("interquartile mean", "number"),
        Column("interval (95 %)", "interval"),
        *last,
        Column(f"beats {first}", "number"),
        Column("interval of that (95 %)", "interval"),
    )
    return Table(panel.environment, columns, tuple(_cells(row, first) for row in panel.rows))


def _cells(row: Row, first: str) -> tuple[Any, ...]:
    probability, interval = row.probabilities.get(first, (None, None))
    spread = (row.mean, row.std, row.interquartile_mean, row.interval)
    return (
        row.name,
        row.finished,
        row.failed,
        *spread,
        row.final_return,
        row.final_success_rate,
        probability,
        interval,
    )


def settings_table(entries: Sequence[Entry], differing: Mapping[str, Sequence[Any]]) -> Table:
    """The settings that differ, a row for each."""
    columns = (Column("setting", "text"), *(Column(entry.name, "text") for entry in entries))
    rows = tuple((name, *map(_value, values)) for name, values in differing.items())
    return Table("Settings that differ", columns, rows)


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
            label = "compared up to here"
            beside: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "xytext": (-4, 6)}
            axes.annotate(
                label, (panel.extent, 0), color=INK, ha="right", fontsize=8.5, textcoords="offset points", **beside
            )
        dress(axes, panel.environment, "average return", AXES[over])
        legend_beside(axes, "mean over runs, 95 % interval")
    return figure
