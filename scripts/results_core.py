"""The core results: HPG and GCPG at the best of the paper's learning rates, beside the paper's own numbers.

Run it with `make results-core`. It keeps each finished piece in results/core, and goes on where it was stopped.
Search: every rate of the paper with 2 runs over a quarter of the batches, then the best 3 with 3 runs over all of them,
scored as in the paper by mean minus standard deviation of the average performance. Definitive: 10 runs, fresh seeds.
"""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hindsight.analysis.figures import figure_bytes, learning_curves
from hindsight.analysis.statistics import learning_curve
from hindsight.environments.registry import make
from hindsight.experiments.paper import default_settings, paper_result, tables
from hindsight.records.evaluations import Evaluations
from hindsight.records.files import write_atomically
from hindsight.training.loop import training
from hindsight.training.settings import Settings
from hindsight.training.state import Runs

FOLDER = Path(__file__).parent.parent / "results" / "core"
CELLS = [
    ("empty-room", 16),
    ("bit-flipping-8", 2),
    ("empty-room", 2),
    ("bit-flipping-8", 16),
    ("four-rooms", 16),
    ("bit-flipping-16", 16),
    ("four-rooms", 2),
]
METHODS = ("hpg", "gcpg")
FIRST_RUNS, FIRST_SHARE = 2, 4
SECOND_RUNS, SURVIVORS = 3, 3
DEFINITIVE_RUNS = 10


@dataclass(frozen=True)
class Cell:
    """An environment, a batch size and a method."""

    environment: str
    batch_size: int
    method: str

    @property
    def name(self) -> str:
        """A name for files."""
        return f"{self.environment}-batch{self.batch_size}-{self.method}"

    def settings(self) -> Settings:
        """The paper's settings for definitive runs."""
        return default_settings(self.environment, {"method": self.method, "batch_size": self.batch_size})


def main() -> None:
    """Work off all cells, then write tables and figures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for environment, batch_size in CELLS:
        for method in METHODS:
            cell = Cell(environment, batch_size, method)
            rate = search(cell)
            definitive(cell, rate)
        draw(environment, batch_size)
    write_table()


def search(cell: Cell) -> float:
    """The best learning rate."""
    settings = cell.settings()
    rates = tables()["learning_rates"]["R1"]
    short = settings.batches // FIRST_SHARE // settings.evaluate_every * settings.evaluate_every
    first = piece(f"{cell.name}-search1", cell, rates, range(1000, 1000 + FIRST_RUNS), short)
    survivors = sorted(sorted(rates, key=lambda rate: -score(first, rate))[:SURVIVORS])
    second = piece(f"{cell.name}-search2", cell, survivors, range(2000, 2000 + SECOND_RUNS), settings.batches)
    return max(survivors, key=lambda rate: score(second, rate))


def definitive(cell: Cell, rate: float) -> Evaluations:
    """The definitive runs."""
    return piece(f"{cell.name}-definitive", cell, [rate], range(DEFINITIVE_RUNS), cell.settings().batches)


def score(evaluations: Evaluations, rate: float) -> float:
    """Mean minus standard deviation of the average performance of a rate's runs; a failed run counts as nothing."""
    mine = evaluations.average_performance[evaluations.learning_rates == rate]
    mine = np.nan_to_num(mine)
    return float(mine.mean() - mine.std())


def piece(name: str, cell: Cell, rates: list[float], seeds: range, batches: int) -> Evaluations:
    """Train runs for all rates and seeds, unless that was done before."""
    path = FOLDER / "evaluations" / f"{name}.csv"
    if path.exists():
        return Evaluations.from_csv(path.read_text())
    grid = [(seed, rate) for rate in rates for seed in seeds]
    chosen = np.array([rate for _, rate in grid])
    runs = Runs(np.array([seed for seed, _ in grid], dtype=np.uint32), chosen, chosen)
    settings = Settings(**{**cell.settings().__dict__, "batches": batches, "runs": len(grid)})
    began = time.monotonic()
    print(f"{name}: {len(grid)} runs of {batches} batches", file=sys.stderr, flush=True)
    *_, snapshot = training(make(cell.environment), settings, runs)
    seconds = time.monotonic() - began
    performance = snapshot.evaluations.average_performance
    print(f"  {np.round(performance, 2)} in {seconds:.0f} s", file=sys.stderr, flush=True)
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, snapshot.evaluations.to_csv().encode())
    return snapshot.evaluations


def draw(environment: str, batch_size: int) -> None:
    """Both methods' learning curves in one figure."""
    curves = {}
    for method in METHODS:
        cell = Cell(environment, batch_size, method)
        curves[method] = learning_curve(definitive(cell, 0.0))
    figure = learning_curves(curves, f"{environment}, batch size {batch_size}", None)
    write_atomically(FOLDER / f"{environment}-batch{batch_size}.png", figure_bytes(figure))


def write_table() -> None:
    """Our numbers beside the paper's, as Markdown and JSON."""
    rows: list[dict[str, Any]] = []
    for environment, batch_size in CELLS:
        for method in METHODS:
            cell = Cell(environment, batch_size, method)
            evaluations = definitive(cell, 0.0)
            paper = paper_result(environment, method, batch_size)
            assert paper is not None
            ours = evaluations.average_performance
            mean, std = float(np.nanmean(ours)), float(np.nanstd(ours))
            rows.append(
                {
                    "environment": environment,
                    "batch_size": batch_size,
                    "method": method,
                    "learning_rate": float(evaluations.learning_rates[0]),
                    "runs": int(np.isfinite(ours).sum()),
                    "failed_runs": int((~np.isfinite(ours)).sum()),
                    "mean": round(mean, 3),
                    "std": round(std, 3),
                    "paper_mean": paper.mean,
                    "paper_std": paper.std,
                }
            )
    write_atomically(FOLDER / "table.json", (json.dumps(rows, indent=1) + "\n").encode())
    write_atomically(FOLDER / "table.md", markdown(rows).encode())


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table for people."""
    lines = [
        "| environment | batch size | method | learning rate | runs | ours | paper | difference |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        gap = row["mean"] - row["paper_mean"]
        in_stds = f"{gap / row['paper_std']:+.1f} std" if row["paper_std"] else f"{gap:+.2f}"
        cells = [row["environment"], row["batch_size"], row["method"], f"{row['learning_rate']:g}", row["runs"]]
        cells += [f"{row['mean']:.2f} ± {row['std']:.2f}", f"{row['paper_mean']:.2f} ± {row['paper_std']:.2f}", in_stds]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
