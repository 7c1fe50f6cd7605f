"""Golden runs: what each method learned with fixed seeds before the agent layer was opened, kept to the last bit.

`python tests/golden_runs.py FILE` records them anew, which is right only when a change is meant to change learning.
"""

import json
import math
import platform
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from reference.hosted_bits import hosted_bits

import hindsight_rl

GOLDEN = Path(__file__).parent / "golden" / "runs.json"

SMALL: dict[str, Any] = {
    "batch_size": 4,
    "batches": 20,
    "evaluate_every": 5,
    "evaluation_episodes": 32,
    "learning_rate": 1e-2,
    "hidden_layers": (16,),
    "seed": 3,
}
REPLAY = {"gradient_steps": 4, "minibatch_size": 16, "replay_capacity": 600}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "gcpg on bits": ("bit-flipping-4", {"method": "gcpg"}),
    "gcpg+b on bits": ("bit-flipping-4", {"method": "gcpg+b", "baseline_learning_rate": 1e-3}),
    "hpg on bits": ("bit-flipping-4", {"method": "hpg", "runs": 2}),
    "hpg+b on bits": ("bit-flipping-4", {"method": "hpg+b", "baseline_learning_rate": 3e-3}),
    "hpg-no-ratios on bits": ("bit-flipping-4", {"method": "hpg-no-ratios"}),
    "dqn on bits": ("bit-flipping-4", {"method": "dqn", **REPLAY}),
    "dqn+her on bits": ("bit-flipping-4", {"method": "dqn+her", "relabelling": "future", **REPLAY}),
    "hpg in four rooms, two goals of each episode": ("four-rooms", {"method": "hpg", "max_active_goals": 2}),
    "hpg in the empty room, normalised, carried ratios": (
        "empty-room",
        {"method": "hpg", "normalise": True, "ended": "carry", "skip_reached": True, "reward_offset": 0.5},
    ),
    "hpg on hosted bits": ("hosted", {"method": "hpg"}),
    "dqn+her on hosted bits": ("hosted", {"method": "dqn+her", **REPLAY}),
}


def run(case: str) -> dict[str, Any]:
    """Evaluations of every run of a case, and the sum of its policies' absolute parameters."""
    name, changes = CASES[case]
    result = hindsight_rl.train(hosted_bits(4) if name == "hosted" else name, **{**SMALL, **changes})
    leaves = [np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(result.policies)]
    return {
        "mean_returns": result.evaluations.mean_returns.tolist(),
        "success_rates": result.evaluations.success_rates.tolist(),
        "parameters": math.fsum(np.abs(np.concatenate(leaves))),
    }


def machine() -> dict[str, str]:
    """The kind of machine, on which numbers are equal to the last bit."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    return {"processor": ", ".join(sorted(models)) or platform.processor(), "jax": jax.__version__}


if __name__ == "__main__":
    content = {"machine": machine(), "runs": {case: run(case) for case in CASES}}
    Path(sys.argv[1]).write_text(json.dumps(content, indent=1) + "\n")
