"""Seconds of a batch on hosted environments, with the next batch played during the update and without, in turns.

python benchmarks/play_ahead.py
python benchmarks/play_ahead.py --environments gym:FetchReach-v4 --batches 10 --rounds 3
"""

import argparse
import os
import time
from dataclasses import replace
from statistics import median

from measured import in_rounds, middle_and_range
from rich.console import Console
from rich.table import Table

from hindsight_rl.experiments.configuration import resolve
from hindsight_rl.training.compilation import keep_compiled_programs
from hindsight_rl.training.loop import training
from hindsight_rl.training.program import Program, make_program
from hindsight_rl.training.settings import Settings


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", nargs="+", default=["gym:FetchReach-v4", "fetch-push"])
    parser.add_argument("--batches", type=int, default=10, help="in each round")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    console = Console(width=120, highlight=False)
    console.print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before we begin")
    keep_compiled_programs()
    table = Table("environment", "one after the other", "play ahead", "ratio", title="Seconds of a batch, hppo")
    for environment in arguments.environments:
        plain, ahead = measure(environment, arguments.batches, arguments.rounds)
        ratios = [one / other for one, other in zip(plain, ahead, strict=True)]
        table.add_row(environment, *map(middle_and_range, (plain, ahead, ratios)))
        console.print(f"  {environment}: {median(plain):.2f} and {median(ahead):.2f} s a batch")
    console.print(table)


def measure(environment: str, batches: int, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of a batch without and with, round by round."""
    job = resolve(environment, {"batches": batches, "evaluate_every": batches, "evaluation_episodes": 1})
    program = make_program(job.environment.task, job.settings)
    plain = job.settings
    ahead = replace(plain, play_ahead=True)
    seconds_of(program, replace(plain, batches=1))  # compiles
    contestants = {
        "plain": lambda: seconds_of(program, plain),
        "ahead": lambda: seconds_of(program, ahead),
    }
    found = in_rounds(contestants, rounds)
    return found["plain"], found["ahead"]


def seconds_of(program: Program, settings: Settings) -> float:
    """Of a batch, from the first evaluation to the next, which has one episode."""
    snapshots = training(program, settings, notice=lambda sentence: None)
    next(snapshots)
    began = time.perf_counter()
    next(snapshots)
    seconds = time.perf_counter() - began
    next(snapshots, None)  # closes the pool
    return seconds / settings.batches


if __name__ == "__main__":
    main()
