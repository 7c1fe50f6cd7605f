"""An open question about values: how good is one that is fitted in hindsight?"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from question_tools import Kept, draw_lines, learn, panels, said, save, square_room

from hindsight_rl.environments.finite import FiniteProblem, finite_problem
from hindsight_rl.exact import exact_values, state_distributions

SIZE, HORIZON, SLIP = 7, 16, 0.4
HIDDEN = (64, 64)
Runs = dict[str, tuple[str, int, dict[str, Any]]]
"""By name: the method, its batches, its options."""
VALUE_RUNS: Runs = {
    "hppo": ("hppo", 40, {}),
    "ppo": ("ppo", 40, {}),
    "gcpg+b, 1e-3": ("gcpg+b", 400, {"hidden_layers": HIDDEN, "learning_rate": 1e-3, "baseline_learning_rate": 1e-3}),
    "gcpg+b, 1e-4": ("gcpg+b", 400, {"hidden_layers": HIDDEN, "learning_rate": 1e-3, "baseline_learning_rate": 1e-4}),
}


def hindsight_value() -> None:
    """How far a learned value is from the exact one of the policy that it belongs to."""
    kept = Kept("hindsight-value")
    problem = finite_problem(square_room(SIZE, SLIP, HORIZON))
    for name, (method, batches, options) in VALUE_RUNS.items():
        kept.get(name, partial(_unexplained, problem, method, batches, options))
    figure, axes = panels(["where the policy goes", "all states, goals and times"])
    for one, kind in zip(axes, ("visited", "everywhere"), strict=True):
        for number, name in enumerate(VALUE_RUNS):
            if name not in kept.found:
                continue
            found, quantity = kept.found[name], "unexplained share of variance"
            later = np.array(found[kind])[:, 1:]  # a logarithm has no room for the beginning
            draw_lines(one, found["episodes"][1:], {name: later}, "episodes", quantity, first=number)
        one.axhline(1, color="#333333", linewidth=0.8, linestyle="dotted")
        one.set_xscale("log")
        one.set_yscale("log")
    save("hindsight-value", figure)
    for name, found in kept.found.items():
        for kind in ("visited", "everywhere"):
            array = np.array(found[kind])
            print(f"hindsight-value, {name}, {kind}: best {said(array.min(axis=1))}, last {said(array[:, -1])}")


def _unexplained(problem: FiniteProblem, method: str, batches: int, options: dict[str, Any]) -> dict[str, Any]:
    """Squared errors of the learned value relative to the variance of the exact one, along training."""
    room = square_room(SIZE, SLIP, HORIZON)
    found: dict[str, Any] = {"episodes": [], "visited": [], "everywhere": []}
    for moment in learn(room, method, batches, batches // 10, **options):
        found["episodes"].append(int(moment.snapshot.evaluations.episodes[-1]))
        rows = []
        for agent in moment.agents():
            table, guess = learned(problem, method, agent)
            truth = exact_values(table, problem).values[:-1]
            weights = np.asarray(state_distributions(jnp.asarray(table), problem)) * problem.goal_probabilities
            everywhere = np.broadcast_to(~problem.reached, truth.shape)
            rows.append((_share(guess, truth, weights), _share(guess, truth, everywhere)))
        for kind, values in zip(("visited", "everywhere"), zip(*rows, strict=True), strict=True):
            found[kind].append(values)
    return {**found, **{kind: np.array(found[kind]).T.tolist() for kind in ("visited", "everywhere")}}


def _share(guess: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> float:
    weights = weights / weights.sum()
    mean = np.sum(weights * truth)
    return float(np.sum(weights * (guess - truth) ** 2) / np.sum(weights * (truth - mean) ** 2))


def learned(problem: FiniteProblem, method: str, agent: Any) -> tuple[np.ndarray, np.ndarray]:
    """The policy as a table, and V_t(s, g) as the agent sees it."""
    states, goals, times = len(problem.observations), len(problem.goals), problem.actions_per_episode
    observations = jnp.repeat(jnp.asarray(problem.observations, jnp.float32), goals, axis=0)
    asked = jnp.tile(jnp.asarray(problem.goals, jnp.float32), (states, 1))

    def over_time(value: Callable[[int], Any]) -> np.ndarray:
        return np.stack([np.asarray(value(time), np.float64).reshape(states, goals) for time in range(times)])

    if method.startswith("gcpg"):
        logs = agent.policy.log_probabilities(observations, asked)
        guess = over_time(lambda time: agent.baseline(observations, asked, jnp.full(len(asked), float(time))))
    else:
        shown = agent.inputs(observations, asked)
        logs = agent.learned.actor(*shown)
        critic = over_time(lambda time: agent.learned.critic(*shown, jnp.full(len(asked), time / times)))
        # Rewards are divided by the horizon, and counted from the pace for every step that is left.
        left = times - np.arange(times)
        guess = (critic + float(agent.pace) * left[:, None, None]) * (times + 1)
    table = np.exp(np.asarray(logs, np.float64)).reshape(states, goals, -1)
    return table / table.sum(axis=2, keepdims=True), guess
