"""The picture of what a method reported while it learned: a small panel for each metric, a line for each run."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from hindsight_rl.analysis.figures import COLOURS, FAINT, INK, new_figure, plain_text
from hindsight_rl.records.evaluations import Evaluations
from hindsight_rl.records.runs import USUAL_METRICS

ACROSS = 4
"""Panels in a row."""
COUNTS = ("steps",)
"""Recorded for every method: how far a run is, not how it learns."""


def reported(evaluations: Evaluations) -> list[str]:
    """The metrics that the method itself reported."""
    names = [name for name in evaluations.metrics if name not in (*USUAL_METRICS, *COUNTS)]
    return [name for name in names if np.isfinite(evaluations.metrics[name]).any()]


def metric_panels(evaluations: Evaluations, title: str) -> Figure:
    """The success rate, then each metric that the method reported, against training batches."""
    names = ["success_rate", *reported(evaluations)]
    rows = -(-len(names) // ACROSS)
    figure = new_figure((11.5, 0.6 + 2.1 * rows))
    for place, name in enumerate(names):
        axes = figure.add_subplot(rows, ACROSS, place + 1)
        _draw(axes, evaluations, name)
        if place + ACROSS >= len(names):
            axes.set_xlabel("training batches", color=INK, fontsize=8.5)
    if 1 < len(evaluations.seeds) <= len(COLOURS):
        lines, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(lines, labels, loc="upper right", ncols=len(lines), frameon=False, fontsize=8.5, labelcolor=INK)
    figure.suptitle(plain_text(title), x=0.01, ha="left", color=INK, fontsize=12, fontweight="bold")
    return figure


def _draw(axes: Axes, evaluations: Evaluations, name: str) -> None:
    """One metric of all runs; a line that ends early is that of a run that failed."""
    values = evaluations.metrics[name]
    many = len(values) > len(COLOURS)
    for run, line in enumerate(values):
        known = np.isfinite(line)
        axes.plot(
            evaluations.batches[known],
            line[known],
            color=COLOURS[0] if many else COLOURS[run],
            alpha=max(0.15, 3 / len(values)) if many else 0.9,
            linewidth=1.4,
            marker="o" if known.sum() == 1 else None,  # a line through one point is invisible
            markersize=4,
            label=f"run {run}",
        )
    known = values[np.isfinite(values)]
    if _is_logarithmic(known):
        axes.set_yscale("log")
    elif known.size and known.min() >= 0:  # from zero on, so that a small change looks small
        axes.set_ylim(0, 1.08 * known.max() or 1)
    axes.set_title(plain_text(name.replace("_", " "), 30), loc="left", color=INK, fontsize=9.5)
    axes.set_xlim(0, max(1, int(evaluations.batches[-1])))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.grid(axis="y", color="#E4E4E4", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=2, labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)


def _is_logarithmic(known: Float[np.ndarray, " number"]) -> bool:
    """Whether numbers, all above zero, span so much that only the largest would be seen."""
    return bool(known.size and known.min() > 0 and known.max() > 100 * known.min())
