"""Figures of a study, in which a method keeps its colour, line style and marker. They draw what they are given."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from hindsight_rl.analysis.figures import (
    COLOURS,
    FAINT,
    INK,
    LONGEST_NAME,
    STYLES,
    Look,
    legend_beside,
    new_figure,
    plain_text,
)
from hindsight_rl.analysis.study.sensitivity import SensitivityRow
from hindsight_rl.analysis.study.summaries import ComparisonRow, PerformanceRow
from hindsight_rl.analysis.study.verdicts import is_settled
from hindsight_rl.analysis.words import counted

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LONG_STYLES = ((0, (12, 3)), (0, (12, 2, 3, 2)), (0, (12, 2, 6, 2)), (0, (3, 1.5, 3, 1.5, 1, 1.5)))
# Chosen to be as far as possible from the other seven, with the three common kinds of colour blindness too.
_VIOLET, _BROWN = "#4B0092", "#7A4419"
LOOKS: Mapping[str, Look] = {
    "hpg": Look(COLOURS[0], STYLES[0], "o"),
    "gcpg": Look(COLOURS[1], STYLES[1], "s"),
    "hpg+b": Look(COLOURS[5], STYLES[2], "^"),
    "gcpg+b": Look(COLOURS[4], STYLES[3], "D"),
    "hpg-no-ratios": Look(COLOURS[3], STYLES[4], "v"),
    "dqn": Look(COLOURS[2], _LONG_STYLES[0], "P"),
    "dqn+her": Look(COLOURS[6], _LONG_STYLES[1], "X"),
    "hppo": Look(_VIOLET, _LONG_STYLES[2], "p"),
    "ppo": Look(_BROWN, _LONG_STYLES[3], "<"),
}
"""The methods that are always drawn in the same way, in this report and in the next."""
_CROSS: Mapping[str, Any] = {"linestyle": "none", "marker": "x", "markersize": 9, "markeredgewidth": 1.4, "zorder": 5}
_GRID = "#E4E4E4"
_ROW = 0.34
"""Height of a row of dots, in inches."""


def method_looks(methods: Iterable[str]) -> dict[str, Look]:
    """A look for each method: its own where it has one, otherwise the next that none of the others has."""
    looks: dict[str, Look] = {}
    free = 0
    for method in methods:
        if method in looks:
            continue
        looks[method] = LOOKS[method] if method in LOOKS else _spare_look(free)
        free += method not in LOOKS
    return looks


def _spare_look(number: int) -> Look:
    """The look of a method without one of its own: thirty such differ in line style or marker, from `LOOKS` too."""
    # Five styles and seven markers have no common divisor, so that counting on in both meets each pair once.
    place = number + len(STYLES)
    return Look(COLOURS[(place + 4) % len(COLOURS)], STYLES[place % len(STYLES)], MARKERS[place % len(MARKERS)])


def sensitivity(settings: Mapping[str, Sequence[SensitivityRow]], title: str, looks: Mapping[str, Look]) -> Figure:
    """Average performance of each method's settings, from its best to its worst, with one standard deviation shaded."""
    figure = new_figure((8.6, 4.2))
    axes = figure.add_subplot()
    for index, (method, rows) in enumerate(settings.items()):
        _draw_settings(axes, method, rows, looks[method], failures_height=0.03 + 0.045 * index)
    _title(axes, title)
    axes.set_xlabel("settings of a method, from its best to its worst", color=INK)
    axes.set_ylabel("average performance", color=INK)
    axes.set_xlim(-0.03, 1.03)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    _dress(axes, "y")
    _explain_markers(axes, [row for rows in settings.values() for row in rows])
    legend_beside(axes, "mean and standard deviation")
    return figure


def _draw_settings(axes: Axes, method: str, rows: Sequence[SensitivityRow], look: Look, failures_height: float) -> None:
    # Along shares rather than numbers: methods with a baseline have many more settings than the others.
    shares = np.linspace(0, 1, len(rows)) if len(rows) > 1 else np.zeros(len(rows))
    means, stds = (np.array([getattr(row, name) for row in rows], dtype=float) for name in ("mean", "std"))
    axes.fill_between(shares, means - stds, means + stds, color=look.colour, alpha=0.16, linewidth=0, zorder=2)
    style = {"color": look.colour, "linestyle": look.style, "marker": look.marker}
    label = f"{plain_text(method, LONGEST_NAME)} ({counted(len(rows), 'setting')})"
    axes.plot(shares, means, **style, label=label, linewidth=1.7, markersize=5.5, zorder=3)
    last = max((row.rung for row in rows), default=0)
    for share, row in zip(shares, rows, strict=True):
        if row.rung < last and row.mean is not None:
            axes.plot(
                share, row.mean, look.marker, color=look.colour, markerfacecolor="white", markersize=5.5, zorder=4
            )
        if row.failed and row.mean is not None:
            axes.plot(share, row.mean, **_CROSS, color=INK)
        elif row.failed:  # no performance to put it at
            axes.plot(share, failures_height, transform=axes.get_xaxis_transform(), **_CROSS, color=look.colour)


def _explain_markers(axes: Axes, rows: Sequence[SensitivityRow]) -> None:
    if len({row.rung for row in rows}) > 1:
        axes.plot(
            [], [], "o", color=FAINT, markerfacecolor="white", label="hollow: dropped at an\nearlier rung of the search"
        )
    if any(row.failed for row in rows):
        axes.plot([], [], **_CROSS, color=INK, label="a run of the setting failed")


def likelihood_ratios(counts: Int[np.ndarray, "time bin"], title: str, look: Look) -> Figure:
    """A histogram for each time step, lying on its side; the longest bar of each is equally long.

    Without that, the few steps with many active ratios would leave nothing to see of the others.
    """
    steps, bins = counts.shape
    figure = new_figure((max(5.2, min(11.0, 1.4 + 0.42 * steps)), 4.0))
    axes = figure.add_subplot()
    centres = (np.arange(bins) + 0.5) / bins
    for step, row in enumerate(counts, start=1):
        axes.axvline(step, color=_GRID, linewidth=0.8, zorder=1)
        if not row.any():
            axes.plot(step + 0.42, 0.5, marker="x", color=FAINT, markersize=5, zorder=2)
            continue
        lengths = 0.84 * row / row.max()
        axes.barh(centres, lengths, height=1 / bins, left=step, color=look.colour, linewidth=0, zorder=2)
    _title(axes, title)
    axes.set_xlim(0.8, steps + 1.05)
    axes.set_ylim(0, 1)
    axes.set_xlabel("time step" if counts.any(axis=1).all() else "time step (x: no active ratio)", color=INK)
    axes.set_ylabel("active normalised ratio", color=INK)
    shown = range(1, steps + 1, 1 if steps <= 16 else 2)
    axes.set_xticks([step + 0.42 for step in shown], [str(step) for step in shown])
    _dress(axes, None)
    axes.tick_params(axis="x", length=0)
    return figure


def probabilities_of_improvement(rows: Sequence[ComparisonRow], title: str) -> Figure:
    """A dot and a 95 % interval for each pair; right of the middle line the method on the left is the better one."""
    figure = new_figure((8.6, 1.45 + _ROW * max(len(rows), 1)))
    axes = figure.add_subplot()
    axes.axvline(0.5, color=FAINT, linestyle="dotted", linewidth=1.6, zorder=1)
    for position, row in enumerate(rows):
        if row.probability is None or row.low is None or row.high is None:
            axes.text(0.5, position, "no finished runs", ha="center", va="center", color=FAINT, backgroundcolor="white")
            continue
        axes.plot([row.low, row.high], [position, position], color=COLOURS[0], linewidth=2.2, zorder=2)
        fill = COLOURS[0] if is_settled(row) else "white"
        axes.plot(row.probability, position, "o", color=COLOURS[0], markerfacecolor=fill, markersize=7, zorder=3)
    _dress(axes, "x")
    _title(axes, title)
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(max(len(rows), 1) - 0.4, -0.6)
    axes.set_xlabel("probability that a run of the first beats one of the second", color=INK)
    axes.set_yticks(range(len(rows)), [_pair_name(row) for row in rows], fontsize=9.5)
    axes.tick_params(axis="y", length=0)
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(rows)), [_pair_runs(row) for row in rows], fontsize=8.5)
    right.tick_params(length=0, colors=FAINT)
    right.spines["right"].set_visible(False)
    return figure


def ours_and_paper(rows: Sequence[PerformanceRow], title: str) -> Figure:
    """Mean and standard deviation here and in the paper: a panel for each environment, a line for each cell."""
    panels: dict[str, list[PerformanceRow]] = {}
    for row in rows:
        if row.paper_mean is not None:
            panels.setdefault(row.cell.environment, []).append(row)
    columns = 1 if len(panels) < 2 else 2
    pairs = [list(panels)[start : start + columns] for start in range(0, len(panels), columns)]
    heights = [0.95 + _ROW * max(len(panels[name]) for name in names) for names in pairs]
    figure = new_figure((5.6 * columns, 1.2 + sum(heights)))
    figure.suptitle(plain_text(title), x=0.01, ha="left", color=INK, fontsize=12, fontweight="bold")
    if not panels:
        return figure
    grid = figure.add_gridspec(len(pairs), columns, height_ratios=heights)
    for number, (environment, cells) in enumerate(panels.items()):
        axes = figure.add_subplot(grid[divmod(number, columns)])
        _draw_panel(axes, environment, cells)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=2, frameon=False, labelcolor=INK, fontsize=9.5)
    return figure


def _draw_panel(axes: Axes, environment: str, rows: Sequence[PerformanceRow]) -> None:
    positions = np.arange(len(rows))
    sources = (
        ("here: mean and standard deviation over runs", "mean", "std", -0.13, COLOURS[0], COLOURS[0], "o"),
        ("the paper's", "paper_mean", "paper_std", 0.13, INK, "white", "D"),
    )
    for label, mean, std, offset, colour, fill, marker in sources:
        means, stds = (np.array([getattr(row, name) for row in rows], dtype=float) for name in (mean, std))
        axes.errorbar(
            *(means, positions + offset),
            xerr=stds,
            fmt=marker,
            color=colour,
            markerfacecolor=fill,
            markersize=5.5,
            elinewidth=1.5,
            label=label,
            zorder=3,
        )
    _dress(axes, "x")
    axes.set_title(plain_text(environment, 2 * LONGEST_NAME), loc="left", color=INK, fontsize=10.5, pad=6)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    labels = [f"{plain_text(row.cell.method, LONGEST_NAME)}, batch size {row.cell.batch_size}" for row in rows]
    axes.set_yticks(positions, labels, fontsize=9)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6))


def _pair_name(row: ComparisonRow) -> str:
    return " over ".join(plain_text(method, LONGEST_NAME) for method in (row.first, row.second))


def _pair_runs(row: ComparisonRow) -> str:
    return f"{row.first_runs} and {counted(row.second_runs, 'run')}"


def _title(axes: Axes, title: str) -> None:
    axes.set_title(plain_text(title), loc="left", color=INK, fontsize=12, fontweight="bold", pad=10)


def _dress(axes: Axes, grid: str | None) -> None:
    if grid is not None:
        axes.grid(axis=grid, color=_GRID, linewidth=0.8)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
