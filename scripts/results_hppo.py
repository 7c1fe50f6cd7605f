"""Hindsight PPO with its default settings beside PPO: curves, numbers and films into results/hppo.

Run it with `make results-hppo` (hours), or `python scripts/results_hppo.py NAME ...` for some of the runs. Each goes on
where it was stopped. Seeds begin at 100: none of these was looked at while the defaults were chosen.
"""

import sys

from kept_runs import KeptRuns

BITS = {
    16: "bit-flipping-16 --batches 16 --evaluate-every 2",
    32: "bit-flipping-32 --batches 40 --evaluate-every 4",
    48: "bit-flipping-48 --batches 44 --evaluate-every 4",
    100: "bit-flipping-100 --batches 44 --evaluate-every 4",
}
ROOMS = {
    "empty-room": "empty-room --batches 16 --evaluate-every 2",
    "four-rooms": "four-rooms --batches 60 --evaluate-every 5",
}
SIMULATED = "--evaluate-every 20 --evaluation-episodes 64 --runs 1"
ROBOTS = {
    "fetch-reach": "gym:FetchReach-v4 --batches 24 --evaluate-every 3 --evaluation-episodes 64 --runs 5",
    "fetch-reach-long": "gym:FetchReach-v4 --batches 125 --evaluate-every 6 --evaluation-episodes 64 --runs 5",
    "fetch-push": "fetch-push --batches 135 --evaluate-every 15 --evaluation-episodes 64 --runs 5",
    "fetch-push-continuous": f"gym:FetchPush-v4 --batches 380 {SIMULATED}",
    "fetch-pick-and-place": f"gym:FetchPickAndPlace-v4 --batches 380 {SIMULATED}",
    "fetch-slide": f"gym:FetchSlide-v4 --batches 380 {SIMULATED}",
    "ms-pacman": "ms-pacman --batches 240 --evaluate-every 40 --evaluation-episodes 64 --runs 1",
    "maze-medium": "gym:PointMaze_Medium-v3 --batches 20 --evaluate-every 5 --evaluation-episodes 64 --runs 5",
    "maze": "gym:PointMaze_UMaze-v3 --batches 20 --evaluate-every 5 --evaluation-episodes 64 --runs 5",
}
TASKS = {
    **{f"bits-{bits}": f"{task} --runs {2 if bits == 100 else 5}" for bits, task in BITS.items()},
    **{name: f"{task} --runs 5" for name, task in ROOMS.items()},
    **ROBOTS,
}
JOBS = {
    f"{name}-{method}": f"{task} --method {method} --seed 100"
    for name, task in TASKS.items()
    for method in ("hppo", "ppo")
}
TOGETHER = {f"{name}": {method: f"{name}-{method}" for method in ("hppo", "ppo")} for name in TASKS}

if __name__ == "__main__":
    films = frozenset(f"{name}-hppo" for name in ROBOTS)
    KeptRuns("hppo", JOBS, TOGETHER, films).make(sys.argv[1:])
