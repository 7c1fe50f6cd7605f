"""What hindsight costs: seconds of an update without it (GCPG) and with some or all of the goals that were reached."""

import time
from typing import Any

import jax
from image_update import Clock, our_update
from measured import in_rounds
from synthetic_episodes import batch

from hindsight_rl.agents.active_goals import active_goals, pursued_goals
from hindsight_rl.agents.options import HindsightOptions
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.experiments.configuration import resolve
from hindsight_rl.training.program import make_program

CAPS = {"3 goals": 3, "10 goals": 10, "all goals": None}


def measure_cost(name: str, rounds: int, clock: Clock = time.perf_counter) -> dict[str, Any]:
    """Seconds of an update for each number of goals, round by round."""
    given: dict[str, dict[str, Any]] = {"GCPG": {"method": "gcpg"}}
    given |= {label: {"method": "hpg", "max_active_goals": cap} for label, cap in CAPS.items()}
    key = jax.random.key(1)
    contestants, pooled = {}, {}
    for label, chosen in given.items():
        job = resolve(name, chosen)
        task, options = job.environment.task, job.settings.options
        assert isinstance(task, HostedTask)
        episodes = batch(task, name)
        agent = make_program(task, job.settings).agent
        contestants[label] = our_update(agent, agent.init(jax.random.key(0)), episodes, key, clock)
        hindsight = isinstance(options, HindsightOptions)
        goals = active_goals(task, episodes, key, options) if hindsight else pursued_goals(task, episodes)
        pooled[label] = int(goals.present.sum())
    return {"seconds": in_rounds(contestants, rounds), "goals": pooled}
