"""What each part of hindsight PPO is worth: its defaults beside the same with one choice changed.

Run it with `make results-ablations`, or `python scripts/results_ablations.py ENVIRONMENT ...`. It writes into
results/hppo/ablations, and goes on where it was stopped: what stands in ablations.csv there is not run again. Three
seeds each; none of them chose the defaults.
"""

import csv
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hindsight_rl.analysis.figures import figure_bytes, new_figure
from hindsight_rl.records.evaluations import read_evaluations

RUNS, RESULTS = Path("runs/ablations"), Path(__file__).parent.parent / "results" / "hppo" / "ablations"
TABLE = RESULTS / "ablations.csv"
SEEDS = "--runs 3 --seed 200"


class Place(NamedTuple):
    """Where the variants are tried."""

    arguments: str
    metric: str
    mark: float
    said: str


PLACES = {
    "bit-flipping-16": Place("--batches 18 --evaluate-every 1", "mean_return", 8.1, "a return of 8.1 of 9"),
    "four-rooms": Place("--batches 50 --evaluate-every 2", "mean_return", 16.0, "a return of 16 of at most 18.84"),
    "fetch-push": Place(
        "--batches 75 --evaluate-every 15 --evaluation-episodes 64", "success_rate", 0.8, "a success rate of 0.8"
    ),
}
DEFAULT = "as it is"
CHANGES = {
    DEFAULT: "",
    "goals: no earlier ones": "--achieved-share 0.5 --earlier-share 0",
    "goals: achieved ones only": "--achieved-share 0.5 --earlier-share 0.5 --own-share 0",
    "goals: from p(g) only": "--achieved-share 0 --earlier-share 0 --own-share 0.1",
    "goals: the pursued one (ppo)": "--method ppo",
    "critic of actions (Retrace)": "--critic actions",
    "truncation at 2": "--ratio-limit 2 --trace-limit 2",
    "truncation at 10": "--ratio-limit 10 --trace-limit 10",
    "earlier ratios, power 0.5": "--ratio-power 0.5",
    "earlier ratios, power 1": "--ratio-power 1",
    "lambda 1": "--trace 1",
    "lambda 0.5": "--trace 0.5",
    "no clip": "--clip 1e9",
    "clip halved": "--clip {half_clip}",
    "clip doubled": "--clip {double_clip}",
    "the newest batch only": "--kept-episodes 16",
    "256 episodes kept": "--kept-episodes 256",
    "half the gradient steps": "--gradient-steps {half_steps}",
    "twice the gradient steps": "--gradient-steps {double_steps}",
    "entropy 0": "--entropy 0",
    "entropy a third": "--entropy {third_entropy}",
    "entropy tripled": "--entropy {triple_entropy}",
    "policy's rate doubled": "--learning-rate {double_rate}",
    "no product of observation and goal": "--no-interactions",
    "inputs as they are": "--no-normalise",
    "no waves": "--waves 0",
}
USUAL = {
    "bit-flipping-16": {"clip": 0.1, "steps": 96, "entropy": 0.1, "rate": 2.5e-4},
    "four-rooms": {"clip": 0.1, "steps": 80, "entropy": 2.5 / 31, "rate": 2.5e-4},
    "fetch-push": {"clip": 0.2, "steps": 80, "entropy": 2.5 / 49, "rate": 2.5e-4},
}
WITHOUT_EFFECT = {
    "bit-flipping-16": {"no waves"},
    "four-rooms": set(),
    "fetch-push": {"no waves", "no product of observation and goal"},
}
"""Changes that change nothing there."""
FEW = (
    DEFAULT,
    "goals: no earlier ones",
    "goals: from p(g) only",
    "goals: the pursued one (ppo)",
    "critic of actions (Retrace)",
    "earlier ratios, power 1",
    "no clip",
    "the newest batch only",
    "half the gradient steps",
    "entropy 0",
)
"""On a simulator, which takes a hundred times as long."""


def arguments(environment: str, change: str) -> list[str]:
    """Of `hindsight train`."""
    usual = USUAL[environment]
    numbers = {
        "half_clip": usual["clip"] / 2,
        "double_clip": usual["clip"] * 2,
        "half_steps": int(usual["steps"] / 2),
        "double_steps": int(usual["steps"] * 2),
        "third_entropy": usual["entropy"] / 3,
        "triple_entropy": usual["entropy"] * 3,
        "double_rate": usual["rate"] * 2,
    }
    return f"{environment} {PLACES[environment].arguments} {SEEDS} {CHANGES[change]}".format(**numbers).split()


def changes(environment: str) -> list[str]:
    """Those that are tried there."""
    tried = FEW if environment == "fetch-push" else CHANGES
    return [change for change in tried if change not in WITHOUT_EFFECT[environment]]


def folder_of(environment: str, change: str) -> Path:
    """Of a variant's run."""
    return RUNS / environment / "".join(letter if letter.isalnum() else "-" for letter in change)


def kept_rows() -> dict[tuple[str, str], dict[str, object]]:
    """Those of variants that were run before, by environment and change."""
    if not TABLE.exists():
        return {}
    with TABLE.open(newline="") as file:
        return {(row["environment"], row["change"]): {**row, "ran": int(row["ran"])} for row in csv.DictReader(file)}


def row_of(environment: str, change: str) -> dict[str, object]:
    """Episodes of each seed to the mark, and the best evaluation of each."""
    table = folder_of(environment, change) / "evaluations.csv"
    found, place = read_evaluations(table), PLACES[environment]
    values = found.metrics[place.metric]
    there = [np.flatnonzero(run >= place.mark) for run in values]
    episodes = [int(found.episodes[hit[0]]) if len(hit) else None for hit in there]
    return {
        "environment": environment,
        "change": change,
        "episodes": " ".join("never" if one is None else str(one) for one in episodes),
        "best": " ".join(f"{run.max():.2f}" for run in values),
        "ran": int(found.episodes[-1]),
    }


def write(rows: list[dict[str, object]]) -> None:
    """The numbers, as a file and as a table."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["environment", "change", "episodes", "best", "ran"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    lines = []
    for environment, place in PLACES.items():
        own = [row for row in rows if row["environment"] == environment]
        if own:
            lines += [f"## {environment}: episodes to {place.said}", ""]
            lines += [
                "| changed | episodes of each seed | best evaluation of each | episodes run |",
                "|---|---|---|---:|",
            ]
            lines += [f"| {row['change']} | {row['episodes']} | {row['best']} | {row['ran']:,} |" for row in own]
            lines.append("")
    (RESULTS / "tables.md").write_text("\n".join(lines))


def draw(rows: list[dict[str, object]]) -> None:
    """A dot for each seed; where the mark was never reached it stands beyond the line at the right."""
    shown = [environment for environment in PLACES if any(row["environment"] == environment for row in rows)]
    names = [change for change in CHANGES if any(row["change"] == change for row in rows)]
    figure = new_figure((3.2 + 3.2 * len(shown), 1.0 + 0.27 * len(names)))
    for column, environment in enumerate(shown):
        axes = figure.add_subplot(1, len(shown), column + 1)
        own = {row["change"]: row for row in rows if row["environment"] == environment}
        usual = [float(word) for word in str(own[DEFAULT]["episodes"]).split() if word != "never"]
        end = max(int(str(row["ran"])) for row in own.values())
        if usual:
            axes.axvline(float(np.median(usual)), color="0.8", zorder=0)
        axes.axvline(1.03 * end, color="0.5", linestyle=":")
        for place, change in enumerate(names):
            words = str(own[change]["episodes"]).split() if change in own else []
            for number, word in enumerate(words):
                never = word == "never"
                across, height = (1.1 * end if never else float(word)), place + 0.18 * (number - 1)
                colour = "#b2182b" if never else "#2166ac"
                axes.plot(across, height, marker="x" if never else "o", color=colour, markersize=5, linestyle="")
        axes.set_title(f"{environment}:\nepisodes to {PLACES[environment].said}", fontsize=9)
        axes.set_xlim(0, 1.17 * end)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_yticks(range(len(names)), names if column == 0 else [""] * len(names), fontsize=8)
        axes.grid(axis="y", color="0.93")
        axes.text(1.1 * end, -0.7, "never", ha="center", fontsize=7, color="#b2182b")
    figure.tight_layout()
    (RESULTS / "ablations.png").write_bytes(figure_bytes(figure))


def main(environments: list[str]) -> None:
    """Run what is missing, and write what there is after each."""
    if unknown := sorted(set(environments) - PLACES.keys()):
        sys.exit(f"'{unknown[0]}' is none of {', '.join(PLACES)}.")
    rows = kept_rows()
    for environment in environments or PLACES:
        for change in changes(environment):
            if (environment, change) in rows:
                continue
            # A process each: what one compiled is not needed again.
            flags = ["--output", str(folder_of(environment, change)), "--resume"]
            program = [sys.executable, "-m", "hindsight_rl", "train"]
            subprocess.run([*program, *arguments(environment, change), *flags], check=True)
            rows[environment, change] = row_of(environment, change)
            found = [rows[place, one] for place in PLACES for one in changes(place) if (place, one) in rows]
            write(found)
            draw(found)


if __name__ == "__main__":
    main(sys.argv[1:])
