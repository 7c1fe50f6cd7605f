"""`hindsight evaluate`: greedy episodes of trained policies, with goals that are drawn or that the user gives."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from rich.table import Table

from hindsight_rl.analysis.words import counted
from hindsight_rl.cli.commands import Evaluate
from hindsight_rl.cli.console import PlainConsole
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.memory import MOST_BYTES_OF_TEXT
from hindsight_rl.environments.hosted import HostedTask, check_workers
from hindsight_rl.environments.interface import Environment, Task
from hindsight_rl.experiments.definition import trusting
from hindsight_rl.experiments.policies import load_known
from hindsight_rl.records.evaluations import summary
from hindsight_rl.records.files import read_bytes
from hindsight_rl.rollout.compiled import Outcomes, play
from hindsight_rl.rollout.hosted import open_pool, play_hosted
from hindsight_rl.training.compilation import keep_compiled_programs
from hindsight_rl.training.keys import key_of
from hindsight_rl.training.memory import require_memory_of_episodes

SLOTS = 32
"""Episodes of a hosted environment that are played side by side, whatever the number of workers."""


def run_evaluate(command: Evaluate) -> None:
    """Evaluate the policies of a folder or a file."""
    check_episodes(command.episodes, command.seed)
    keep_compiled_programs()
    with trusting(command.folder, command.trust):
        known = load_known(command.folder, command.checkpoint)
        card = known[0].card
        environment = card.specification
        task = environment.task
    if any(each.card.environment != card.environment for each in known):
        raise HindsightError(f"The policies in '{command.folder}' belong to several environments: name one file.")
    check_workers([task], command.workers)
    require_memory_of_episodes(command.episodes, isinstance(task, HostedTask))
    goals = read_goals(command, task)
    outcomes = player(task, command.episodes, command.seed, command.workers, goals)
    rows = [_row(each.card.seed, outcomes(each.policy), goals) for each in known]
    if command.json:
        content = {"environment": environment.id, "method": card.settings.method, "episodes": command.episodes}
        overall = {name: summary(np.array([row[name] for row in rows])) for name in ("mean_return", "success_rate")}
        print(json.dumps({**content, **overall, "runs": rows}))
        return
    _print(rows, command.episodes, goals)


def _row(seed: int | None, result: Outcomes, goals: np.ndarray | None) -> dict[str, Any]:
    returns, successes = np.asarray(result.returns, dtype=np.float64), np.asarray(result.successes)
    row: dict[str, Any] = {"seed": seed, **_figures(returns, successes)}
    if goals is not None:
        numbers = np.arange(len(returns)) % len(goals)
        row["goals"] = [
            {"goal": goal.tolist(), **_figures(returns[numbers == number], successes[numbers == number])}
            for number, goal in enumerate(goals)
        ]
    return row


def _figures(returns: np.ndarray, successes: np.ndarray) -> dict[str, float]:
    error = float(returns.std() / np.sqrt(len(returns)))
    return {"mean_return": float(returns.mean()), "error": error, "success_rate": float(np.mean(successes))}


def _print(rows: list[dict[str, Any]], episodes: int, goals: np.ndarray | None) -> None:
    def figures(row: dict[str, Any]) -> tuple[str, str]:
        return f"{row['mean_return']:.3f} ± {row['error']:.3f}", f"{row['success_rate']:.1%}"

    table = Table("run", "seed", *(["goal"] if goals is not None else []), "mean return", "success rate")
    for number, row in enumerate(rows):
        for part in row.get("goals", [row]):
            goal = [" ".join(f"{value:g}" for value in np.ravel(part["goal"]))] if goals is not None else []
            table.add_row(str(number), str(row["seed"]), *goal, *figures(part))
    PlainConsole().print(table)
    shared = f", shared by {counted(len(goals), 'goal')}" if goals is not None else ""
    PlainConsole().print(f"{episodes} greedy episodes each{shared}; ± is the standard error.")


def read_goals(command: Evaluate, task: Task) -> np.ndarray | None:
    """The goals that the user gives, one after another, or None."""
    if command.goals is None and not command.goal:
        return None
    if command.goals is not None and command.goal:
        raise HindsightError("Give goals with --goal or with --goals, not with both.")
    size = int(np.prod(task.goal_shape))
    where = "--goal" if command.goals is None else f"'{command.goals}'"
    numbers = list(command.goal) if command.goals is None else _numbers(command.goals, size)
    if not numbers or len(numbers) % size:
        raise HindsightError(
            f"A goal of this environment has {counted(size, 'number')}, but {where} has {len(numbers)}."
        )
    goals = np.array(numbers, np.float32).reshape(-1, *task.goal_shape)
    if not np.isfinite(goals).all():
        raise HindsightError(f"The goals in {where} are not all finite numbers.")
    if command.episodes < len(goals):
        raise HindsightError(f"{command.episodes} episodes are fewer than the {len(goals)} goals: ask for more.")
    never = goals[~(np.asarray(jax.vmap(task.goal_probability)(jnp.asarray(goals))) > 0)]
    if len(never):
        shown = " ".join(f"{value:g}" for value in np.ravel(never[0]))
        _notice(f"{counted(len(never), 'goal')} ({shown}{', ...' * (len(never) > 1)}) the environment never draws.")
    return goals


def _numbers(path: Path, size: int) -> list[float]:
    """The numbers in a text file with a goal in each line, between commas or blanks; `#` begins a remark."""
    content = read_bytes(path, MOST_BYTES_OF_TEXT)
    try:
        lines = [line.partition("#")[0].replace(",", " ").split() for line in content.decode().splitlines()]
        rows = [[float(word) for word in words] for words in lines if words]
    except ValueError as error:  # nor is it text
        raise HindsightError(f"'{path}' must hold a goal in each line, as numbers: {error}.") from None
    for number, row in enumerate(rows, 1):
        if len(row) != size:
            raise HindsightError(f"Goal {number} in '{path}' has {len(row)} of {counted(size, 'number')}.")
    return [value for row in rows for value in row]


def player(
    task: Task, episodes: int, seed: int, workers: int | None, goals: np.ndarray | None = None
) -> Callable[[Any], Outcomes]:
    """A function that lets a policy play greedy episodes; given goals take turns."""
    key = key_of(seed)
    wanted: Any = None if goals is None else goals[np.arange(episodes) % len(goals)]

    def exploit(policy: Any, observations: Array, goals: Array, times: Array) -> Array:
        return jax.vmap(policy.act)(observations, goals, jnp.broadcast_to(times, observations.shape[:1]))

    if isinstance(task, Environment):
        return jax.jit(lambda policy: play(task, functools.partial(exploit, policy), episodes, key, wanted))
    assert isinstance(task, HostedTask)
    compiled = jax.jit(exploit)

    def play_with_workers(policy: Any) -> Outcomes:
        with open_pool(task, min(episodes, SLOTS), workers, _notice) as pool:
            return play_hosted(task, pool, functools.partial(compiled, policy), episodes, key, wanted)

    return play_with_workers


def check_episodes(episodes: int, seed: int) -> None:
    """Refuse numbers that cannot be."""
    if episodes < 1:
        raise HindsightError(f"episodes must be at least 1, not {episodes}.")
    require_memory_of_episodes(episodes)
    if not 0 <= seed < 2**32:
        raise HindsightError(f"seed must lie between 0 and {2**32 - 1}, not {seed}.")


def _notice(sentence: str) -> None:
    PlainConsole(stderr=True).print(sentence, soft_wrap=True)
