"""Speed of training beside the published research code, and as a share of what the machine can multiply.

Run it with `make bench`. The published code does not run here: its updates per second were measured once, on another
machine, with its released version made to run on a current TensorFlow. Everything else is measured in this one run.
So the ratios compare two machines as well. `scaled` divides them by how much faster this one multiplies matrices, a
rough correction, since neither program does nothing but multiply.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from hindsight_rl.core import pairs as pairwise
from hindsight_rl.environments.registry import make_compiled
from hindsight_rl.rollout.compiled import collect
from hindsight_rl.training.compilation import keep_compiled_programs
from hindsight_rl.training.loop import training
from hindsight_rl.training.program import make_program
from hindsight_rl.training.settings import Settings


@dataclass(frozen=True)
class Cell:
    """A training job, and the updates per second of the published code on it, on the other machine."""

    environment: str
    batch_size: int
    method: str
    runs: int
    published: float

    def settings(self, batches: int, runs: int | None = None) -> Settings:
        """Training from scratch, evaluated only at the ends."""
        return Settings(
            method=self.method,
            batch_size=self.batch_size,
            batches=batches,
            evaluate_every=batches,
            evaluation_episodes=1,
            runs=runs or self.runs,
        )


PUBLISHED_GIGAFLOPS = 150.0
"""What two cores of that kind (AVX2) multiply in a second, about: the other machine's own figure was not kept."""
SIDE_BY_SIDE = "33 (empty room, batch size 2, one run), 73 (16 bits), 96 (8 bits), 85 to 125 (four rooms)"
"""How many times as fast ours was where both programs ran on one machine."""

CELLS = [
    Cell("bit-flipping-8", 2, "hpg", 10, 18.3),
    Cell("bit-flipping-8", 16, "hpg", 1, 0.92),
    Cell("bit-flipping-16", 16, "hpg", 1, 0.158),
    Cell("empty-room", 2, "hpg", 10, 6.2),
    Cell("empty-room", 16, "hpg", 1, 0.33),
    Cell("four-rooms", 2, "hpg", 10, 4.3),
    Cell("four-rooms", 16, "hpg", 1, 0.356),
    Cell("four-rooms", 16, "hpg+b", 1, 0.218),
    Cell("four-rooms", 16, "gcpg", 10, 3.8),
]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="how long to train in each cell")
    parser.add_argument("--memory", nargs=2, metavar=("CELL", "RUNS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    keep_compiled_programs()
    if arguments.memory:
        print_memory(CELLS[int(arguments.memory[0])], int(arguments.memory[1]))
        return
    console = Console(width=120)
    peak = matmul_gigaflops()
    factor = peak / PUBLISHED_GIGAFLOPS
    console.print(
        f"Matrix multiplication, 2048x2048 in float32: {peak:.0f} GFLOP/s, {factor:.2f} times the about "
        f"{PUBLISHED_GIGAFLOPS:.0f} of the machine on which the published code was measured.",
        highlight=False,
    )
    table = Table(title="Updates per second, training from scratch (lowest and highest of three)")
    columns = ("environment", "batch", "method", "runs", "published", "ours", "times", "scaled", "GFLOP", "of peak")
    for name in columns:
        table.add_column(name, justify="left" if name in ("environment", "method") else "right")
    for cell in CELLS:
        console.print(f"  measuring {cell.environment}, batch {cell.batch_size}, {cell.method}", highlight=False)
        speeds = sorted(updates_per_second(cell, arguments.seconds / 3) for _ in range(3))
        work = gigaflops_per_update(cell)
        middle = speeds[1]
        table.add_row(
            cell.environment,
            str(cell.batch_size),
            cell.method,
            str(cell.runs),
            f"{cell.published:g}",
            f"{middle:.1f} ({speeds[0]:.1f}-{speeds[2]:.1f})",
            f"{middle / cell.published:.0f}x",
            f"{middle / cell.published / factor:.0f}x",
            f"{work:.2g}",
            f"{work * middle / peak:.0%}",
        )
    console.print(table)
    console.print(
        "published: measured once, on the other machine. times: ours over that. scaled: divided by the factor above.\n"
        f"Where both programs ran side by side on one machine, ours was this many times as fast: {SIDE_BY_SIDE}.",
        highlight=False,
    )
    print_memories(console)


def matmul_gigaflops(clock: Callable[[], float] = time.perf_counter) -> float:
    """The best of many multiplications of large matrices."""
    matrix = jax.random.normal(jax.random.key(0), (2048, 2048))
    multiply = jax.jit(lambda left: left @ left)
    seconds = min(_seconds(lambda: multiply(matrix), clock) for _ in range(20))
    return 2 * 2048**3 / seconds / 1e9


def updates_per_second(cell: Cell, seconds: float) -> float:
    """Updates over all runs in a second, compilation aside."""
    guess = max(2, int(60 * cell.published * seconds / cell.runs))
    settings = cell.settings(guess)
    job = training(make_program(make_compiled(cell.environment), settings), settings)
    next(job)
    began = time.perf_counter()
    next(job)
    return guess * cell.runs / (time.perf_counter() - began)


def gigaflops_per_update(cell: Cell) -> float:
    """The matrix multiplications that one update of a fresh policy needs: rollout, ratios, values and gradients."""
    environment = make_compiled(cell.environment)
    settings = cell.settings(1)
    agent = make_program(environment, settings).agent
    state = agent.init(jax.random.key(0))
    explore: Callable[..., Any] = jax.jit(lambda *situation: agent.explore(state, *situation))
    episodes = collect(environment, explore, cell.batch_size, jax.random.key(1))
    rates = dict.fromkeys(settings.rates, jnp.ones(()))
    counts = wanted_pairs(lambda: agent.update(state, episodes, rates, jax.random.key(2)))
    rows = cell.batch_size * (environment.horizon - 1)
    policy = _flops(state.policy.network)
    total = rows * policy + 3 * policy * counts[-1]
    if cell.method.startswith("hpg"):
        total += policy * counts[0]
    if state.baseline is not None:
        value = _flops(state.baseline.network)
        total += value * counts[1] + 3 * value * (rows + cell.batch_size)
    return total / 1e9


def wanted_pairs(update: Callable[[], Any]) -> list[int]:
    """How many (state, goal) pairs each pass of an update works on."""
    counts: list[int] = []
    select = pairwise.select

    def counting(wanted: jax.Array) -> pairwise.Pairs:
        counts.append(int(jnp.sum(wanted)))
        return select(wanted)

    pairwise.select = counting
    try:
        update()
    finally:
        pairwise.select = select
    return counts


def print_memories(console: Console) -> None:
    """Peak memory of whole processes: one run and twenty, in the two largest cells."""
    table = Table("environment", "method", "1 run, MB", "20 runs, MB", title="Peak memory of the process")
    for number in (2, 7):
        sizes = [_memory_in_subprocess(number, runs) for runs in (1, 20)]
        table.add_row(CELLS[number].environment, CELLS[number].method, *(f"{size:.0f}" for size in sizes))
    console.print(table)


def _memory_in_subprocess(cell: int, runs: int) -> float:
    command = [sys.executable, __file__, "--memory", str(cell), str(runs)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def print_memory(cell: Cell, runs: int) -> None:
    """Train for a few batches and print the peak memory in MB."""
    settings = cell.settings(3, runs)
    for _ in training(make_program(make_compiled(cell.environment), settings), settings):
        pass
    # Not ru_maxrss, which a child inherits from the process that started it.
    status = Path("/proc/self/status").read_text()
    print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)


def _flops(network: Any) -> int:
    return 2 * sum(int(np.prod(weight.shape)) for weight in network.weights)


def _seconds(work: Callable[[], Any], clock: Callable[[], float]) -> float:
    began = clock()
    jax.block_until_ready(work())
    return clock() - began


if __name__ == "__main__":
    main()
