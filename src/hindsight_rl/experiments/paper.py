"""The paper's settings and results, and the settings that a job has where nothing else is said."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from hindsight_rl.agents.registry import find_method
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.training.settings import Settings

LEARNING_RATES: dict[tuple[str, int, str], float] = {
    ("bit-flipping-8", 2, "gcpg"): 5e-4,
    ("empty-room", 2, "gcpg"): 5e-4,
    ("four-rooms", 2, "gcpg"): 1e-4,
    ("four-rooms", 16, "gcpg"): 5e-4,
    ("four-rooms", 2, "hpg"): 1e-4,
    ("four-rooms", 16, "hpg"): 5e-4,
    ("empty-room", 16, "dqn"): 5e-3,
}
"""The best of the paper's learning rates as found here (the paper does not name them), where it is not 1e-3.

See results/paper and results/her.
"""


@dataclass(frozen=True)
class PaperResult:
    """Average performance over the paper's definitive runs."""

    mean: float
    std: float


@cache
def tables() -> dict[str, Any]:
    """The paper's tables of appendix E, as data."""
    return json.loads(files("hindsight_rl.experiments").joinpath("paper.json").read_text())


def paper_result(environment: str, method: str, batch_size: int) -> PaperResult | None:
    """The paper's average performance for a cell of its table, or None where it has none."""
    for row in tables()["average_performance"]:
        if (row["environment"], row["method"], row["batch_size"]) == (environment, method, batch_size):
            return PaperResult(row["mean"], row["std"])
    return None


def paper_settings(environment: str, batch_size: int) -> dict[str, Any] | None:
    """The paper's settings for an environment and batch size, or None where it has none."""
    for row in tables()["settings"]:
        if (row["environment"], row["batch_size"]) == (environment, batch_size):
            return row
    return None


def default_settings(environment: str, given: dict[str, Any]) -> Settings:
    """Settings with the paper's values wherever nothing is given, and sensible ones where the paper has none."""
    unknown_fields = set(given) - set(Settings.__dataclass_fields__)
    if unknown_fields:
        raise HindsightError(f"There is no setting '{sorted(unknown_fields)[0]}'.")
    base = Settings()
    batch_size = given.get("batch_size", base.batch_size)
    method = given.get("method", base.method)
    defaults: dict[str, Any] = {}
    if row := paper_settings(environment, batch_size):
        defaults = {
            "batches": row["batches"],
            "evaluate_every": row["batches_between_evaluations"],
            "evaluation_episodes": row["evaluation_episodes"],
            "max_active_goals": row["max_active_goals_per_episode"],
        }
    defaults |= network_settings(environment)
    defaults["learning_rate"] = _learning_rate(environment, batch_size, str(method), base.learning_rate)
    if isinstance(given.get("batches"), int) and "evaluate_every" not in given:
        defaults["evaluate_every"] = about_a_hundredth(given["batches"])
    return Settings(**{**defaults, **given})


def tried_learning_rates(environment: str, replay: bool) -> list[float]:
    """The rates among which the paper searched; those of its small environments where it has no others."""
    rates = tables()["learning_rates"]
    if replay and f"dqn_{environment}" in rates:
        return rates[f"dqn_{environment}"]
    sets = {row["environment"]: row["policy_learning_rates"] for row in tables()["settings"]}
    return rates[sets.get(environment, "R1")]


def _learning_rate(environment: str, batch_size: int, method: str, usual: float) -> float:
    """The best rate known, or else the usual one; the highest that the paper tried where it tried only lower ones."""
    kind = find_method(method)
    family = "dqn" if kind.replay else "hpg" if kind.hindsight else "gcpg"
    if best := LEARNING_RATES.get((environment, batch_size, family)):
        return best
    tried = tried_learning_rates(environment, kind.replay)
    return usual if usual in tried else max(tried)


def network_settings(environment: str) -> dict[str, Any]:
    """The paper's networks for an environment, where they are not those of bits and grids."""
    if environment in ("ms-pacman", "fetch-push"):
        return {"hidden_layers": (256, 256, 256), "initial_weights": "scaled"}
    return {"initial_weights": "scaled"} if environment.startswith("gym:") else {}


def about_a_hundredth(batches: int) -> int:
    """The largest divisor of `batches` that leaves about a hundred evaluations, as in the paper."""
    candidates = [divisor for divisor in range(1, max(batches // 100, 1) + 1) if batches % divisor == 0]
    return max(candidates, default=1)
