"""Hosted environments: rollouts beside bare simulators, updates on pictures beside PyTorch, the cost of hindsight.

Run it with `make bench`. Everything is measured in one run, the contestants taking turns, because machines are noisy.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from measured import middle_and_range, need
from rich.console import Console
from rich.table import Table

from hindsight_rl.core.errors import HindsightError

Clock = Callable[[], float]
PARTS = ("rollouts", "pictures", "cost")
NAMES = ("fetch-push", "ms-pacman")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run: one short round of everything")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    busy = "on a busy machine: measure updates in processor time, which other work hardly changes"
    parser.add_argument("--busy", action="store_true", help=busy)
    arguments = parser.parse_args()
    clock = time.process_time if arguments.busy else time.perf_counter
    console = Console(width=120, highlight=False)
    console.print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before we begin")
    try:
        batches: dict[str, float] = {}
        if "rollouts" in arguments.parts:
            batches = print_rollouts(console, arguments.quick)
        if "pictures" in arguments.parts:
            print_pictures(console, arguments.quick, clock)
        if "cost" in arguments.parts:
            print_costs(console, arguments.quick, clock, batches)
    except HindsightError as error:
        sys.exit(str(error))


def print_rollouts(console: Console, quick: bool) -> dict[str, float]:
    """Part (a); returns the seconds of a batch of episodes."""
    from hosted_rollouts import measure_rollout

    table = Table(title="Simulator steps per second on all cores (lowest and highest), and as a share of the bare ones")
    for column in (
        "environment",
        "bare",
        "our simulators",
        "our worker pool",
        "rollout",
        "share of bare",
        "learner, policy",
    ):
        table.add_column(column, justify="left" if column == "environment" else "right")
    batches = {}
    for name in NAMES:
        console.print(f"  measuring rollouts of {name}")
        found = measure_rollout(name, 0.5 if quick else 4.0, 1 if quick else 5)
        rates = found["rates"]
        cells = [middle_and_range(rates[key], ".0f") for key in ("bare", "simulators", "pool", "rollout")]
        share = middle_and_range(ratios(rates["rollout"], rates["bare"]), ".0%")
        learner, policy = 1000 * median(found["learner"]), 1000 * found["policy_call"]
        table.add_row(name, *cells, share, f"{learner:.1f} ms, {policy:.1f} ms")
        batches[name] = found["steps"] / median(rates["rollout"])
    console.print(table)
    console.print(
        "Last column: processor time of the learning process for each time step, and of its policy call alone."
    )
    return batches


def print_pictures(console: Console, quick: bool, clock: Clock) -> None:
    """Part (b)."""
    try:
        torch = need("torch")
    except HindsightError as error:
        console.print(f"Not measured: updates on pictures beside PyTorch. {error}")
        return
    from image_update import measure_images

    console.print(f"  measuring updates on pictures beside PyTorch {torch.__version__}")
    found = measure_images(1 if quick else 7, not quick, clock)
    seconds = found["seconds"]
    title = "One HPG update on 16 episodes of Ms. Pac-man's shapes, 3 goals an episode"
    table = Table("who", "seconds", "times ours", title=title)
    for name, values in seconds.items():
        table.add_row(name, middle_and_range(values), middle_and_range(ratios(values, seconds["ours"])))
    if "naive" in found:
        ratio = found["naive"] / median(seconds["ours"])
        table.add_row("PyTorch, convolving each pair", f"{found['naive']:.3g}", f"{ratio:.3g}")
    console.print(table)
    way = f"channels {found['layout']}, {found['threads']} of its threads"
    console.print(f"PyTorch with what was fastest for it: {way}.")
    console.print(f"Largest relative difference between the two gradients: {found['gradient_difference']:.1e}")


def print_costs(console: Console, quick: bool, clock: Clock, batches: dict[str, float]) -> None:
    """Part (c)."""
    from hindsight_cost import measure_cost

    table = Table(title="Seconds of an update on 16 made-up episodes, and with the rollout of a batch measured above")
    for column in ("environment", "goals", "in the batch", "update", "times GCPG", "with rollout", "times GCPG"):
        table.add_column(column, justify="left" if column in ("environment", "goals") else "right")
    for name in NAMES:
        console.print(f"  measuring the cost of hindsight in {name}")
        found: dict[str, Any] = measure_cost(name, 1 if quick else 7, clock)
        seconds = found["seconds"]
        for label, values in seconds.items():
            row = [name, label, str(found["goals"][label]), middle_and_range(values)]
            row.append(f"{median(ratios(values, seconds['GCPG'])):.2f}")
            if name in batches:
                whole, plain = (batches[name] + median(each) for each in (values, seconds["GCPG"]))
                row += [f"{whole:.3g}", f"{whole / plain:.2f}"]
            table.add_row(*row)
    console.print(table)


def ratios(upper: list[float], lower: list[float]) -> list[float]:
    """Round by round: both numbers of a ratio were measured within seconds of one another."""
    return [one / other for one, other in zip(upper, lower, strict=True)]


if __name__ == "__main__":
    main()
