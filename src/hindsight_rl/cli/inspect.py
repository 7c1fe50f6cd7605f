"""The commands that look at what there is: environments, methods, and trained policies."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import numpy as np
from rich.table import Table

from hindsight_rl.analysis.animation import animate, draw
from hindsight_rl.analysis.video import film
from hindsight_rl.cli.commands import Check, Render
from hindsight_rl.cli.console import PlainConsole
from hindsight_rl.cli.evaluate import check_episodes
from hindsight_rl.cli.policies import beside, chosen
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.options import Option, described
from hindsight_rl.environments.contract import check_environment
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.environments.interface import Environment
from hindsight_rl.environments.registry import all_environments, find_entry, specify
from hindsight_rl.experiments.definition import trusting
from hindsight_rl.methods.registry import all_methods, find_method
from hindsight_rl.records.files import write_atomically
from hindsight_rl.rollout.trace import Acts, Trace, film_episode, trace
from hindsight_rl.training.keys import key_of

MOST_EPISODES = 10_000
"""To look at: every frame of them is held until the picture is made."""


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
        method = find_method(name)
        defaults = method.defaults(False)
        shown = [replace(one, default=defaults.get(one.name, one.default)) for one in method.visible]
        _print_options(f"{name}: {method.summary}", shown)
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
        if isinstance(shown, bool):
            shown = "yes" if shown else "no"
        table.add_row(one.flag, "" if shown is None else str(shown), one.help)
    PlainConsole().print(table)


def run_check(command: Check) -> None:
    """Check an environment, with a line for each check."""
    findings = list(check_environment(specify(command.environment, **command.options).task, command.seed))
    table = Table("check", "", "what was found", title=f"The contract of {command.environment}")
    for finding in findings:
        table.add_row(finding.check, "ok" if finding.passed else "FAILS", finding.sentence)
    PlainConsole().print(table)
    failed = [finding for finding in findings if not finding.passed]
    if failed:
        raise HindsightError(f"{command.environment} breaks its contract: {failed[0].sentence}")
    PlainConsole().print(f"All {len(findings)} checks passed.")


def run_render(command: Render) -> None:
    """Show greedy episodes as text and leave them as an animated GIF."""
    check_episodes(command.episodes, command.seed)
    _check_endings(command)
    if command.episodes > MOST_EPISODES:
        raise HindsightError(f"Nobody looks at {command.episodes:,} episodes: at most {MOST_EPISODES:,} are shown.")
    with trusting(command.folder, command.trust):
        policy, card = chosen(command.folder, command.checkpoint, command.policy)
        environment = card.specification.task
    if isinstance(environment, HostedTask):
        if command.output:
            raise HindsightError(f"A simulator is filmed, not drawn: give --video FILE, not --output {command.output}.")
        path = command.video or beside(command.folder, "policy.mp4")
        write_atomically(path, _film_or_sentence(environment, policy, command.episodes, command.seed))
        PlainConsole().print(f"Film: {path}", soft_wrap=True)
        return
    assert isinstance(environment, Environment)
    frames, holds = play_frames(environment, policy, command.episodes, command.seed, report=_print_episode)
    path = command.output or beside(command.folder, "policy.gif")
    write_atomically(path, animate(frames, holds=holds))
    PlainConsole().print(f"Animation: {path}", soft_wrap=True)
    if command.video:
        # Films have one pace: a frame that a GIF holds longer is repeated.
        pictures = [np.asarray(image) for image in draw(frames)]
        repeated = [picture for picture, hold in zip(pictures, holds, strict=True) for _ in range(round(hold / 350))]
        write_atomically(command.video, film(repeated, 1000 / 350))
        PlainConsole().print(f"Film: {command.video}", soft_wrap=True)


def _check_endings(command: Render) -> None:
    """The file that is written is what its name says."""
    for path, ending in ((command.output, ".gif"), (command.video, ".mp4")):
        if path is not None and path.suffix.lower() != ending:
            raise HindsightError(f"'{path}' must end in {ending}, which is what is written.")


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
    for number, key in enumerate(jax.random.split(key_of(seed), episodes), 1):
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
