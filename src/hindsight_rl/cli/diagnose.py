"""`hindsight diagnose`: what is likely wrong with the runs of a folder."""

import json
import math
from pathlib import Path

import numpy as np

from hindsight_rl.analysis.diagnosis.diagnose import diagnose
from hindsight_rl.analysis.diagnosis.runs import Setting
from hindsight_rl.analysis.words import counted
from hindsight_rl.cli.commands import Diagnose
from hindsight_rl.cli.console import PlainConsole
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.interface import Task
from hindsight_rl.experiments.configuration import complete
from hindsight_rl.experiments.definition import Job, load_job, trusting
from hindsight_rl.experiments.job import EVALUATIONS
from hindsight_rl.records.evaluations import read_evaluations
from hindsight_rl.records.files import read_json
from hindsight_rl.records.runs import Cause
from hindsight_rl.running.folder import METRICS, SUMMARY, draw_metrics


def run_diagnose(command: Diagnose) -> None:
    """Print what was found, and leave the metrics as a picture."""
    folder = command.folder
    with trusting(folder, command.trust):
        job = load_job(folder)
    if not (folder / EVALUATIONS).exists():
        raise HindsightError(f"'{folder}' has no {EVALUATIONS} yet: its first evaluation is not saved.")
    evaluations = read_evaluations(folder / EVALUATIONS)
    found = diagnose(evaluations, setting_of(job), _failures(folder))
    drawn = draw_metrics(job, evaluations, folder)
    if command.json:
        head = {"environment": job.environment.id, "method": job.settings.method, "batch": int(evaluations.batches[-1])}
        print(json.dumps({**head, **found.to_json(), "figure": str(folder / METRICS) if drawn else None}))
        return
    console = PlainConsole()
    how_far = f"{counted(found.runs, 'run')}, {int(evaluations.batches[-1]):,} of {job.settings.batches:,} batches"
    paragraphs = [f"{job.settings.method} on {job.environment.id}: {how_far}.", *found.sentences]
    if drawn:
        paragraphs.append(f"All metrics: {folder / METRICS}")
    for paragraph in paragraphs:
        console.print(paragraph, soft_wrap=True)


def setting_of(job: Job) -> Setting:
    """What the rules must know of a job."""
    task = job.environment.task
    settings = job.settings
    half_range = _half_range(task) if task.continuous else None
    defaults = complete(job.environment.id, {"method": settings.method, "batch_size": settings.batch_size}).flat
    return Setting(settings.method, settings.flat, task.horizon, task.action_count, defaults, half_range)


def _half_range(task: Task) -> float:
    """Half the distance between the bounds of actions; 1 for a number that is not bounded on both sides."""
    if task.action_bounds is None:
        return 1.0
    low, high = (np.asarray(bound, np.float64) for bound in task.action_bounds)
    halves = np.where(np.isfinite(high - low) & (high > low), (high - low) / 2, 1.0)
    return math.exp(float(np.mean(np.log(halves))))


def _failures(folder: Path) -> dict[int, Cause]:
    """Why runs failed, as far as training came to say so."""
    path = folder / SUMMARY
    if not path.exists():
        return {}
    try:
        return {one["run"]: Cause(one["batch"], one["cause"]) for one in read_json(path)["failed_runs"]}
    except (KeyError, TypeError):
        raise HindsightError(f"'{path}' is not a summary that `hindsight train` wrote.") from None
