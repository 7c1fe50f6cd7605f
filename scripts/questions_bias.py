"""The hindsight bias of relabelling where actions slip: with infinite data, and as networks learn it."""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from question_tools import Kept, draw_points, learn, panels, said, save, square_room
from questions_values import HIDDEN, HORIZON, SIZE, Runs, learned

from hindsight_rl.analysis.figures import COLOURS
from hindsight_rl.environments.finite import FiniteProblem, finite_problem
from hindsight_rl.exact import exact_values

SLIPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
SHARES = (0.5, 0.8, 1.0)
"""Of relabelled transitions in the data; four relabelled goals beside the pursued one make 0.8."""
SLIP = 0.4
REPLAY = {"discount": 1.0, "hidden_layers": HIDDEN}
FUTURE = {"relabelling": "future", "relabelled_goals": 4, "redraw_goals": True}
NETWORKS: Runs = {
    "dqn": ("dqn", 100, REPLAY),
    "dqn+her": ("dqn+her", 100, {**REPLAY, **FUTURE}),
    "hppo, none\nachieved": ("hppo", 40, {"achieved_share": 0.0, "earlier_share": 0.0, "own_share": 0.1}),
    "hppo, 40 %\nachieved": ("hppo", 40, {}),
    "hppo, all\nachieved": ("hppo", 40, {"achieved_share": 1.0, "earlier_share": 0.0, "own_share": 0.0}),
}


def hindsight_bias() -> None:
    """Do values that are fitted to achieved goals promise too much where actions slip?"""
    kept = Kept("hindsight-bias")
    for share in SHARES:
        kept.get(f"exact, share {share:g}", partial(_limits, share))
    exact = {share: kept.found[f"exact, share {share:g}"] for share in SHARES}
    for slip in (SLIP, 0.0):
        for name, (method, batches, options) in NETWORKS.items():
            kept.get(f"{name}, slip {slip:g}", partial(_networks, slip, method, batches, options))
    titles = ["infinite data: promised too much", "infinite data: what it costs", "Q-networks", "HPPO's critic"]
    figure, axes = panels(titles, 3.7)
    for number, (share, rows) in enumerate(exact.items()):
        promised, got, best = np.array(rows).T
        label = f"{share:.0%} relabelled"
        axes[0].plot(SLIPS, promised - best, marker="o", ms=3.5, color=COLOURS[number], label=label)
        axes[1].plot(SLIPS, 100 * (1 - got / best), marker="o", ms=3.5, color=COLOURS[number], label=label)
    axes[0].set_ylabel("learned minus best value at start")
    axes[1].set_ylabel("return lost by acting on it, %")
    for one in axes[:2]:
        one.set_xlabel("slip")
        one.legend(frameon=False, fontsize=8.5)
    for one, q_networks in zip(axes[2:], (True, False), strict=True):
        groups = {
            f"{name.removeprefix('hppo, ')}\nslip {slip:g}": kept.found[f"{name}, slip {slip:g}"]["bias"]
            for name, (method, _, _) in NETWORKS.items()
            for slip in (0.0, SLIP)
            if method.startswith("dqn") == q_networks and f"{name}, slip {slip:g}" in kept.found
        }
        draw_points(one, groups, "learned minus exact value at start", zero=True)
        one.tick_params(axis="x", labelsize=7.5)
    save("hindsight-bias", figure)
    for share, rows in exact.items():
        for slip, (promised, got, best) in zip(SLIPS, rows, strict=True):
            print(f"hindsight-bias, exact, {share:g}, slip {slip:g}: {promised:.3f}, gets {got:.3f} of {best:.3f}")
    for name, found in kept.found.items():
        if isinstance(found, dict):
            print(f"hindsight-bias, {name!r}: " + ", ".join(f"{kind} {said(of)}" for kind, of in found.items()))


def _limits(share: float) -> list[tuple[float, float, float]]:
    """For each slip: the value at the start that relabelled data teach, what acting on it gets, and the best one."""
    found = []
    for slip in SLIPS:
        problem = finite_problem(square_room(SIZE, slip, HORIZON))
        promised, policy = relabelled_values(problem, share)
        best, _ = relabelled_values(problem, 0.0)
        got = _return_of(policy, problem)
        found.append((_at_start(problem, promised), got, _at_start(problem, best)))
    return found


def relabelled_values(problem: FiniteProblem, share: float) -> tuple[np.ndarray, np.ndarray]:
    """V_0(s, g) and greedy actions [time, state, goal] of Q-learning on infinite data, a share of it relabelled.

    The data are episodes of uniformly random actions that last to the horizon. An action at time t is relabelled with
    a state drawn from all later ones (`future`). Given such a goal g, the next state is s' with a probability in
    proportion to p(s' | s, a) times that of being at g at the drawn time: luck that led towards g is seen too often.
    """
    steps = problem.transition_probabilities[0]
    walk = steps.mean(axis=1)
    cells = problem.reached.astype(np.float64)
    times = problem.actions_per_episode
    # ahead[n][s', g]: the mean over 0 to n further random steps of the probability of being at g.
    powers, ahead = cells, [cells]
    for number in range(1, times):
        powers = walk @ powers
        ahead.append(ahead[-1] + (powers - ahead[-1]) / (number + 1))
    values, actions = np.zeros(problem.reached.shape), []
    for time in reversed(range(times)):
        arriving = problem.rewards[time] + np.where(problem.reached, 0, values)
        luck = ahead[times - 1 - time]
        seen = np.tensordot(steps, luck, axes=1)
        lucky = np.tensordot(steps, luck * arriving, axes=1) / np.where(seen > 0, seen, 1)
        plain = np.tensordot(steps, arriving, axes=1)
        # How often a pair of state, action and goal is relabelled, beside how often it is pursued.
        relabelled, pursued = share * seen, (1 - share) * problem.goal_probabilities
        total = relabelled + pursued
        mixed = (relabelled * lucky + pursued * plain) / np.where(total > 0, total, 1)
        actions.append(mixed.argmax(axis=1))
        values = mixed.max(axis=1)
    return values, np.array(actions[::-1])


def _return_of(actions: np.ndarray, problem: FiniteProblem) -> float:
    """The expected return of actions that depend on time, by going backwards."""
    values = np.zeros(problem.reached.shape)
    for time in reversed(range(problem.actions_per_episode)):
        arriving = problem.rewards[time] + np.where(problem.reached, 0, values)
        outcomes = np.tensordot(problem.transition_probabilities[0], arriving, axes=1)
        values = np.take_along_axis(outcomes, actions[time][:, None], axis=1)[:, 0]
    return _at_start(problem, values)


def _at_start(problem: FiniteProblem, values: np.ndarray) -> float:
    return float(problem.start_probabilities @ values @ problem.goal_probabilities)


def _networks(slip: float, method: str, batches: int, options: dict[str, Any]) -> dict[str, Any]:
    """Learned minus exact value of the first state, on average over goals; and the return of the learned policy.

    Q-networks are compared with the best possible values, a critic with those of its own policy.
    """
    room = square_room(SIZE, slip, HORIZON)
    problem = finite_problem(room)
    *_, last = learn(room, method, batches, batches, **options)
    best, _ = relabelled_values(problem, 0.0)
    found: dict[str, Any] = {"bias": [], "return": last.snapshot.evaluations.mean_returns[:, -1].tolist()}
    for agent in last.agents():
        if method.startswith("dqn"):
            guess, truth = _greatest(problem, agent), best
        else:
            table, values = learned(problem, method, agent)
            guess, truth = values[0], exact_values(table, problem).values[0]
        found["bias"].append(_at_start(problem, guess - truth))
    return found


def _greatest(problem: FiniteProblem, agent: Any) -> np.ndarray:
    """max over a of Q_0(s, g, a)."""
    states, goals = len(problem.observations), len(problem.goals)
    observations = jnp.repeat(jnp.asarray(problem.observations, jnp.float32), goals, axis=0)
    asked = jnp.tile(jnp.asarray(problem.goals, jnp.float32), (states, 1))
    values = agent.network(observations, asked, jnp.zeros(len(asked), jnp.int32))
    return np.asarray(values, np.float64).max(axis=1).reshape(states, goals)
