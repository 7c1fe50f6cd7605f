"""Whether policies of FetchPush heed their goals: where the block ends up beside where it should, and who succeeds.

`python scripts/pushed_where.py RUN_FOLDER ...` plays 96 episodes of each policy as it explores, on to the horizon.
"""

import functools
import itertools
import sys
from pathlib import Path

import jax
import numpy as np

from hindsight_rl.environments.fetch_push import TOLERANCE, FetchPushTask
from hindsight_rl.experiments.definition import load_job
from hindsight_rl.experiments.job import load_snapshot
from hindsight_rl.rollout.hosted import collect_hosted, open_pool
from hindsight_rl.training.program import make_program

EPISODES = 96
TABLE_HEIGHT = 0.4
DISTANCES = (TOLERANCE, 0.1, 0.2, 0.5)
"""Between block and goal at the start, in metres."""


def main(folder: Path) -> None:
    """Play, and print what came of it."""
    job = load_job(folder)
    task = job.environment.task
    if not isinstance(task, FetchPushTask):
        sys.exit(f"'{folder}' holds a run on {job.environment.id}, not on fetch-push.")
    program = make_program(task, job.settings)
    state = jax.tree.map(lambda leaf: leaf[0], load_snapshot(folder, job, program).parts[0]).agent
    explore = functools.partial(program.explore, state)
    with open_pool(task, EPISODES) as pool:
        episodes = collect_hosted(task, pool, explore, EPISODES, jax.random.key(3), episodes_end="horizon")
    blocks, goals = np.asarray(episodes.achieved_goals), np.asarray(episodes.pursued_goals)
    distances = np.linalg.norm(blocks - goals[:, None], axis=2)
    successes = np.any(distances[:, 1:] < TOLERANCE, axis=1)
    kept = blocks[:, -1, 2] > TABLE_HEIGHT
    alike = [np.corrcoef(blocks[kept, -1, axis], goals[kept, axis])[0, 1] for axis in (0, 1)]
    print(f"{folder.name}: success {np.mean(successes):.2f}, block still on the table {np.mean(kept):.2f}")
    print(f"  correlation of last place and goal along x and y: {alike[0]:.2f}, {alike[1]:.2f}")
    for low, high in itertools.pairwise(DISTANCES):
        among = (distances[:, 0] >= low) & (distances[:, 0] < high)
        print(f"  goal at {low:g} to {high:g} m: success {np.mean(successes[among]):.2f} ({np.sum(among)} episodes)")


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    for name in sys.argv[1:]:
        main(Path(name))
