"""The paper's 40 cells beside ours, into results/paper/cells.md, from what results/ holds. Nothing is trained.

A difference of means has Welch's 95 % interval, from our runs and from the mean, deviation and number of runs that the
paper reports; a family of tests at 5 % is held by Holm's rule.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars
from scipy import stats

from hindsight_rl.experiments.paper import tables

RESULTS = Path(__file__).parent.parent / "results"
FOLDER = RESULTS / "paper"
HOSTED = {
    ("ms-pacman", 2, "gcpg"): "ms-pacman-gcpg-batch2",
    ("ms-pacman", 2, "hpg"): "ms-pacman-hpg-batch2",
    ("ms-pacman", 16, "gcpg"): "ms-pacman-gcpg-batch16",
    ("ms-pacman", 16, "hpg"): "ms-pacman-hpg-batch16",
    ("fetch-push", 16, "gcpg"): "fetch-push-gcpg-normalised",
    ("fetch-push", 16, "hpg"): "fetch-push-hpg-normalised",
}
Cell = tuple[str, int, str]
"""Environment, batch size, method."""
FAR = 2.0
"""Of the paper's standard deviations: what two cells that agree are less apart than."""


@dataclass(frozen=True)
class Row:
    """One cell: our runs' average performances, and what the paper reports."""

    cell: Cell
    ours: np.ndarray
    mean: float
    std: float
    runs: int

    @property
    def difference(self) -> float:
        """Ours minus the paper's."""
        return float(np.mean(self.ours)) - self.mean

    def welch(self) -> tuple[float, float, float] | None:
        """The interval's ends and the probability of so large a difference by chance; None where nothing varies."""
        mine, theirs = np.var(self.ours, ddof=1) / len(self.ours), self.std**2 / (self.runs - 1)
        if self.std == 0:  # nothing is ever learned there
            return None
        freedom = (mine + theirs) ** 2 / (mine**2 / (len(self.ours) - 1) + theirs**2 / (self.runs - 1))
        error = math.sqrt(mine + theirs)
        reach = float(stats.t.ppf(0.975, freedom)) * error
        chance = 2 * float(stats.t.sf(abs(self.difference) / error, freedom))
        return self.difference - reach, self.difference + reach, chance


def performances(path: Path) -> dict[tuple[Cell, str], np.ndarray]:
    """The average performance of each definitive run, by cell and rates."""
    runs = (
        polars.read_parquet(path)
        .filter(polars.col("stage") == "definitive")
        .group_by("environment", "batch_size", "method", "learning_rate", "baseline_learning_rate", "seed")
        .agg(polars.col("mean_return").mean())
        .sort("seed")
    )
    found: dict[tuple[Cell, str], list[float]] = {}
    for environment, batch_size, method, rate, baseline, _, average in runs.iter_rows():
        rates = f"{rate:g}" + ("" if baseline is None or "+b" not in method else f" and {baseline:g}")
        found.setdefault(((environment, batch_size, method), rates), []).append(average)
    return {key: np.array(values) for key, values in found.items()}


def rows_of(found: Mapping[tuple[Cell, str], np.ndarray]) -> list[tuple[Row, str]]:
    """Beside the paper, in its order, with the rates."""
    rows = []
    for line in tables()["average_performance"]:
        cell = (line["environment"], line["batch_size"], line["method"])
        for (other, rates), ours in sorted(found.items()):
            if other == cell:
                rows.append((Row(cell, ours, line["mean"], line["std"], _runs(cell)), rates))
    return rows


def _runs(cell: Cell) -> int:
    """The paper's number of runs."""
    lines = tables()["settings"]
    return next(line["runs"] for line in lines if (line["environment"], line["batch_size"]) == cell[:2])


def holm(chances: Sequence[float | None], level: float = 0.05) -> list[bool]:
    """Which of several differences hold together: Holm's rule."""
    order = sorted((chance, place) for place, chance in enumerate(chances) if chance is not None)
    holds = [False] * len(chances)
    for rank, (chance, place) in enumerate(order):
        if chance > level / (len(order) - rank):
            break
        holds[place] = True
    return holds


def lines_of(rows: Sequence[tuple[Row, str]]) -> Iterator[str]:
    """A table."""
    tests = [row.welch() for row, _ in rows]
    holds = holm([test and test[2] for test in tests])
    yield "| environment | batch size | method | rates | runs | here | paper | difference (95 %) | paper's deviations |"
    yield "|---|---:|---|---|---:|---:|---:|---|---:|"
    for (row, rates), test, sure in zip(rows, tests, holds, strict=True):
        here, paper = f"{np.mean(row.ours):.2f} ± {np.std(row.ours):.2f}", f"{row.mean:.2f} ± {row.std:.2f}"
        apart = times = ""
        if test is not None:
            apart = f"{row.difference:+.2f} ({test[0]:+.2f} to {test[1]:+.2f}){' *' if sure else ''}"
            times = f"{row.difference / row.std:+.1f}"
            times = f"**{times}**" if abs(row.difference) >= FAR * row.std else times
        cell = " | ".join(map(str, row.cell))
        yield f"| {cell} | {rates} | {len(row.ours)} | {here} | {paper} | {apart} | {times} |"


def hosted_lines() -> Iterator[str]:
    """The cells that simulators play: what was run of each, which is not the paper's."""
    yield "| environment | batch size | method | runs | batches | of the paper's | average here | paper |"
    yield "|---|---:|---|---:|---:|---:|---:|---:|"
    for line in tables()["average_performance"]:
        cell = (line["environment"], line["batch_size"], line["method"])
        if cell[0] not in ("ms-pacman", "fetch-push"):
            continue
        settings = next(each for each in tables()["settings"] if (each["environment"], each["batch_size"]) == cell[:2])
        here = "| 0 | | | not run |"
        if cell in HOSTED:
            table = polars.read_csv(RESULTS / "hosted" / HOSTED[cell] / "evaluations.csv")
            batches, average = max(table["batch"].to_list()), float(np.mean(table["mean_return"].to_numpy()))
            share = batches / settings["batches"]
            here = f"| {table['run'].n_unique()} | {batches:,} | {share:.0%} | {average:.2f} |"
        yield f"| {cell[0]} | {cell[1]} | {cell[2]} {here} {line['mean']:.2f} ± {line['std']:.2f} |"


HEAD = """# The paper's 40 cells beside ours

Made by `python scripts/paper_cells.py`; [results](../README.md) says what it means.

Bold: two or more of the paper's standard deviations apart. With a star: the means differ, by Welch's test and Holm's
rule at 5 % over the rows of the table. The paper has 20 runs of each small cell and 10 of each hard one.
"""
AFTERWARDS = {
    "checks": "Tried afterwards: other rates",
    "again": "Tried afterwards: other rates, and the published constant",
}


def page() -> str:
    """The page, from what results/ holds."""
    parts = {
        "32 small cells": lines_of(rows_of(performances(FOLDER / "evaluations.parquet"))),
        "Eight hard cells: other settings than the paper's": hosted_lines(),
    }
    for name, title in AFTERWARDS.items():
        if (FOLDER / f"{name}.parquet").exists():
            parts[title] = lines_of(rows_of(performances(FOLDER / f"{name}.parquet")))
    text = [line for title, lines in parts.items() for line in (f"## {title}", "", *lines, "")]
    return "\n".join([HEAD, *text])


if __name__ == "__main__":
    (FOLDER / "cells.md").write_text(page())
