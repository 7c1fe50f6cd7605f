"""Hindsight PPO beside stable-baselines3: gradient steps and episodes per second, and the share of the matmul peak.

Run it with `make bench`. On compiled environments PPO and DQN+HER stand beside it, on a robot PPO, SAC+HER and bare
simulators. Everything is measured in one run on the same cores, the contestants taking turns: machines are noisy.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from bare_simulators import BareSimulators
from hppo_contestants import MINIBATCH, Clock, Ours, Theirs, rate
from measured import in_rounds, middle_and_range, need
from replay_speed import torch_threads
from rich.console import Console
from rich.table import Table
from speed import matmul_gigaflops

from hindsight_rl.agents.hppo_samples import work_of
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.training.compilation import keep_compiled_programs

ARENAS = {
    "bit-flipping-16": ("PPO", "DQN"),
    "four-rooms": ("PPO", "DQN"),
    "gym:FetchReach-v4": ("PPO", "SAC"),
}
OURS, DEFAULTS, BARE, PEAK = "hppo", "hppo, default minibatches", "bare simulators", "peak"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run: one short round of everything")
    busy = "on a busy machine: measure in processor time, which other work hardly changes (of robots learning alone)"
    parser.add_argument("--busy", action="store_true", help=busy)
    parser.add_argument("--environments", nargs="+", choices=ARENAS, default=list(ARENAS))
    arguments = parser.parse_args()
    console = Console(width=120, highlight=False)
    console.print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before we begin")
    keep_compiled_programs()
    clock = time.process_time if arguments.busy else time.perf_counter
    try:
        need("torch")
        need("stable_baselines3")
        for environment in arguments.environments:
            console.print(f"  measuring {environment}")
            report(console, environment, *((0.2, 1) if arguments.quick else (1.0, 3)), clock)
    except HindsightError as error:
        sys.exit(str(error))
    console.print(
        f"All play 16 episodes, then take as many gradient steps on minibatches of {MINIBATCH} decisions, with layers\n"
        "as wide. times: ours over theirs, round by round. free: as if their environment took no time, which those\n"
        "that are compiled do take when they are called step by step. of peak: multiplications of networks, in\n"
        "gradient steps and in looks at drawn pairs, beside the most that the machine multiplied in any round."
    )


def report(console: Console, environment: str, seconds: float, rounds: int, clock: Clock) -> None:
    """Measure an environment, and print its tables."""
    hosted = environment.startswith("gym:")
    with ExitStack() as stack:
        ours = {OURS: Ours(environment, minibatch=MINIBATCH), DEFAULTS: Ours(environment)}
        for each in ours.values():
            stack.callback(each.close)
        theirs = {kind: Theirs(kind, environment, clock) for kind in ARENAS[environment]}
        everyone: dict[str, Ours | Theirs] = {**ours, **theirs}
        # In processor time a second thread only costs.
        threads = 1 if clock is time.process_time else best_threads(list(theirs.values()))
        stack.enter_context(torch_threads(threads))
        console.print(f"  PyTorch on {threads} of its threads")
        learning: dict[str, Any] = {name: _learning(who, seconds, clock) for name, who in everyone.items()}
        learned = in_rounds({**learning, PEAK: lambda: matmul_gigaflops(clock)}, rounds)
        training: dict[str, Any] = {name: _training(who, seconds, clock) for name, who in everyone.items()}
        trained = {} if hosted and clock is time.process_time else in_rounds(training, rounds)
        print_learners(console, environment, everyone, learned, trained)
        if hosted:
            print_simulators(console, environment, ours[DEFAULTS], seconds, rounds)


def best_threads(theirs: Sequence[Theirs]) -> int:
    """The number of threads with which their learning is fastest: small matrices gain little from a second one."""
    seconds = {}
    for threads in sorted({1, os.cpu_count() or 1}):
        with torch_threads(threads):
            began = time.perf_counter()
            for each in theirs:
                each.learn()
            seconds[threads] = time.perf_counter() - began
    return min(seconds, key=lambda threads: seconds[threads])


def _learning(who: Ours | Theirs, seconds: float, clock: Clock) -> Callable[[], float]:
    """Gradient steps per second, without playing."""
    done = [0]

    def learn() -> None:
        who.learn()
        done[0] += who.gradient_steps

    return lambda: rate(lambda: done[0], learn, seconds, clock)


def _training(who: Ours | Theirs, seconds: float, clock: Clock) -> Callable[[], tuple[float, float]]:
    """Episodes per second of training, and as if the environment had taken no time."""

    def measure() -> tuple[float, float]:
        spent, episodes = who.seconds_in_environment, who.episodes
        found = rate(lambda: who.episodes, who.train, seconds, clock)
        played = who.episodes - episodes
        return found, played / (played / found - (who.seconds_in_environment - spent))

    return measure


def print_learners(
    console: Console,
    environment: str,
    everyone: dict[str, Ours | Theirs],
    learned: dict[str, list[float]],
    trained: dict[str, Any],
) -> None:
    """Gradient steps of learning alone, and episodes of training; `trained` may be empty."""
    peak = max(learned[PEAK])
    table = Table(title=f"{environment}: medians (lowest-highest)")
    for column in ("who", "gradient steps/s", "times", "of peak", "episodes/s", "times", "free", "times"):
        table.add_column(column, justify="left" if column == "who" else "right")
    for name, who in everyone.items():
        alone, theirs = learned[name], isinstance(who, Theirs)
        row = [f"SB3 {name}{'' if name == 'PPO' else '+HER'}" if theirs else name, middle_and_range(alone)]
        row.append(_times(learned[OURS], alone) if theirs else "")
        work = 0.0 if isinstance(who, Theirs) else gigaflops(who) / peak
        row.append("" if theirs else middle_and_range([work * one for one in alone], ".0%"))
        if trained:
            whole, free = ([value[which] for value in trained[name]] for which in (0, 1))
            own = [value for value, _ in trained[OURS]]
            row += [middle_and_range(whole), _times(own, whole) if theirs else ""]
            row += [middle_and_range(free), _times(own, free)] if theirs else []
        table.add_row(*row)
    console.print(table)
    console.print(f"Matrix multiplication, 2048x2048 in float32: {middle_and_range(learned[PEAK], '.0f')} GFLOP/s")


def print_simulators(console: Console, environment: str, player: Ours, seconds: float, rounds: int) -> None:
    """Steps of simulators on all cores: bare ones, our rollouts, and training with all of its gradient steps."""
    arguments = environment.removeprefix("gym:"), player.task.horizon - 1
    with BareSimulators("gymnasium", arguments, os.cpu_count() or 1) as bare:
        bare.steps_per_second(seconds)
        contestants = {
            BARE: lambda: bare.steps_per_second(seconds),
            "rollouts": lambda: rate(lambda: player.steps, player.play, seconds),
            "training": lambda: rate(lambda: player.steps, player.train, seconds),
        }
        found = in_rounds(contestants, rounds)
    table = Table("simulator steps per second", "", "share of bare ones", title=f"{environment}, defaults")
    for name, values in found.items():
        table.add_row(name, middle_and_range(values, ".0f"), middle_and_range(_over(values, found[BARE]), ".0%"))
    console.print(table)


def gigaflops(ours: Ours) -> float:
    """Of a gradient step's multiplications, with its share of the looks at drawn pairs.

    Forwards and twice as many backwards, but for the gradients of inputs, which nobody asks for.
    """
    learned, options, horizon = ours.agent.learned, ours.settings.options, ours.task.horizon
    step, look = 0.0, 0.0
    for network, states in ((learned.actor.network, horizon - 1), (learned.critic.network, horizon)):
        first, *others = network.network.weights
        entry = 2 * (first.size + network.direct.size)
        rest = sum(2 * weight.size for weight in others)
        step += 2 * entry + 3 * rest
        look += states * (entry + rest)
    work = work_of(ours.task, options)
    return float(work.minibatch * step + work.pairs * look / options.steps_per_draw) / 1e9


def _times(upper: Sequence[float], lower: Sequence[float]) -> str:
    return f"{middle_and_range(_over(upper, lower))}x"


def _over(upper: Sequence[float], lower: Sequence[float]) -> list[float]:
    """Round by round: both numbers of a ratio were measured within seconds of one another."""
    return [one / other for one, other in zip(upper, lower, strict=True)]


if __name__ == "__main__":
    main()
