"""The policy-gradient methods by name, each an estimator; learning rates, and options with hindsight."""

from typing import Any

import jax.numpy as jnp

from hindsight_rl.agents.replay_options import DQNOptions, HEROptions
from hindsight_rl.estimators.table import ESTIMATORS

METHODS = {
    "gcpg": ESTIMATORS["gcpg"],
    "gcpg+b": ESTIMATORS["gcpg+v"],
    "hpg": ESTIMATORS["weighted"],
    "hpg+b": ESTIMATORS["weighted+v-active"],
    "hpg-no-ratios": ESTIMATORS["no-ratios"],
}


def learning_rates(policy: float, baseline: float = 1.0) -> dict[str, Any]:
    return {"learning_rate": jnp.float32(policy), "baseline_learning_rate": jnp.float32(baseline)}


def hindsight(options: DQNOptions, **changes: Any) -> HEROptions:
    """The same options with relabelling."""
    return HEROptions(**vars(options), **changes)
