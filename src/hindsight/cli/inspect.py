"""The commands that look at what there is: environments, methods, and trained policies."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from hindsight.agents.registry import METHODS
from hindsight.analysis.animation import animate
from hindsight.cli.commands import Evaluate, Render
from hindsight.cli.compilation import keep_compiled_programs
from hindsight.core.errors import HindsightError
from hindsight.environments.interface import Environment
from hindsight.environments.registry import ENVIRONMENTS
from hindsight.experiments.job import load_job, load_policies
from hindsight.records.evaluations import summary
from hindsight.records.files import write_atomically
from hindsight.rollout.compiled import play
from hindsight.rollout.trace import Acts, Trace, trace


def list_environments() -> None:
    """A table with a line on each environment."""
    table = Table("environment", "what it is")
    for name, entry in ENVIRONMENTS.items():
        table.add_row(name, entry.summary)
    Console().print(table)


def list_methods() -> None:
    """A table with a line on each method."""
    table = Table("method", "what it is")
    for name, method in METHODS.items():
        table.add_row(name, method.summary)
    Console().print(table)


def run_evaluate(command: Evaluate) -> None:
    """Evaluate the policies of a run folder."""
    _check(command.episodes, command.seed)
    keep_compiled_programs()
    job, policies = load_job(command.folder), load_policies(command.folder)
    environment = job.environment.build()

    @jax.jit
    def outcomes(policy: Any) -> Any:
        def exploit(observations: Any, goals: Any, time: Any) -> Any:
            return jax.vmap(policy.act)(observations, goals)

        return play(environment, exploit, command.episodes, jax.random.key(command.seed))

    rows = []
    for seed, policy in zip(job.settings.seeds, policies, strict=True):
        result = outcomes(policy)
        returns = np.asarray(result.returns, dtype=np.float64)
        error = float(returns.std() / np.sqrt(len(returns)))
        success = float(np.mean(result.successes))
        rows.append({"seed": seed, "mean_return": float(returns.mean()), "error": error, "success_rate": success})
    if command.json:
        content = {"environment": job.environment.id, "method": job.settings.method, "episodes": command.episodes}
        overall = {name: summary(np.array([row[name] for row in rows])) for name in ("mean_return", "success_rate")}
        print(json.dumps({**content, **overall, "runs": rows}))
        return
    table = Table("run", "seed", "mean return", "success rate")
    for number, row in enumerate(rows):
        mean = f"{row['mean_return']:.3f} ± {row['error']:.3f}"
        table.add_row(str(number), str(row["seed"]), mean, f"{row['success_rate']:.1%}")
    Console().print(table)
    Console().print(f"{command.episodes} greedy episodes each; ± is the standard error.", highlight=False)


def run_render(command: Render) -> None:
    """Show greedy episodes as text and leave them as an animated GIF."""
    _check(command.episodes, command.seed)
    job, policies = load_job(command.folder), load_policies(command.folder)
    if not 0 <= command.policy < len(policies):
        raise HindsightError(f"'{command.folder}' holds the runs 0 to {len(policies) - 1}, not {command.policy}.")
    environment = job.environment.build()
    path: Path = command.output or command.folder / "policy.gif"
    animation = animate_policy(
        environment, policies[command.policy], command.episodes, command.seed, report=_print_episode
    )
    write_atomically(path, animation)
    Console().print(f"Animation: {path}", highlight=False, soft_wrap=True)


def animate_policy(
    environment: Environment,
    policy: Acts,
    episodes: int,
    seed: int,
    report: Callable[[int, Trace, list[str]], None] = lambda number, episode, pictures: None,
) -> bytes:
    """Greedy episodes as a GIF; `report` is called with the number, course and pictures of each."""
    frames: list[tuple[str, str]] = []
    holds: list[int] = []
    for number, key in enumerate(jax.random.split(jax.random.key(seed), episodes), 1):
        episode = trace(environment, policy, key)
        pictures = [environment.render(state, episode.goal) for state in episode.states]
        report(number, episode, pictures)
        frames += [(f"episode {number}, step {step}", picture) for step, picture in enumerate(pictures)]
        holds += [350] * (len(pictures) - 1) + [1200]
    return animate(frames, holds=holds)


def _print_episode(number: int, episode: Trace, pictures: list[str]) -> None:
    """The pictures of an episode side by side, as many in a row as fit the terminal."""
    console = Console()
    outcome = f"reached its goal after {len(pictures) - 1} steps" if episode.reached else "did not reach its goal"
    console.print(f"Episode {number} {outcome}, return {episode.total_return:g}", highlight=False)
    width = len(pictures[0].splitlines()[0]) + 3
    across = max(1, console.width // width)
    for start in range(0, len(pictures), across):
        blocks = [picture.splitlines() for picture in pictures[start : start + across]]
        for line in zip(*blocks, strict=True):
            console.print("   ".join(line), highlight=False, markup=False)
        console.print()


def _check(episodes: int, seed: int) -> None:
    if episodes < 1:
        raise HindsightError(f"episodes must be at least 1, not {episodes}.")
    if not 0 <= seed < 2**32:
        raise HindsightError(f"seed must lie between 0 and {2**32 - 1}, not {seed}.")
