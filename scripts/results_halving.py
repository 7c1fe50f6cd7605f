"""Does successive halving find what the full grid finds, and how much does it save? Run it with `make results-halving`.

Both searches run as studies of their own, which go on where they were stopped. The setting that halving chose is then
judged by the runs that the full grid made of it.
"""

from pathlib import Path

import numpy as np

from hindsight_rl.analysis.study.sensitivity import SensitivityRow, sensitivity
from hindsight_rl.experiments.study.files import load_study
from hindsight_rl.experiments.study.run import run_study
from hindsight_rl.experiments.study.worker import Observer
from hindsight_rl.records.files import write_atomically
from hindsight_rl.records.runs import DEFINITIVE, Cell, StudyResults

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
    lines = [
        "| environment | search | chosen rates | score in the full grid | rank of 64 | updates | definitive runs |"
    ]
    lines.append("|---|---|---|---:|---:|---:|---:|")
    notes = []
    for plan in study.plans:
        grid = sensitivity(found["grid"], plan.cell)
        lines += [describe(strategy, results, plan.cell, grid) for strategy, results in found.items()]
        best, halved = (judged(results, plan.cell, grid) for results in found.values())
        saved = updates(found["grid"], plan.cell) / updates(found["halving"], plan.cell)
        notes.append(
            f"- {plan.environment}: {saved:.1f} times fewer updates; the choice scores "
            f"{(best.score or 0) - (halved.score or 0):.3f} below the grid's best, whose standard deviation over runs "
            f"is {best.std:.3f}."
        )
    lines += ["", "Halving beside the grid:", "", *notes]
    write_atomically(FOLDER / "table.md", ("\n".join(lines) + "\n").encode())
    print("\n".join(lines))


def describe(strategy: str, results: StudyResults, cell: Cell, grid: list[SensitivityRow]) -> str:
    """A line of the table."""
    row = judged(results, cell, grid)
    definitive = [run.average_performance for run in results.of(cell, DEFINITIVE)]
    performance = f"{np.nanmean(definitive):.2f} ± {np.nanstd(definitive):.2f}"
    rates, made = ", ".join(f"{rate:g}" for rate in row.choices.values()), updates(results, cell)
    return f"| {cell.environment} | {strategy} | {rates} | {row.score:.3f} | {row.rank} | {made:,} | {performance} |"


def judged(results: StudyResults, cell: Cell, grid: list[SensitivityRow]) -> SensitivityRow:
    """The full grid's runs of the setting that a study chose."""
    choices = dict(results.of(cell, DEFINITIVE)[0].key.choices)
    return next(row for row in grid if row.choices == choices)


def updates(results: StudyResults, cell: Cell) -> int:
    """Updates in the search."""
    return sum(int(run.batches[-1]) for run in results.of(cell) if run.key.stage != DEFINITIVE and len(run.batches))


if __name__ == "__main__":
    main()
