"""What a run folder shows beside its numbers: a summary, the learning curve and the metrics as pictures."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from hindsight_rl.analysis.figures import figure_bytes, learning_curves
from hindsight_rl.analysis.metric_figures import metric_panels, reported
from hindsight_rl.analysis.statistics import learning_curve
from hindsight_rl.analysis.words import counted
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.numbers import is_number
from hindsight_rl.exact import best_return
from hindsight_rl.experiments.definition import Job
from hindsight_rl.records.evaluations import Evaluations, summary
from hindsight_rl.records.files import read_json, write_atomically, write_json
from hindsight_rl.training.state import Snapshot

SUMMARY, CURVE, METRICS = "summary.json", "learning-curve.png", "metrics.png"


def finish_folder(job: Job, snapshot: Snapshot, folder: Path, updates_per_second: float) -> dict[str, Any]:
    """Leave summary and pictures in the folder of a job that has ended; returns the summary."""
    result = summarise(job, snapshot, updates_per_second or _earlier_speed(folder))
    write_json(folder / SUMMARY, result)
    draw(job, snapshot, folder)
    return result


def summarise(job: Job, snapshot: Snapshot, updates_per_second: float | None) -> dict[str, Any]:
    """The machine-readable summary of a finished job."""
    evaluations = snapshot.evaluations
    return {
        "environment": job.environment.id,
        "method": job.settings.method,
        "settings": job.settings.flat,
        "average_performance": summary(evaluations.average_performance),
        "final_return": summary(evaluations.final_return),
        "success_rate": summary(evaluations.final_success_rate),
        "batches": snapshot.batch,
        "episodes": int(evaluations.episodes[-1]),
        "updates_per_second": None if updates_per_second is None else round(updates_per_second, 2),
        "failed_runs": [asdict(failure) for failure in snapshot.failures],
    }


def _earlier_speed(folder: Path) -> float | None:
    """The speed that was measured when the run was made, where there was nothing left to do now.

    A summary that is missing or damaged is made again, but nobody knows the speed any more.
    """
    try:
        speed = read_json(folder / SUMMARY)["updates_per_second"]
    except (HindsightError, LookupError, TypeError):
        return None
    return float(speed) if is_number(speed) else None


def draw(job: Job, snapshot: Snapshot, folder: Path) -> None:
    """Leave the learning curve as a picture, and the metrics where the method reports some."""
    curves = {job.settings.method: learning_curve(snapshot.evaluations)}
    title = f"{job.environment.id}, batch size {job.settings.batch_size}"
    figure = learning_curves(curves, title, best_return(job.environment.task))
    write_atomically(folder / CURVE, figure_bytes(figure))
    draw_metrics(job, snapshot.evaluations, folder)


def draw_metrics(job: Job, evaluations: Evaluations, folder: Path) -> bool:
    """Leave what the method reported as a picture; says whether it reported anything."""
    if not reported(evaluations):
        return False
    title = f"{job.settings.method} on {job.environment.id}, {counted(len(evaluations.seeds), 'run')}"
    write_atomically(folder / METRICS, figure_bytes(metric_panels(evaluations, title)))
    return True
