"""The paper's settings and results, and the settings that a job has where nothing else is said."""

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from hindsight_rl.core.options import find_option, names_of
from hindsight_rl.core.plugins import is_reference
from hindsight_rl.core.run import RunSettings
from hindsight_rl.environments.registry import all_environments, find_entry, parted
from hindsight_rl.methods.registry import find_method

PUBLISHED = ("gcpg", "gcpg+b", "hpg", "hpg+b", "hpg-no-ratios", "dqn", "dqn+her")
"""The paper's methods, whose defaults are the paper's settings."""
SEARCHED_APART = {"dqn": "dqn", "dqn+her": "dqn"}
"""Methods for which the paper searched other rates than for the policy gradients: the head of their rows' names."""

HOSTED_EVALUATION = 32
"""Episodes in each evaluation where simulators play, and the paper has no say."""
SMALLEST_EVALUATION = 8
"""Fewer say nothing; a run of a few batches plays more than a tenth of its episodes for these."""


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


def default_values(environment: str, method: str, batch_size: int, batches: int | None = None) -> dict[str, Any]:
    """The paper's settings for an environment, method and batch size, by name, and sensible ones where it has none.

    Only what differs from the defaults of the settings themselves. `batches` is what the user chose, if anything.
    """
    row = find_method(method)
    own = row.defaults(_is_hosted(environment))
    values: dict[str, Any] = {}
    if found := paper_settings(environment, batch_size):
        values = {
            "batches": found["batches"],
            "evaluate_every": found["batches_between_evaluations"],
            "evaluation_episodes": found["evaluation_episodes"],
            "max_active_goals": found["max_active_goals_per_episode"],
        }
    values |= {**network_settings(environment), **own}
    # The paper's evaluations suit as many batches as the paper's.
    if _is_hosted(environment) and ("evaluate_every" in own or not found or batches is not None):
        values |= _few_evaluations(batch_size, batches)
    elif batches is not None:
        most = own.get("evaluate_every")
        values["evaluate_every"] = spaced(batches, most) if most else about_a_hundredth(batches)
    values["learning_rate"] = _usual_learning_rate(environment, method)
    values |= chosen_rates(environment, method, batch_size)
    owned = (*names_of(RunSettings), *names_of(row.options))
    return {name: value for name, value in values.items() if name in owned}


def _few_evaluations(batch_size: int, batches: int | None) -> dict[str, int]:
    """Evaluations with a tenth of the episodes that simulators play; short runs have smaller ones."""
    every = -(-10 * HOSTED_EVALUATION // batch_size)
    episodes = HOSTED_EVALUATION
    if batches is not None:
        evaluations = 1 + -(-batches // every)
        episodes = min(episodes, max(SMALLEST_EVALUATION, batches * batch_size // (9 * evaluations)))
    return {"evaluate_every": every, "evaluation_episodes": episodes}


def _is_hosted(environment: str) -> bool:
    """Whether simulators play an environment, as far as its name tells."""
    name = parted(environment)[0]
    return (name in all_environments() or is_reference(name)) and find_entry(name).hosted


def tried_learning_rates(environment: str, method: str) -> list[float]:
    """The rates among which the paper searched; those of its small environments where it has no others."""
    rates = tables()["learning_rates"]
    apart = f"{SEARCHED_APART.get(method)}_{environment}"
    if apart in rates:
        return rates[apart]
    sets = {row["environment"]: row["policy_learning_rates"] for row in tables()["settings"]}
    return rates[sets.get(environment, "R1")]


def chosen_rates(environment: str, method: str, batch_size: int) -> dict[str, float]:
    """The rates that our studies chose for a method on an environment (the paper does not name them), by name.

    Those of the nearest batch size that was studied; none where there was no study, or where no rate learned anything.
    """
    rows = [row for row in rate_tables()["chosen"] if row["environment"] == environment and method in row["rates"]]
    if not rows:
        return {}
    nearest = min(rows, key=lambda row: abs(math.log(row["batch_size"] / batch_size)))
    return dict(zip(find_method(method).rates, nearest["rates"][method], strict=True))


@cache
def rate_tables() -> dict[str, Any]:
    """What the searches of results/paper and results/her chose, and which of it was corrected afterwards, and why."""
    return json.loads(files("hindsight_rl.experiments").joinpath("learning_rates.json").read_text())


def _usual_learning_rate(environment: str, method: str) -> float:
    """The method's own default, or the highest rate that the paper tried where it tried only lower ones."""
    option = find_option(find_method(method).options, "learning_rate")
    usual = option.default if option else 1e-3
    tried = tried_learning_rates(environment, method)
    return usual if usual in tried or method not in PUBLISHED else max(tried)


def network_settings(environment: str) -> dict[str, Any]:
    """The paper's networks for an environment, where they are not those of bits and grids."""
    if environment in ("ms-pacman", "fetch-push"):
        return {"hidden_layers": (256, 256, 256), "initial_weights": "scaled"}
    return {"initial_weights": "scaled"} if environment.startswith("gym:") else {}


def about_a_hundredth(batches: int) -> int:
    """The largest divisor of `batches` that leaves about a hundred evaluations, as in the paper."""
    return _largest_divisor(batches, max(batches // 100, 1))


def spaced(batches: int, most: int) -> int:
    """The largest divisor of `batches` up to `most` that leaves a few evaluations."""
    return _largest_divisor(batches, max(min(most, batches // 3), 1))


MOST_TRIED = 2**20
"""Numbers that are tried as divisors: all that are needed up to a million million batches, which nobody trains."""


def _largest_divisor(number: int, most: int) -> int:
    """The largest divisor up to a limit: one of each pair whose product is the number is at most its root."""
    smaller = (divisor for divisor in range(1, min(math.isqrt(number), MOST_TRIED) + 1) if number % divisor == 0)
    return max(one for divisor in smaller for one in (divisor, number // divisor) if one <= most)
