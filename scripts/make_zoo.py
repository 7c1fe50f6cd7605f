"""The policies of the zoo: train with default settings where no run is there yet, measure on fresh episodes, write.

    python scripts/make_zoo.py [NAME ...]

The runs stay in runs/zoo; the policies go into the package. `hindsight zoo` lists them.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from hindsight_rl.cli import main
from hindsight_rl.cli.evaluate import player
from hindsight_rl.experiments.policies import load_known
from hindsight_rl.experiments.policy_files import save_policy
from hindsight_rl.experiments.zoo import zoo_folder
from hindsight_rl.records.files import make_folder

RUNS = Path("runs/zoo")
SEED_OF_EPISODES = 54321
SHOWN: dict[str, tuple[int, list[str]]] = {
    "bit-flipping-8": (10_000, ["bit-flipping-8"]),
    "bit-flipping-16": (10_000, ["bit-flipping-16"]),
    "empty-room": (10_000, ["empty-room"]),
    "four-rooms": (10_000, ["four-rooms"]),
    "fetch-reach": (500, ["gym:FetchReach-v4", "--batches", "20", "--evaluate-every", "10"]),
    "fetch-push": (500, ["gym:FetchPush-v4"]),
}
"""Episodes to measure each policy on, and what it is trained with: arguments of `hindsight train`."""


def make(name: str) -> None:
    """Train, measure and write one policy: the last one of seed 0."""
    folder, (episodes, arguments) = RUNS / name, SHOWN[name]
    if not (folder / "summary.json").exists():
        main(["train", *arguments, "--output", str(folder)])
    ((policy, card),) = load_known(folder)
    outcomes = player(card.specification.task, episodes, SEED_OF_EPISODES, None)(policy)
    returns = np.asarray(outcomes.returns, np.float64)
    mean, error = float(returns.mean()), float(returns.std(ddof=1) / np.sqrt(len(returns)))
    measured = {
        "mean_return": mean,
        "interval": [mean - 1.96 * error, mean + 1.96 * error],
        "success_rate": float(np.mean(outcomes.successes)),
        "episodes": episodes,
        "seed_of_episodes": SEED_OF_EPISODES,
    }
    make_folder(zoo_folder())
    save_policy(zoo_folder() / f"{name}.npz", policy, replace(card, measured=measured))


if __name__ == "__main__":
    for wanted in sys.argv[1:] or SHOWN:
        make(wanted)
