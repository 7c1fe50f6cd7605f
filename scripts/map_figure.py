"""The map of methods as one picture: a field for each environment and method, the darker the sooner it learns."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from hindsight_rl.analysis.figures import FAINT, INK, new_figure

COLOURS = LinearSegmentedColormap.from_list("soon", ["#005A8C", "#8CC3E0", "#EDF5FA"])
GREY, ALONE = "#DDDDDD", "#E9EFE3"
SLOWEST = 100.0
"""Times as many episodes as the fastest method: the palest blue."""
USUAL_RUNS = 5
"""Fewer are said."""
NAMES = {
    "bit-flipping": "{} bits",
    "empty-room": "empty\nroom",
    "four-rooms": "four\nrooms",
    "fetch-push": "FetchPush\n8 actions",
    "ms-pacman": "Ms. Pac-man",
    "FetchReach-v4": "FetchReach",
    "PointMaze_UMaze-v3": "PointMaze\nU",
}
ABOUT = {
    "hppo": "hindsight PPO, the default",
    "ppo": "without hindsight",
    "hpg": "the paper's",
    "hpg+b": "with a baseline",
    "gcpg": "without hindsight",
    "dqn+her": "replayed goals",
    "dqn": "without hindsight",
}
TITLE = "After how many episodes is a method at 90 % of the best?  Fewer is better."
LEGEND = """\
In each field: episodes (median), their 95 % interval, seconds of training (with a star: of a clock, on a busy
machine) and how many runs, where fewer than five. Darkest blue: the fastest method of the column; paler: up to 100
times as many. Green: the only method that was run. Grey: not reached, with the best evaluation and after how many
episodes. Empty: not run. 90 % of the best return for bits and rooms; for robots and games success in 90 % of
episodes."""


def draw_map(
    known: Mapping[str, Mapping[str, Any]],
    rows: Mapping[str, Sequence[str]],
    amount: Callable[..., Any],
    short: Callable[[float], str],
) -> Figure:
    """Episodes to 90 % with their interval, and seconds; relative to the fastest method of each environment.

    A row has a name and its methods, of which an environment has one at most.
    """
    figure = new_figure((1.12 * len(known) + 2.3, 0.78 * len(rows) + 2.0))
    axes = figure.add_subplot()
    for column, found in enumerate(known.values()):
        episodes = {method: amount(place.counted, "episodes", 0.9) for method, place in found.items()}
        fastest = min((one.median for one in episodes.values() if one.reached * 2 > one.runs), default=math.inf)
        for row, methods in enumerate(rows.values()):
            for method in (each for each in methods if each in found):
                place, one = found[method], episodes[method]
                seconds = amount(place.timed, "seconds", 0.9)
                colour, lines = _field(place, one, seconds, fastest if len(found) > 1 else 0.0, short)
                _draw(axes, column, row, colour, lines)
    axes.set_xlim(-0.5, len(known) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks(range(len(known)), [_name(name) for name in known], color=INK, fontsize=11)
    axes.set_yticks(range(len(rows)), [""] * len(rows))
    for row, name in enumerate(rows):
        # Two lines, of which the second explains the first.
        first, _, second = f"{name}\n{ABOUT.get(name, '')}".strip().partition("\n")
        axes.text(-0.58, row - (0.08 if second else 0), first, ha="right", va="center", color=INK, fontsize=12)
        axes.text(-0.58, row + 0.26, second, ha="right", va="center", color=INK, fontsize=8.5)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(TITLE, loc="left", color=INK, fontsize=14, fontweight="bold", pad=14)
    axes.text(-0.5, len(rows) - 0.35, LEGEND, color=INK, fontsize=9.5, va="top", linespacing=1.35)
    return figure


def _name(environment: str) -> str:
    """An environment in few letters."""
    short = environment.rpartition(":")[2]
    family, _, size = short.rpartition("-")
    return NAMES[family].format(size) if family in NAMES else NAMES.get(short, short)


def _field(place: Any, one: Any, seconds: Any, fastest: float, short: Callable[[float], str]) -> tuple[Any, list[str]]:
    runs = [] if one.runs >= USUAL_RUNS else ["1 run" if one.runs == 1 else f"{one.runs} runs"]
    if one.reached * 2 <= one.runs:
        return GREY, [f"best {place.best_level:.0%}", f"in {place.extent:,.0f}", *runs]
    share = min(math.log(max(one.median / fastest, 1.0)) / math.log(SLOWEST), 1.0) if fastest else 1.0
    interval = "" if one.runs == 1 else f"{short(one.low)} to {short(one.high)}"
    star = "" if place.by_processor else "*"
    took = [f"{short(seconds.median)} s{star}"] if seconds.reached * 2 > seconds.runs else []
    return COLOURS(share) if fastest else ALONE, [f"{one.median:,.0f}", interval, ", ".join([*took, *runs])]


def _draw(axes: Any, column: int, row: int, colour: Any, lines: Sequence[str]) -> None:
    axes.add_patch(Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, facecolor=colour, edgecolor=FAINT, linewidth=0.5))
    ink = "white" if not isinstance(colour, str) and sum(colour[:3]) < 1.65 else INK
    unreached = colour == GREY
    for line, height in zip(lines, (-0.2, 0.1, 0.32), strict=False):
        size = 8.5 if unreached else 14 if height < 0 else 8
        weight = "bold" if height < 0 and not unreached else "normal"
        axes.text(column, row + height, line, ha="center", va="center", color=ink, fontsize=size, fontweight=weight)
