"""Replay beside stable-baselines3: gradient steps per second, and how soon each method has learned.

Run it with `make bench-replay`. Every finished measurement is saved at once; a second start goes on where the first one
stopped. `--again` forgets them. Tables and a figure go to results/replay.
"""

import argparse
import functools
import itertools
import sys
import time
from pathlib import Path
from typing import Any

from measured import FOLDER, Measurements, need
from replay_contestants import ARENAS, CONTESTANTS, EPISODES, MINIBATCH, SMALL_MINIBATCH, Arena, Contestant
from rich.console import Console

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.files import make_folder
from hindsight_rl.training.program import Program

RESULTS = Path(__file__).parent.parent / "results" / "replay"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run; it writes below benchmarks/.measured")
    parser.add_argument("--again", action="store_true", help="forget earlier measurements")
    parser.add_argument("--seeds", type=int, default=3, help="learning curves of each method")
    arguments = parser.parse_args()
    console = Console(width=120, highlight=False)
    try:
        for module in ("torch", "stable_baselines3"):
            need(module)
        measure_all(arguments, console)
    except HindsightError as error:
        sys.exit(str(error))


def measure_all(arguments: argparse.Namespace, console: Console) -> None:
    """All measurements, then the tables and the figure."""
    from replay_report import write_report

    quick = arguments.quick
    store = Measurements("replay-quick" if quick else "replay", console.print)
    if arguments.again or quick:
        store.forget()
    arenas = [arena.quick if quick else arena for arena in ARENAS]
    speeds = measure_speeds(store, arenas, *((1, 1) if quick else (16, 5)))
    threads = {case: found["threads"] for case, found in speeds.items()}
    curves = measure_curves(store, arenas, 1 if quick else arguments.seeds, threads)
    folder = FOLDER / "replay-quick-results" if quick else RESULTS
    make_folder(folder)
    console.print(write_report(folder, speeds, curves, store.busiest), markup=False, soft_wrap=True)


def measure_speeds(
    store: Measurements, arenas: list[Arena], cycles: int, rounds: int
) -> dict[tuple[str, int], dict[str, Any]]:
    """Gradient steps per second, with the paper's minibatches and with small ones."""
    from replay_speed import measure_speed

    found = {}
    for arena, minibatch in itertools.product(arenas, (MINIBATCH, SMALL_MINIBATCH)):
        how = {"cycles": cycles, "rounds": rounds, "minibatch": minibatch, "steps": arena.gradient_steps}
        measure = functools.partial(measure_speed, arena, minibatch, cycles, rounds)
        found[arena.name, minibatch] = store.get(f"speed-{arena.name}-{minibatch}", how, measure)
    return found


def measure_curves(
    store: Measurements, arenas: list[Arena], seeds: int, threads: dict[tuple[str, int], int]
) -> dict[str, dict[str, list[Any]]]:
    """Learning curves by arena, contestant and seed; the contestants take turns within each seed."""
    found: dict[str, dict[str, list[Any]]] = {arena.name: {each.name: [] for each in CONTESTANTS} for arena in arenas}
    programs: dict[tuple[str, str], Program] = {}
    for seed, arena, contestant in itertools.product(range(seeds), arenas, CONTESTANTS):
        how = {"contestant": repr(contestant), "arena": repr(arena)}
        name = f"curve-{arena.name}-{contestant.name.replace(' ', '-').replace(',', '')}-{seed}"
        number = threads[arena.name, contestant.minibatch]
        measure = functools.partial(learning_curve, arena, contestant, seed, number, programs)
        found[arena.name][contestant.name].append(store.get(name, how, measure))
    return found


def learning_curve(
    arena: Arena, contestant: Contestant, seed: int, threads: int, programs: dict[tuple[str, str], Program]
) -> dict[str, Any]:
    """Train until 90 % of the best possible return, or to the limits; the clock stands still during evaluations."""
    from ours import Ours
    from replay_speed import torch_threads
    from stable_baselines import StableBaselines

    learner: Ours | StableBaselines
    if contestant.method:
        learner = Ours(arena, contestant, seed, programs.get((arena.name, contestant.name)))
        programs[arena.name, contestant.name] = learner.program
    else:
        learner = StableBaselines(arena, contestant, seed)
    points, seconds = [], 0.0
    with torch_threads(threads):
        while True:
            mean_return, success_rate = learner.evaluate()
            points.append([learner.episodes, seconds, mean_return, success_rate])
            given_up = learner.episodes >= arena.episodes or seconds >= arena.seconds * contestant.patience
            if mean_return >= 0.9 * arena.best or given_up:
                break
            began = time.perf_counter()
            # Further apart as time goes by, so that a number of episodes is known to about 5 %.
            learner.train(max(2 * EPISODES, learner.episodes // 20 // EPISODES * EPISODES))
            seconds += time.perf_counter() - began
    return {
        "points": points,
        "compilation": learner.compilation,
        "seconds_in_environment": learner.seconds_in_environment,
        "gradient_steps": learner.gradient_steps,
    }


if __name__ == "__main__":
    main()
