"""The map of methods as one picture: a field for each environment and method, the darker the sooner it learns."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from hindsight_rl.analysis.figures import FAINT, INK, new_figure

COLOURS = LinearSegmentedColormap.from_list("soon", ["#005A8C", "#8CC3E0", "#EDF5FA"])
SLOWEST = 100.0
"""Times as many episodes as the fastest method: the palest blue."""


def draw_map(
    known: Mapping[str, Mapping[str, Any]],
    methods: Sequence[str],
    amount: Callable[..., Any],
    short: Callable[[float], str],
) -> Figure:
    """Episodes to 90 % with their interval, and seconds; relative to the fastest method of each environment."""
    figure = new_figure((1.75 * len(known) + 2.2, 0.78 * len(methods) + 1.7))
    axes = figure.add_subplot()
    for column, found in enumerate(known.values()):
        episodes = {method: amount(place.counted, "episodes", 0.9) for method, place in found.items()}
        fastest = min((one.median for one in episodes.values() if one.reached * 2 > one.runs), default=math.inf)
        for row, method in enumerate(methods):
            colour, lines = "white", ["not run"]
            if method in found:
                place, one = found[method], episodes[method]
                seconds = amount(place.timed, "seconds", 0.9)
                colour, lines = _field(place, one, seconds, fastest if len(found) > 1 else 0.0, short)
            _draw(axes, column, row, colour, lines)
    axes.set_xlim(-0.5, len(known) - 0.5)
    axes.set_ylim(len(methods) - 0.5, -0.5)
    axes.set_xticks(range(len(known)), [name.rpartition(":")[2] for name in known], color=INK, fontsize=10)
    axes.set_yticks(range(len(methods)), list(methods), color=INK, fontsize=11)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(
        "Episodes to 90 % of the best return (robots, games: success in 90 %): median, 95 % interval, seconds, runs",
        loc="left",
        color=INK,
        fontsize=11.5,
        fontweight="bold",
        pad=12,
    )
    axes.set_xlabel(
        "Blue: the fastest method that was run there; paler: up to 100 times as many episodes. Grey: not reached, with "
        "the best evaluation.\nPale where one method alone was run; white: not run. Seconds of the processor; with a "
        "star, of the clock.",
        color=INK,
        fontsize=9.5,
    )
    return figure


def _field(place: Any, one: Any, seconds: Any, fastest: float, short: Callable[[float], str]) -> tuple[Any, list[str]]:
    runs = "1 run" if one.runs == 1 else f"{one.runs} runs"
    if one.reached * 2 <= one.runs:
        return "#DDDDDD", ["not reached", f"best {place.best_level:.0%} in {place.extent:,.0f}", runs]
    share = min(math.log(max(one.median / fastest, 1.0)) / math.log(SLOWEST), 1.0) if fastest else 1.0
    interval = "" if one.runs == 1 else f"{short(one.low)} to {short(one.high)}"
    star = "" if place.by_processor else "*"
    took = f"{short(seconds.median)} s{star}, {runs}" if seconds.reached * 2 > seconds.runs else runs
    return COLOURS(share), [f"{one.median:,.0f}", interval, took]


def _draw(axes: Any, column: int, row: int, colour: Any, lines: Sequence[str]) -> None:
    axes.add_patch(Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, facecolor=colour, edgecolor=FAINT, linewidth=0.5))
    dark = not isinstance(colour, str) and sum(colour[:3]) < 1.65
    ink = "white" if dark else INK if len(lines) > 1 else FAINT
    if len(lines) == 1:
        axes.text(column, row, lines[0], ha="center", va="center", color=ink, fontsize=8.5)
        return
    axes.text(column, row - 0.2, lines[0], ha="center", va="center", color=ink, fontsize=11, fontweight="bold")
    axes.text(column, row + 0.1, lines[1], ha="center", va="center", color=ink, fontsize=7.8)
    axes.text(column, row + 0.32, lines[2], ha="center", va="center", color=ink, fontsize=7.8)
