"""Run folders and studies that were never trained, in the form in which real ones lie on disk."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hindsight_rl.records.evaluations import Evaluations
from hindsight_rl.records.results import RESULTS, ResultsFile
from hindsight_rl.records.runs import StudyResults


def made_up_evaluations(
    batches: int = 100, runs: int = 3, level: float = 4.0, batch_size: int = 8, every: int = 10
) -> Evaluations:
    """Curves that rise to a level, a little higher for each run; entropy is unknown at batch 0."""
    done = np.arange(0, batches + 1, every)
    share = (1 - np.exp(-done / 40)) * (1 - 0.05 * np.arange(runs)[::-1, None])
    entropy = np.where(done == 0, np.nan, 2 - share)
    steps = np.tile(done * batch_size * 5.0, (runs, 1))
    metrics = {"mean_return": level * share, "success_rate": share, "steps": steps, "entropy": entropy}
    rates = {"learning_rate": np.full(runs, 1e-3)}
    return Evaluations(np.arange(runs), rates, done, done * batch_size, metrics)


def made_up_run(
    folder: Path,
    evaluations: Evaluations | None = None,
    environment: str = "four-rooms",
    method: str = "hpg",
    batches: int = 100,
    summary: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Path:
    """A run folder with these evaluations; with a summary, one that came to its end."""
    folder.mkdir(parents=True)
    content = {
        "format": 2,
        "environment": {"name": environment, "options": {}},
        "method": {"name": method, "options": {"learning_rate": 1e-3}},
        "run": {"batch_size": 8, "batches": batches, "evaluate_every": 10, "runs": 3, "seed": 0, **settings},
    }
    (folder / "settings.json").write_text(json.dumps(content))
    if evaluations is not None:
        (folder / "evaluations.csv").write_text(evaluations.to_csv())
    if summary is not None:
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def made_up_study(folder: Path, results: StudyResults) -> Path:
    """The folder of a study with these results."""
    folder.mkdir(parents=True)
    with ResultsFile.open(folder / RESULTS, create=True) as file:
        file.write_facts({"name": results.facts["name"]})
        file.write_plans(results.plans)
        file.write_origin({"made": "up"})
        file.write_runs(results.runs)
    return folder
