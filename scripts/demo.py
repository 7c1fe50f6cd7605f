"""The demonstration: hindsight PPO and HPG learn bit flipping while GCPG falls behind. Run it with `make demo`."""

import html
import shutil
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from hindsight_rl import load
from hindsight_rl.analysis.figures import figure_bytes, learning_curves
from hindsight_rl.analysis.statistics import learning_curve
from hindsight_rl.cli.inspect import animate_policy
from hindsight_rl.environments.registry import make_compiled
from hindsight_rl.experiments.configuration import resolve
from hindsight_rl.experiments.paper import paper_result
from hindsight_rl.records.evaluations import Evaluations
from hindsight_rl.records.files import write_atomically
from hindsight_rl.running.shown import train_with_progress
from hindsight_rl.training.compilation import keep_compiled_programs

FOLDER = Path("runs/demo")
ENVIRONMENT, BATCH_SIZE, RUNS = "bit-flipping-8", 16, 6
METHODS = ("hppo", "hpg", "gcpg")
SHORTER = {"hppo": {"batches": 100}}
"""It has learned after the first few batches, and its updates take longest."""
BEST_RETURN = 4.992
"""Of the best possible policy: 9 minus the number of bits to flip, on average over all goals."""
COLUMNS = ("method", "episodes", f"ours, {RUNS} runs", "paper, 20 runs", "final success rate")
TITLE = f"Average performance on {ENVIRONMENT}, batch size {BATCH_SIZE} (best possible: {BEST_RETURN})"
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>hindsight: the demonstration</title>
<style>
body {{ font-family: system-ui, sans-serif; line-height: 1.5; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }}
img {{ max-width: 100%; height: auto; background: white }}
td, th {{ padding: 0 1rem 0 0; text-align: left; white-space: nowrap }}</style>
<h1>Learning from goals that were missed</h1><p>{told}</p>
<img src="learning-curves.png" alt="Learning curves"><h2>{title}</h2>
<div style="overflow-x: auto"><table>{rows}</table></div>
<h2>What HPPO learned</h2><img src="policy.gif" alt="Greedy episodes of the trained policy">
<h2>Next</h2><ul><li><a href="{tutorial}">The tutorial</a>: a first run, your own environment, robot and method.</li>
<li><code>.venv/bin/hindsight watch {folder}</code>: these runs as a live page.</li>
<li><code>.venv/bin/hindsight compare {compared}</code>: who beats whom, with intervals.</li></ul></html>
"""


def main() -> None:
    """Train all three methods, the paper's with the paper's settings, then show picture and table."""
    keep_compiled_programs()
    shutil.rmtree(FOLDER, ignore_errors=True)
    console = Console(stderr=True)
    told = (
        "Turn 8 zeros into a random goal, one flip at a time; reward only at the goal. GCPG learns from its own goal "
        f"alone, HPG from every string it passes, HPPO about any goal from all that it has seen: {RUNS} runs of each."
    )
    console.print(told, highlight=False)
    curves, rows = {}, []
    for method in METHODS:
        settings = {"method": method, "batch_size": BATCH_SIZE, "runs": RUNS, **SHORTER.get(method, {})}
        job = resolve(ENVIRONMENT, settings)
        snapshot, _ = train_with_progress(job, FOLDER / method, False, console)
        curves[method] = learning_curve(snapshot.evaluations)
        rows.append(row(method, job.settings.batches, snapshot.evaluations))
    figure = learning_curves(curves, f"{ENVIRONMENT}, batch size {BATCH_SIZE}", BEST_RETURN)
    picture = FOLDER / "learning-curves.png"
    write_atomically(picture, figure_bytes(figure))
    table = Table(*COLUMNS, title=TITLE)
    for cells in rows:
        table.add_row(*cells)
    Console().print(table)
    Console().print(
        f"Learning curves: {picture}\nNext, look at: {write_page(told, rows)}", highlight=False, soft_wrap=True
    )


def row(method: str, batches: int, evaluations: Evaluations) -> tuple[str, ...]:
    """A method beside the paper, in words."""
    ours, paper = evaluations.average_performance, paper_result(ENVIRONMENT, method, BATCH_SIZE)
    return (
        method,
        f"{batches * BATCH_SIZE:,}",
        f"{np.nanmean(ours):.2f} ± {np.nanstd(ours):.2f}",
        f"{paper.mean:.2f} ± {paper.std:.2f}" if paper else "",
        f"{np.nanmean(evaluations.final_success_rate):.1%}",
    )


def write_page(told: str, rows: list[tuple[str, ...]]) -> str:
    """Picture, table and a film of the best method on one page; its address."""
    film = animate_policy(make_compiled(ENVIRONMENT), load(FOLDER / METHODS[0])[0], 5, 0)
    write_atomically(FOLDER / "policy.gif", film)
    lines = [
        [f"<th>{html.escape(cell)}" for cell in COLUMNS],
        *([f"<td>{html.escape(cell)}" for cell in one] for one in rows),
    ]
    page = PAGE.format(
        told=html.escape(told),
        title=html.escape(TITLE),
        rows="".join(f"<tr>{''.join(line)}" for line in lines),
        tutorial=(Path(__file__).parents[1] / "docs" / "tutorial" / "1-first-run.md").as_uri(),
        folder=FOLDER,
        compared=" ".join(str(FOLDER / method) for method in METHODS),
    )
    write_atomically(FOLDER / "index.html", page.encode())
    return (FOLDER / "index.html").resolve().as_uri()


if __name__ == "__main__":
    main()
