"""The policies of the zoo: train with default settings where no run is there yet, measure on fresh episodes, write.

    python scripts/make_zoo.py [NAME ...]
    python scripts/make_zoo.py fetch-push --run runs/pushed --checkpoint best --policy 2

With `--run`, from a run folder that is there already, however it was trained; of several runs `--policy` says which.
The runs stay in runs/zoo; the policies go into the package. `hindsight zoo` lists them.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from hindsight_rl.cli import main
from hindsight_rl.cli.evaluate import player
from hindsight_rl.cli.policies import chosen
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.experiments.policy_files import save_policy
from hindsight_rl.experiments.zoo import zoo_folder
from hindsight_rl.records.files import make_folder

RUNS = Path("runs/zoo")
SEED_OF_EPISODES = 54321
EPISODES = 500
"""To measure a policy on that is not listed below."""
SHOWN: dict[str, tuple[int, list[str]]] = {
    "bit-flipping-8": (10_000, ["bit-flipping-8"]),
    "bit-flipping-16": (10_000, ["bit-flipping-16"]),
    "empty-room": (10_000, ["empty-room"]),
    "four-rooms": (10_000, ["four-rooms"]),
    "fetch-reach": (500, ["gym:FetchReach-v4", "--batches", "20", "--evaluate-every", "10"]),
    "point-maze": (500, ["gym:PointMaze_UMaze-v3", "--batches", "20"]),
    "fetch-push": (500, ["fetch-push", "--batches", "135"]),
}
"""Episodes to measure each policy on, and what it is trained with: arguments of `hindsight train`."""


def make(name: str) -> None:
    """Train, measure and write one policy: the last one of seed 0."""
    folder, (episodes, arguments) = RUNS / name, SHOWN[name]
    if not (folder / "summary.json").exists():
        main(["train", *arguments, "--output", str(folder)])
    add(name, folder, "last", 0, episodes)


def add(name: str, folder: Path, checkpoint: str, number: int, episodes: int) -> None:
    """Measure a policy of a run folder on fresh episodes, and write it."""
    policy, card = chosen(folder, checkpoint, number)
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


def read_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """What to make."""
    parser = argparse.ArgumentParser(description="Make policies of the zoo.")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SHOWN)}; without any, all; with --run, any name")
    parser.add_argument("--run", type=Path, help="a run folder to take the policy from, instead of training")
    parser.add_argument("--checkpoint", default="last", help="of that run: last, best or a batch")
    parser.add_argument("--policy", type=int, default=0, help="which of the folder's runs")
    wanted = parser.parse_args(arguments)
    if wanted.run is not None and len(wanted.names) != 1:
        parser.error("with --run, give one name")
    unknown = [name for name in wanted.names if name not in SHOWN]
    if wanted.run is None and unknown:
        parser.error(f"nothing is known of {unknown[0]}: give --run, or one of {', '.join(SHOWN)}")
    return wanted


def run(arguments: list[str] | None = None) -> None:
    """Make what is wanted."""
    wanted = read_arguments(arguments)
    if wanted.run is not None:
        (name,) = wanted.names
        add(name, wanted.run, wanted.checkpoint, wanted.policy, SHOWN.get(name, (EPISODES, []))[0])
        return
    for name in wanted.names or SHOWN:
        make(name)


if __name__ == "__main__":
    try:
        run()
    except HindsightError as error:
        sys.exit(str(error))
