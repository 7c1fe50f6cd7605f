"""Tables of evaluations as a run of hindsight PPO would leave them, made up number by number."""

from typing import Any

import numpy as np

from hindsight_rl.analysis.diagnosis.runs import Setting
from hindsight_rl.records.evaluations import Evaluations

BATCHES = np.arange(0, 121, 10)
OPTIONS: dict[str, Any] = {
    "learning_rate": 5e-4,
    "critic_learning_rate": 2e-3,
    "clip": 0.1,
    "entropy": 0.1,
    "exploration": 0.0,
    "deviation_floor": 0.0,
    "achieved_share": 0.4,
    "kept_episodes": 4096,
    "target_rate": 0.05,
    "divergence_limit": None,
    "gradient_steps": None,
    "reward_scale": None,
    "evaluation_episodes": 256,
}
SETTING = Setting("hppo", OPTIONS, horizon=17, actions=16, defaults=OPTIONS)


def ramp(first: float, last: float) -> np.ndarray:
    return np.linspace(first, last, len(BATCHES))


SOUND: dict[str, np.ndarray] = {
    "mean_return": ramp(0.0, 6.0),
    "success_rate": ramp(0.0, 0.6),
    "entropy": ramp(2.7, 1.8),
    "kl": ramp(0.02, 0.012),
    "clipped": ramp(0.07, 0.1),
    "effective_sample_size": ramp(0.98, 0.62),
    "value_error": ramp(0.004, 0.001),
    "reached": ramp(0.0, 0.5),
    "moved": ramp(0.9, 1.0),
    "others_reached": ramp(0.01, 0.01),
    "gradient_steps": ramp(48, 48),
}
"""Learning, and not done yet."""
STUCK = {**SOUND, "mean_return": ramp(1.0, 1.0), "success_rate": ramp(0.1, 0.1), "reached": ramp(0.1, 0.1)}
"""Not learning, though every other number is as in a run that does."""


def table(*runs: dict[str, np.ndarray], batches: np.ndarray = BATCHES) -> Evaluations:
    """Runs with the same metrics; as in a real table, the method says nothing before the first update."""
    usual = ("mean_return", "success_rate")
    metrics = {name: np.stack([np.asarray(run[name], np.float64) for run in runs]) for name in runs[0]}
    for name in metrics.keys() - set(usual):
        metrics[name][:, 0] = np.nan
    return Evaluations(np.arange(len(runs)), {}, batches, 16 * batches, metrics)


def ending_at(run: dict[str, np.ndarray], place: int) -> dict[str, np.ndarray]:
    """The run, failed after so many evaluations."""
    return {name: np.where(np.arange(len(BATCHES)) < place, values, np.nan) for name, values in run.items()}
