"""The picture of the gradient laboratory: squared errors of the estimators, and effective sample sizes by time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hindsight_rl.analysis.figures import COLOURS, FAINT, INK, STYLES, new_figure

SIZES_HEIGHT = 4.2
"""In inches; the bars beside may need more."""


@dataclass(frozen=True)
class ErrorBar:
    """One estimator's relative squared error, split in two."""

    label: str
    bias: float
    variance: float


def gradient_errors(bars: Sequence[ErrorBar], sizes: Mapping[str, Sequence[float]], title: str) -> Figure:
    """Squared error relative to the exact gradient's squared length, beside effective sample sizes by time step."""
    below = max(0.0, 0.27 * len(bars) + 1.5 - SIZES_HEIGHT)
    figure = new_figure((11.5, SIZES_HEIGHT + below))
    grid = figure.add_gridspec(2, 2, width_ratios=(3, 2), height_ratios=(SIZES_HEIGHT, max(below, 0.01)))
    _draw_errors(figure.add_subplot(grid[:, 0]), bars)
    _draw_sizes(figure.add_subplot(grid[0, 1]), sizes)
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=12, fontweight="bold")
    return figure


def _draw_errors(axes: Axes, bars: Sequence[ErrorBar]) -> None:
    positions = np.arange(len(bars))
    for offset, name, colour, values in (
        (-0.19, "variance", COLOURS[0], [bar.variance for bar in bars]),
        (0.19, "squared bias", COLOURS[1], [max(bar.bias, 0.0) for bar in bars]),
    ):
        axes.barh(positions + offset, values, height=0.36, color=colour, label=name, zorder=3)
    axes.set_yticks(positions, [bar.label for bar in bars], color=INK, fontsize=9)
    axes.set_xscale("log")
    axes.set_xlabel("relative to the squared length of the exact gradient", color=INK)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2)
    _dress(axes, "x")


def _draw_sizes(axes: Axes, sizes: Mapping[str, Sequence[float]]) -> None:
    for index, (name, values) in enumerate(sizes.items()):
        style, colour = STYLES[index % len(STYLES)], COLOURS[index % len(COLOURS)]
        axes.plot(np.arange(1, len(values) + 1), values, color=colour, linestyle=style, linewidth=1.9, label=name)
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("time step", color=INK)
    axes.set_ylabel("effective share of the episodes", color=INK)
    axes.legend(frameon=False, fontsize=9)
    _dress(axes, "y")


def _dress(axes: Axes, grid: str) -> None:
    axes.grid(axis=grid, color="#E4E4E4", linewidth=0.8)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
