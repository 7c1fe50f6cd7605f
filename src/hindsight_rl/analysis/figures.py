"""Figures of learning curves, drawn without a display and without global state."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from hindsight_rl.analysis.statistics import Curve

Format = Literal["png", "svg", "pdf"]

# Okabe and Ito's colours, which stay apart for colour-blind readers; without their yellow, too faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Five styles beside seven colours, so that thirty-five curves differ in one or the other; dots are for the optimum.
STYLES: tuple[Any, ...] = ("solid", (0, (6, 2)), (0, (6, 2, 1.5, 2)), (0, (3, 1.5)), (0, (9, 2, 1.5, 2, 1.5, 2)))
INK = "#333333"
FAINT = "#8A8A8A"
LONGEST_NAME = 28
"""Letters of a name beside the axes."""


@dataclass(frozen=True)
class Look:
    """How everything of one name is drawn, so that it is known again in another figure."""

    colour: str
    style: Any
    marker: str = ""


def learning_curves(
    curves: Mapping[str, Curve],
    title: str,
    best_return: float | None,
    looks: Mapping[str, Look] | None = None,
    quantity: str = "average return",
) -> Figure:
    """A quantity against training batches, with each curve's 95 % interval shaded.

    Without `looks`, curves take colours and line styles in their order.
    """
    figure = new_figure((8.6, 4.2))
    axes = figure.add_subplot()
    for index, (name, curve) in enumerate(curves.items()):
        look = looks[name] if looks else Look(COLOURS[index % len(COLOURS)], STYLES[index % len(STYLES)])
        draw_curve(axes, name, curve, look, index)
    if best_return is not None:
        axes.axhline(best_return, color=FAINT, linestyle="dotted", linewidth=1.6, label="best possible", zorder=1)
    dress(axes, title, quantity)
    legend_beside(axes, "mean over runs, 95 % interval")
    return figure


def new_figure(inches: tuple[float, float]) -> Figure:
    """An empty figure that needs no display."""
    figure = Figure(figsize=inches, facecolor="white", layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12))
    FigureCanvasAgg(figure)
    return figure


def figure_bytes(figure: Figure, format: Format = "png") -> bytes:
    """The figure as the content of a file; the same figure always gives the same bytes."""
    dated = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None, "Producer": None}}
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "hindsight"}):
        figure.savefig(buffer, format=format, dpi=160, metadata=dated[format])
    return buffer.getvalue()


def plain_text(text: str, longest: int = 80) -> str:
    """Text with room for the picture beside it, in which dollar signs are dollar signs, not the ends of a formula."""
    short = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return short.replace("$", r"\$")


def draw_curve(axes: Axes, name: str, curve: Curve, look: Look, index: int) -> None:
    """One curve with its interval; `index` keeps its markers apart from those of other curves."""
    axes.fill_between(curve.batches, curve.low, curve.high, color=look.colour, alpha=0.16, linewidth=0, zorder=2)
    points = len(curve.batches)
    between = max(1, points // 8)  # a few markers on each curve, and not where the other curves have theirs
    axes.plot(
        curve.batches,
        curve.mean,
        color=look.colour,
        linestyle=look.style,
        linewidth=1.9,
        marker=look.marker or ("o" if points == 1 else None),  # a line through one point is invisible
        markevery=(2 * index % between, between),
        markersize=5.5,
        label=f"{plain_text(name, LONGEST_NAME)} ({_count(curve.runs)})",
        zorder=3,
    )


def _count(runs: int) -> str:
    if runs == 0:
        return "no run finished"
    return "1 run" if runs == 1 else f"{runs} runs"


def dress(axes: Axes, title: str, quantity: str, over: str = "training batches") -> None:
    """Title, axes and grid of a quantity against how far training is."""
    axes.set_title(plain_text(title), loc="left", color=INK, fontsize=12, fontweight="bold", pad=10)
    axes.set_xlabel(over, color=INK)
    axes.set_ylabel(plain_text(quantity, LONGEST_NAME), color=INK)
    axes.margins(x=0)
    if axes.get_xlim()[0] > 0:  # a curve that begins later must not look as if it began with the others
        axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.grid(axis="y", color="#E4E4E4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)


def legend_beside(axes: Axes, title: str) -> None:
    """A legend to the right of the axes, where there is something to explain."""
    if not axes.get_legend_handles_labels()[1]:
        return
    # Beside the axes: within them, some set of curves would always run underneath it.
    legend = axes.legend(
        loc="upper left",
        bbox_to_anchor=(1.02, 1.0),
        borderaxespad=0,
        frameon=False,
        labelcolor=INK,
        handlelength=3.2,
        labelspacing=0.6,
        fontsize=9.5,
        title=title,
        title_fontsize=8.5,
        alignment="left",
    )
    legend.get_title().set_color(FAINT)


def legend_entries(figure: Figure) -> list[tuple[str, str, str]]:
    """Name, colour and dashes (as SVG says them) of each line that a legend beside the axes explains.

    On a narrow screen such a legend lies outside of it, so that a page says the same in its own words.
    """
    found: dict[str, tuple[str, str, str]] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True) if axes.get_legend() else ():
            line = handle if isinstance(handle, Line2D) else next(iter(getattr(handle, "lines", ())), None)
            if isinstance(line, Line2D) and line.get_linestyle() != "None":
                name = label.replace(r"\$", "$")
                found.setdefault(name, (name, to_hex(line.get_color()), _dashes(line)))
    return list(found.values())


def _dashes(line: Line2D) -> str:
    # Matplotlib can be told dashes but not asked for them; without an answer the line is solid, as most are.
    _, pattern = getattr(line, "_dash_pattern", (0, None))
    return " ".join(f"{length:.1f}" for length in pattern or ()) or "none"
