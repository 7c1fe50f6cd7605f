"""The demonstration: hindsight PPO and HPG learn bit flipping while GCPG falls behind. Run it with `make demo`."""

import shutil
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from hindsight_rl.analysis.figures import figure_bytes, learning_curves
from hindsight_rl.analysis.statistics import learning_curve
from hindsight_rl.experiments.configuration import resolve
from hindsight_rl.experiments.paper import paper_result
from hindsight_rl.records.files import write_atomically
from hindsight_rl.running.shown import train_with_progress
from hindsight_rl.training.compilation import keep_compiled_programs

FOLDER = Path("runs/demo")
ENVIRONMENT, BATCH_SIZE, RUNS = "bit-flipping-8", 16, 6
METHODS = ("hppo", "hpg", "gcpg")
BEST_RETURN = 4.992
"""Of the best possible policy: 9 minus the number of bits to flip, on average over all goals."""


def main() -> None:
    """Train all three methods, the paper's with the paper's settings, then show picture and table."""
    keep_compiled_programs()
    shutil.rmtree(FOLDER, ignore_errors=True)
    console = Console(stderr=True)
    console.print(
        f"Turn 8 zeros into a random goal, one flip at a time; reward only at the goal.\n"
        f"GCPG learns from its own goal alone, HPG from every string it passes, HPPO about any goal from all that it "
        f"has seen: {RUNS} runs of each.",
        highlight=False,
    )
    table = Table(title=f"Average performance on {ENVIRONMENT}, batch size {BATCH_SIZE} (best possible: {BEST_RETURN})")
    for column in ("method", "episodes", f"ours, {RUNS} runs", "paper, 20 runs", "final success rate"):
        table.add_column(column)
    curves = {}
    for method in METHODS:
        job = resolve(ENVIRONMENT, {"method": method, "batch_size": BATCH_SIZE, "runs": RUNS})
        snapshot, _ = train_with_progress(job, FOLDER / method, False, console)
        curves[method] = learning_curve(snapshot.evaluations)
        ours, paper = snapshot.evaluations.average_performance, paper_result(ENVIRONMENT, method, BATCH_SIZE)
        success = np.nanmean(snapshot.evaluations.final_success_rate)
        table.add_row(
            method,
            f"{job.settings.batches * BATCH_SIZE:,}",
            f"{np.nanmean(ours):.2f} ± {np.nanstd(ours):.2f}",
            f"{paper.mean:.2f} ± {paper.std:.2f}" if paper else "",
            f"{success:.1%}",
        )
    figure = learning_curves(curves, f"{ENVIRONMENT}, batch size {BATCH_SIZE}", BEST_RETURN)
    picture = FOLDER / "learning-curves.png"
    write_atomically(picture, figure_bytes(figure))
    Console().print(table)
    Console().print(f"Learning curves: {picture}\nNext: .venv/bin/hindsight render {FOLDER / 'hppo'}", highlight=False)


if __name__ == "__main__":
    main()
