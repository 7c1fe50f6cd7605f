"""Callbacks that send evaluations to Weights & Biases and to MLflow; both are optional packages."""

import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.training.callbacks import Callback
from hindsight_rl.training.state import Snapshot


def weights_and_biases(**options: Any) -> Callback:
    """A callback that makes one run of Weights & Biases; `options` go to `wandb.init` (project, name, mode, ...)."""
    wandb = _optional("wandb", "Weights & Biases", "wandb")
    runs: list[Any] = []

    def begin(settings: Mapping[str, Any]) -> None:
        runs.append(wandb.init(config=dict(settings), **options))

    def evaluated(snapshot: Snapshot) -> None:
        runs[-1].log(newest_values(snapshot), step=snapshot.batch)

    return Callback(evaluated, begin, lambda: runs.pop().finish())


def mlflow_run(**options: Any) -> Callback:
    """A callback that makes one run of MLflow; `options` go to `mlflow.start_run` (run_name, experiment_id, ...).

    Where it is kept is for `mlflow.set_tracking_uri` to say, before training begins.
    """
    mlflow = _optional("mlflow", "MLflow", "mlflow")

    def begin(settings: Mapping[str, Any]) -> None:
        mlflow.start_run(**options)
        mlflow.log_params(dict(settings))

    def evaluated(snapshot: Snapshot) -> None:
        # MLflow allows no other signs in names.
        values = {name.replace("+", "_"): value for name, value in newest_values(snapshot).items()}
        mlflow.log_metrics(values, step=snapshot.batch)

    return Callback(evaluated, begin, mlflow.end_run)


def newest_values(snapshot: Snapshot) -> dict[str, float]:
    """Every finite metric of the newest evaluation, by name; of several runs with the seed before it."""
    evaluations = snapshot.evaluations
    several = len(evaluations.seeds) > 1
    return {
        (f"seed{seed}/{name}" if several else name): float(values[run, -1])
        for run, seed in enumerate(evaluations.seeds)
        for name, values in evaluations.metrics.items()
        if math.isfinite(values[run, -1])
    }


def _optional(module: str, name: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise HindsightError(
            f"{name} needs the package {module}, which is not there: pip install 'hindsight-rl[{extra}]'."
        ) from None
