"""What hindsight costs: seconds of an update without it (GCPG) and with some or all of the goals that were reached."""

import time
from typing import Any

import jax
from image_update import Clock, our_update
from measured import in_rounds
from synthetic_episodes import batch

from hindsight_rl.agents.active_goals import active_goals
from hindsight_rl.environments.hosted import HostedEnvironment
from hindsight_rl.environments.registry import make
from hindsight_rl.experiments.paper import default_settings
from hindsight_rl.training.loop import make_agent

CAPS = {"3 goals": 3, "10 goals": 10, "all goals": None}


def measure_cost(name: str, rounds: int, clock: Clock = time.perf_counter) -> dict[str, Any]:
    """Seconds of an update for each number of goals, round by round."""
    environment = make(name)
    assert isinstance(environment, HostedEnvironment)
    episodes, key = batch(environment, name), jax.random.key(1)
    contestants, pooled = {}, {"GCPG": len(episodes.lengths)}
    for label, cap in {"GCPG": None, **CAPS}.items():
        method = "gcpg" if label == "GCPG" else "hpg"
        agent = make_agent(environment, default_settings(name, {"method": method, "max_active_goals": cap}))
        contestants[label] = our_update(agent, agent.init(jax.random.key(0)), episodes, key, clock)
        if label != "GCPG":
            pooled[label] = int(active_goals(environment, episodes, cap, key).present.sum())
    return {"seconds": in_rounds(contestants, rounds), "goals": pooled}
