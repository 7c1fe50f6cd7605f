"""A policy in one file: its parameters, the statistics of its inputs, its shapes, and what it was trained with.

The file needs neither the run's replay buffer nor the environment, so that it is small and loads anywhere.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax

from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.environments.described import DescribedTask, Spaces
from hindsight_rl.environments.registry import Specification
from hindsight_rl.methods.interface import make_agent
from hindsight_rl.records.checkpoints import load_checkpoint, save_checkpoint
from hindsight_rl.records.evaluations import Evaluations
from hindsight_rl.records.runs import USUAL_METRICS
from hindsight_rl.training.settings import Settings, make_settings
from hindsight_rl.training.state import state_from_arrays, state_to_arrays
from hindsight_rl.training.trained_policy import TrainedPolicy

FORMAT = 1
"""Version of what a policy file says of its policy."""
MARK = "policy"
"""The entry of a checkpoint's metadata that makes it a policy file."""


@dataclass(frozen=True)
class Card:
    """What is known of a policy."""

    settings: Settings
    environment: Mapping[str, Any] | None = None
    """Name and options; None for one that was an object."""
    seed: int | None = None
    batch: int | None = None
    """Updates that it has seen."""
    measured: Mapping[str, Any] = field(default_factory=dict)
    """How well it did: `mean_return` and `success_rate` at least, where anything was measured."""

    @property
    def specification(self) -> Specification:
        """The environment, to play in."""
        if self.environment is None:
            raise HindsightError("This policy was trained in an environment without a name: it cannot be played here.")
        return Specification.from_json(self.environment)

    def to_json(self) -> dict[str, Any]:
        """Fit for a file."""
        return {
            "environment": self.environment and {**self.environment, "options": dict(self.environment["options"])},
            "method": {"name": self.settings.method, "options": self.settings.method_options},
            "run": self.settings.run,
            "seed": self.seed,
            "batch": self.batch,
            "measured": dict(self.measured),
        }

    @classmethod
    def from_json(cls, content: Any, source: Path) -> "Card":
        """The inverse of `to_json`."""
        try:
            method = content["method"]
            settings = make_settings({**content["run"], "method": method["name"], **method["options"]})
            found = {name: content[name] for name in ("environment", "seed", "batch", "measured")}
            if (environment := found["environment"]) is not None:
                found["environment"] = {"name": str(environment["name"]), "options": {**environment["options"]}}
        except (LookupError, TypeError) as error:
            raise HindsightError(f"'{source}' is not a policy file of this version: {gist(error)}.") from None
        return cls(settings, **found)


def named(environment: Specification) -> dict[str, Any]:
    """An environment as a card keeps it."""
    return environment.to_json()


def measured(evaluations: Evaluations, run: int) -> dict[str, float]:
    """The last evaluation of a run; nothing for one that failed."""
    values = {name: float(evaluations.metrics[name][run, -1]) for name in USUAL_METRICS}
    return values if math.isfinite(values["mean_return"]) else {}


def save_policy(path: Path, policy: TrainedPolicy, card: Card) -> None:
    """Write a policy, atomically."""
    about = {"format": FORMAT, "spaces": policy.spaces.to_json(), **card.to_json()}
    save_checkpoint(path, state_to_arrays(policy.model), {MARK: about})


def load_policy(path: Path) -> tuple[TrainedPolicy, Card]:
    """Read what `save_policy` wrote."""
    return policy_of(path, *load_checkpoint(path))


def policy_of(path: Path, arrays: Mapping[str, Any], metadata: Mapping[str, Any]) -> tuple[TrainedPolicy, Card]:
    """The policy that a file holds."""
    card, spaces = read_card(path, metadata), Spaces.from_json(metadata[MARK].get("spaces"))
    method, options, *_ = card.settings.compiled
    agent = make_agent(method, card.settings.row, DescribedTask(spaces), options)
    template = jax.eval_shape(lambda key: agent.policy(agent.init(key)), jax.random.key(0))
    return TrainedPolicy(state_from_arrays(template, arrays), spaces), card


def read_card(path: Path, metadata: Mapping[str, Any]) -> Card:
    """What a file says of its policy."""
    about = metadata.get(MARK)
    if not isinstance(about, dict):
        raise HindsightError(f"'{path}' holds no policy: `hindsight export` and `Result.save` write such files.")
    if about.get("format") != FORMAT:
        raise HindsightError(f"'{path}' has policy format {about.get('format')!r}, but this hindsight reads {FORMAT}.")
    return Card.from_json(about, path)
