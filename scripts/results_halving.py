"""Does successive halving find what the full grid finds, and how much does it save? Run it with `make results-halving`.

Both searches run as studies of their own, which go on where they were stopped. The setting that halving chose is then
judged by the runs that the full grid made of it.
"""

from pathlib import Path

import numpy as np

from hindsight.analysis.sensitivity import SensitivityRow, sensitivity
from hindsight.experiments.study_files import load_study
from hindsight.experiments.study_run import run_study
from hindsight.experiments.study_worker import Observer
from hindsight.records.files import write_atomically
from hindsight.records.runs import DEFINITIVE, StudyResults

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "results" / "halving"


def main() -> None:
    """Run both searches and write the comparison."""
    study = load_study(str(FOLDER / "study.toml"))
    observer = Observer(finish=lambda piece, runs: print(f"{piece.name}: {len(runs)} runs", flush=True))
    found = {}
    for strategy in ("grid", "halving"):
        chosen = study.narrowed(strategy=strategy)
        found[strategy] = run_study(chosen, ROOT / "studies" / f"halving-{strategy}", observer)
    cell = study.plans[0].cell
    grid = sensitivity(found["grid"], cell)
    lines = ["| search | chosen rates | score in the full grid | rank of 64 | updates | definitive performance |"]
    lines.append("|---|---|---:|---:|---:|---:|")
    for strategy, results in found.items():
        lines.append(describe(strategy, results, grid))
    best, halved = (judged(results, grid) for results in found.values())
    gap = (best.score or 0) - (halved.score or 0)
    saved = updates(found["grid"]) / updates(found["halving"])
    lines += ["", f"Halving used {saved:.1f} times fewer updates in its search; its choice scores {gap:.3f} below the"]
    lines += [f"grid's best, whose standard deviation over runs is {best.std:.3f}."]
    write_atomically(FOLDER / "table.md", ("\n".join(lines) + "\n").encode())
    print("\n".join(lines))


def describe(strategy: str, results: StudyResults, grid: list[SensitivityRow]) -> str:
    """A line of the table."""
    row = judged(results, grid)
    definitive = [run.average_performance for run in results.of(row.cell, DEFINITIVE)]
    performance = f"{np.nanmean(definitive):.2f} ± {np.nanstd(definitive):.2f}"
    rates = f"{row.learning_rate:g}, {row.baseline_learning_rate:g}"
    return f"| {strategy} | {rates} | {row.score:.3f} | {row.rank} | {updates(results):,} | {performance} |"


def judged(results: StudyResults, grid: list[SensitivityRow]) -> SensitivityRow:
    """The full grid's runs of the setting that a study chose."""
    key = next(run.key for run in results.runs if run.key.stage == DEFINITIVE)
    rates = (key.learning_rate, key.baseline_learning_rate)
    return next(row for row in grid if (row.learning_rate, row.baseline_learning_rate) == rates)


def updates(results: StudyResults) -> int:
    """Updates in the search."""
    return sum(int(run.batches[-1]) for run in results.runs if run.key.stage != DEFINITIVE and len(run.batches))


if __name__ == "__main__":
    main()
