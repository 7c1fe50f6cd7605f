"""Tables and a figure of what `benchmarks/replay.py` measured."""

import csv
import io
import math
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from matplotlib.ticker import NullFormatter, StrMethodFormatter
from replay_contestants import ARENAS, CONTESTANTS, REPLAY_RATE, Arena

from hindsight_rl.analysis.figures import COLOURS, FAINT, INK, STYLES, figure_bytes, legend_beside, new_figure
from hindsight_rl.records.files import write_atomically

WORKS = ("learning", "network alone", "training")

THE_SAME = f"""\
The same for both: the environment; two hidden layers of 256 rectified linear units; Adam with learning rate
{REPLAY_RATE:g}; 16 episodes, then one gradient step for every action that 16 episodes of full length have; the size of
the minibatch; the target network, which is the network at the start of the cycle; discount 0.98; a constant epsilon of
0.2; relabelling `future` with four goals; float32; the same cores, in turns, in the same run.

Not the same: SB3 shows its network observation, achieved goal and desired goal, ours observation, desired goal and
time. SB3 has the Huber loss and clips gradients at norm 10, ours has the squared error. SB3 draws goals anew for each
minibatch, ours when an episode enters the buffer. In SB3 an episode goes on after a relabelled goal is reached, and
values count beyond the horizon; in ours it ends there. SB3 plays one episode at a time in Python, ours 16 at once,
compiled. SB3 gets its relabelled rewards from NumPy, faster than our Gymnasium environment itself gives them, and the
number of threads with which it learns fastest.

`step by step` is SB3 with a gradient step after every action, and a new target network every 500 actions. `as mostly
used` does the same with its own small minibatches and the rewards for which its buffer was written: -1 for every action
that misses the goal, 0 for the one that reaches it. `price on steps` is ours with 1 taken off every reward. Returns are
those of the environment all the same. `network alone` is SB3 with minibatches drawn beforehand, so without its buffer,
beside our whole learning. `training` includes playing the episodes.
"""


def write_report(folder: Path, speeds: dict[tuple[str, int], Any], curves: dict[str, Any], load: float) -> str:
    """Write bench.md, bench.csv and bench.png, and return the text."""
    lines = ["# Replay beside stable-baselines3", "", "Made by `make bench-replay`.", ""]
    lines += [
        f"The largest load average before a measurement was {load:.1f}: above 1 or so, other work was running.",
        "",
    ]
    lines += ["## Gradient steps per second", "", *speed_table(speeds), "", THE_SAME]
    for arena in ARENAS:
        lines += [f"## {arena.name}: how soon", "", *learning_table(arena, curves[arena.name]), ""]
    lines += [
        "Medians over seeds of the first evaluation (256 greedy episodes, clock stopped) at or above the mark; in",
        "brackets how many seeds reached it. Training ends at 90 % of the best possible return. Seconds are without",
        "compilation, which is stated; in small print, SB3's seconds without those inside the environment itself.",
        "",
        "![Return over episodes and seconds](bench.png)",
    ]
    text = "\n".join(lines) + "\n"
    write_atomically(folder / "bench.md", text.encode())
    write_atomically(folder / "bench.csv", points_table(curves).encode())
    write_atomically(folder / "bench.png", draw(curves))
    return text


def speed_table(speeds: dict[tuple[str, int], Any]) -> list[str]:
    """Rates and ratios."""
    lines = [
        "| environment | minibatch | work | SB3 | ours | ratio | SB3's threads |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for (name, minibatch), found in speeds.items():
        rates = found["rates"]
        for work in WORKS:
            theirs, ours = rates[f"SB3 {work}"], rates["ours training" if work == "training" else "ours learning"]
            # Round by round: both numbers of a ratio were measured within seconds of one another.
            ratios = [own / other for own, other in zip(ours, theirs, strict=True)]
            lines.append(
                f"| {name} | {minibatch} | {work} | {median(theirs):.0f} | {median(ours):.0f} | "
                f"{median(ratios):.1f} ({min(ratios):.1f}-{max(ratios):.1f}) | {found['threads']} |"
            )
    return lines


def learning_table(arena: Arena, curves: dict[str, list[Any]]) -> list[str]:
    """Episodes and seconds to each mark, for each contestant."""
    marks = [*arena.marks, 0.9 * arena.best]
    heads = [f"return {mark:.3g}" for mark in marks[:-1]] + [f"90 % of the best ({marks[-1]:.3g} of {arena.best:.4g})"]
    lines = [f"| method | {' | '.join(heads)} | last | compilation |", "|---|" + "---|" * len(heads) + "---:|---:|"]
    for name, runs in curves.items():
        cells = [until(runs, mark) for mark in marks]
        last = median(run["points"][-1][2] for run in runs)
        compilation = max(run["compilation"] for run in runs)
        compiled = f"{compilation:.0f} s" if compilation else "none"
        lines.append(f"| {name} | {' | '.join(cells)} | {last:.1f} | {compiled} |")
    return lines


def until(runs: list[Any], mark: float) -> str:
    """When a mark was reached, in words."""
    reached = [next((point for point in run["points"] if point[2] >= mark), None) for run in runs]
    count = sum(point is not None for point in reached)
    if 2 * count <= len(runs):
        episodes, seconds = (median(run["points"][-1][part] for run in runs) for part in (0, 1))
        return f"not reached in {episodes:,.0f} episodes, {seconds:.0f} s ({count} of {len(runs)})"
    episodes, seconds = (median(point[part] if point else math.inf for point in reached) for part in (0, 1))
    inside = median(run["seconds_in_environment"] / max(run["points"][-1][1], 1e-9) for run in runs)
    aside = f"; <small>{seconds * (1 - inside):.1f} s</small>" if inside else ""
    return f"{episodes:,.0f} episodes, {seconds:.1f} s{aside} ({count} of {len(runs)})"


def points_table(curves: dict[str, Any]) -> str:
    """Every evaluation, as comma-separated values."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["environment", "method", "seed", "episodes", "seconds", "mean_return", "success_rate"])
    for environment, methods in curves.items():
        for method, runs in methods.items():
            for seed, run in enumerate(runs):
                for episodes, *rest in run["points"]:
                    writer.writerow([environment, method, seed, episodes, *(f"{number:.4g}" for number in rest)])
    return text.getvalue()


def draw(curves: dict[str, Any]) -> bytes:
    """Return over episodes and over seconds, one thin line for each seed."""
    figure = new_figure((13, 8))
    grid = figure.subplots(len(ARENAS), 2)
    names = [contestant.name for contestant in CONTESTANTS]
    for row, arena in zip(grid, ARENAS, strict=True):
        for axes, part, label in zip(row, (0, 1), ("episodes", "seconds of training"), strict=True):
            for number, name in enumerate(names):
                for seed, run in enumerate(curves[arena.name][name]):
                    points = np.array(run["points"])
                    axes.plot(
                        np.maximum(points[1:, part], 1e-3),
                        points[1:, 2],
                        color=COLOURS[number % len(COLOURS)],
                        # Ours are solid, and the others dashed.
                        linestyle=STYLES[0] if CONTESTANTS[number].method else STYLES[3],
                        linewidth=1.4,
                        label=name if seed == 0 else None,
                    )
            axes.axhline(0.9 * arena.best, color=FAINT, linestyle="dotted", linewidth=1.4)
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_xlabel(label, color=INK)
            axes.set_ylabel("average return", color=INK)
            axes.set_title(arena.name, loc="left", color=INK, fontsize=11)
            axes.spines[["top", "right"]].set_visible(False)
    legend_beside(grid[0, 1], "one line for each seed; dotted: 90 % of the best")
    return figure_bytes(figure)
