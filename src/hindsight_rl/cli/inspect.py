"""The commands that look at what there is: environments, methods, and trained policies."""

import functools
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from rich.table import Table

from hindsight_rl.analysis.animation import animate, draw
from hindsight_rl.analysis.video import film
from hindsight_rl.cli.commands import Check, Evaluate, Render
from hindsight_rl.cli.compilation import keep_compiled_programs
from hindsight_rl.cli.console import PlainConsole
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.options import Option, described
from hindsight_rl.environments.contract import check_environment
from hindsight_rl.environments.hosted import HostedTask, check_workers
from hindsight_rl.environments.interface import Environment, Task
from hindsight_rl.environments.registry import all_environments, find_entry, specify
from hindsight_rl.experiments.definition import require_trust
from hindsight_rl.experiments.job import load_policies
from hindsight_rl.methods.registry import all_methods, find_method
from hindsight_rl.records.evaluations import summary
from hindsight_rl.records.files import write_atomically
from hindsight_rl.rollout.compiled import Outcomes, play
from hindsight_rl.rollout.hosted import open_pool, play_hosted
from hindsight_rl.rollout.trace import Acts, Trace, film_episode, trace

SLOTS = 32
"""Episodes of a hosted environment that are played side by side, whatever the number of workers."""


def list_environments(name: str = "") -> None:
    """A table with a line on each environment, or on each option of one."""
    if name:
        _print_options(f"{name}: {find_entry(name).summary}", described(find_entry(name).options))
        return
    table = Table("environment", "what it is")
    for known, entry in all_environments().items():
        table.add_row(known, entry.summary)
    PlainConsole().print(table)


def list_methods(name: str = "") -> None:
    """A table with a line on each method, or on each option of one."""
    if name:
        _print_options(f"{name}: {find_method(name).summary}", find_method(name).visible)
        return
    table = Table("method", "what it is")
    for known, method in all_methods().items():
        table.add_row(known, method.summary)
    PlainConsole().print(table)
    PlainConsole().print("`hindsight methods NAME` lists the options of one.")


def _print_options(title: str, options: Sequence[Option]) -> None:
    PlainConsole().print(title, soft_wrap=True)
    if not options:
        PlainConsole().print("It has no options.")
        return
    table = Table("option", "default", "what it does")
    for one in options:
        shown = " ".join(map(str, one.default)) if isinstance(one.default, tuple) else one.default
        table.add_row(one.flag, "" if shown is None else str(shown), one.help)
    PlainConsole().print(table)


def run_check(command: Check) -> None:
    """Check an environment, with a line for each check."""
    findings = list(check_environment(specify(command.environment).task, command.seed))
    table = Table("check", "", "what is wrong", title=f"The contract of {command.environment}")
    for finding in findings:
        table.add_row(finding.check, "ok" if finding.passed else "FAILS", finding.sentence)
    PlainConsole().print(table)
    failed = [finding for finding in findings if not finding.passed]
    if failed:
        raise HindsightError(f"{command.environment} breaks its contract: {failed[0].sentence}")
    PlainConsole().print(f"All {len(findings)} checks passed.")


def run_evaluate(command: Evaluate) -> None:
    """Evaluate the policies of a run folder."""
    _check(command.episodes, command.seed)
    keep_compiled_programs()
    require_trust(command.folder, command.trust)
    job, _, policies = load_policies(command.folder)
    check_workers([job.environment.task], command.workers)
    outcomes = _player(job.environment.task, command.episodes, command.seed, command.workers)
    results = [outcomes(policy) for policy in policies]
    rows = []
    for seed, result in zip(job.settings.seeds, results, strict=True):
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
    PlainConsole().print(table)
    PlainConsole().print(f"{command.episodes} greedy episodes each; ± is the standard error.")


def _player(task: Task, episodes: int, seed: int, workers: int | None) -> Callable[[Any], Outcomes]:
    """A function that lets a policy play greedy episodes."""
    key = jax.random.key(seed)

    def exploit(policy: Any, observations: Array, goals: Array, times: Array) -> Array:
        return jax.vmap(policy.act)(observations, goals, jnp.broadcast_to(times, observations.shape[:1]))

    if isinstance(task, Environment):
        return jax.jit(lambda policy: play(task, functools.partial(exploit, policy), episodes, key))
    assert isinstance(task, HostedTask)
    compiled = jax.jit(exploit)

    def play_with_workers(policy: Any) -> Outcomes:
        with open_pool(task, min(episodes, SLOTS), workers, _notice) as pool:
            return play_hosted(task, pool, functools.partial(compiled, policy), episodes, key)

    return play_with_workers


def _notice(sentence: str) -> None:
    PlainConsole(stderr=True).print(sentence, soft_wrap=True)


def run_render(command: Render) -> None:
    """Show greedy episodes as text and leave them as an animated GIF."""
    _check(command.episodes, command.seed)
    require_trust(command.folder, command.trust)
    job, _, policies = load_policies(command.folder)
    if not 0 <= command.policy < len(policies):
        raise HindsightError(f"'{command.folder}' holds the runs 0 to {len(policies) - 1}, not {command.policy}.")
    environment = job.environment.task
    policy = policies[command.policy]
    if isinstance(environment, HostedTask):
        path = command.video or command.folder / "policy.mp4"
        write_atomically(path, _film_or_sentence(environment, policy, command.episodes, command.seed))
        PlainConsole().print(f"Film: {path}", soft_wrap=True)
        return
    assert isinstance(environment, Environment)
    frames, holds = play_frames(environment, policy, command.episodes, command.seed, report=_print_episode)
    path = command.output or command.folder / "policy.gif"
    write_atomically(path, animate(frames, holds=holds))
    PlainConsole().print(f"Animation: {path}", soft_wrap=True)
    if command.video:
        # Films have one pace: a frame that a GIF holds longer is repeated.
        pictures = [np.asarray(image) for image in draw(frames)]
        repeated = [picture for picture, hold in zip(pictures, holds, strict=True) for _ in range(round(hold / 350))]
        write_atomically(command.video, film(repeated, 1000 / 350))
        PlainConsole().print(f"Film: {command.video}", soft_wrap=True)


def _film_or_sentence(task: HostedTask, policy: Acts, episodes: int, seed: int) -> bytes:
    """The film, or one sentence: a viewer that could not be made would complain again when it is thrown away."""
    said, complain = "", sys.unraisablehook
    sys.unraisablehook = lambda unraisable: None
    try:
        return _film(task, policy, episodes, seed)
    except HindsightError as error:
        said = str(error)
    finally:
        sys.unraisablehook = complain
    raise HindsightError(said)


def _film(task: HostedTask, policy: Acts, episodes: int, seed: int) -> bytes:
    """Greedy episodes of a hosted environment, each with a moment's rest at its end."""
    simulator = task.source(pictures=True).build()
    pictures = []
    try:
        for number in range(1, episodes + 1):
            episode = film_episode(task, simulator, policy, seed + number)
            task.raise_fault()
            outcome = "reached its goal" if episode.reached else "did not reach its goal"
            steps = len(episode.pictures) - 1
            PlainConsole().print(f"Episode {number} {outcome} in {steps} steps, return {episode.total_return:g}")
            pictures += episode.pictures + [episode.pictures[-1]] * 5
    finally:
        simulator.close()
    return film(pictures, 10)


def animate_policy(environment: Environment, policy: Acts, episodes: int, seed: int) -> bytes:
    """Greedy episodes as a GIF."""
    frames, holds = play_frames(environment, policy, episodes, seed)
    return animate(frames, holds=holds)


def play_frames(
    environment: Environment,
    policy: Acts,
    episodes: int,
    seed: int,
    report: Callable[[int, Trace, list[str]], None] = lambda number, episode, pictures: None,
) -> tuple[list[tuple[str, str]], list[int]]:
    """Greedy episodes in text with captions, and how many milliseconds to look at each frame.

    `report` is called with the number, course and pictures of each episode.
    """
    frames: list[tuple[str, str]] = []
    holds: list[int] = []
    for number, key in enumerate(jax.random.split(jax.random.key(seed), episodes), 1):
        episode = trace(environment, policy, key)
        pictures = [environment.render(state, episode.goal) for state in episode.states]
        report(number, episode, pictures)
        frames += [(f"episode {number}, step {step}", picture) for step, picture in enumerate(pictures)]
        holds += [350] * (len(pictures) - 1) + [1200]
    return frames, holds


def _print_episode(number: int, episode: Trace, pictures: list[str]) -> None:
    """The pictures of an episode side by side, as many in a row as fit the terminal."""
    console = PlainConsole()
    outcome = f"reached its goal after {len(pictures) - 1} steps" if episode.reached else "did not reach its goal"
    console.print(f"Episode {number} {outcome}, return {episode.total_return:g}")
    width = len(pictures[0].splitlines()[0]) + 3
    across = max(1, console.width // width)
    for start in range(0, len(pictures), across):
        blocks = [picture.splitlines() for picture in pictures[start : start + across]]
        for line in zip(*blocks, strict=True):
            console.print("   ".join(line))
        console.print()


def _check(episodes: int, seed: int) -> None:
    if episodes < 1:
        raise HindsightError(f"episodes must be at least 1, not {episodes}.")
    if not 0 <= seed < 2**32:
        raise HindsightError(f"seed must lie between 0 and {2**32 - 1}, not {seed}.")
