"""stable-baselines3's SAC with hindsight replay on hosted environments, evaluated as our methods are: for the map.

    python benchmarks/robots.py                             # FetchReach and the point robot, three seeds
    python benchmarks/robots.py --environments gym:FetchPush-v4 --steps 200000 --seeds 1                    # slow
    python scripts/results_map.py --no-runs                 # tables and figure with these runs

Settings are those that RL Baselines3 Zoo, the library's collection of tuned ones, has for FetchReach: minibatches of
256, rate 1e-3, discount 0.95, layers of 64, inputs and rewards normalised, 1,000 steps of random actions, `future` with
four goals, a gradient step after every action. A run ends at a success rate of 0.95 twice in a row, or with its steps.
Finished runs are found again in results/map/robots.csv; a second start goes on.
"""

import argparse
import csv
import io
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from measured import need

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.environments.registry import specify
from hindsight_rl.records.files import make_folder, write_atomically
from hindsight_rl.rollout.hosted import open_pool, play_hosted
from hindsight_rl.rollout.workers import WorkerPool
from hindsight_rl.training.keys import keys_of

ROWS = Path(__file__).parent.parent / "results" / "map" / "robots.csv"
COLUMNS = ("environment", "method", "seed", "episodes", "steps", "seconds", "mean_return", "success_rate")
METHOD = "SB3 SAC+HER"
SEEDS = range(100, 105)
EPISODES = 32
"""In an evaluation, as many as ours have."""
STEPS_BETWEEN = 800
"""Sixteen episodes of 50 steps, as in one of our batches."""
MARK = 0.95
SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-3,
    "buffer_size": 10**6,
    "batch_size": 256,
    "gamma": 0.95,
    "ent_coef": "auto",
    "learning_starts": 1000,
    "policy_kwargs": {"net_arch": [64, 64]},
}


class SoftActorCritic:
    """A learner. `train` and `evaluate` take turns; only the first should be timed."""

    def __init__(self, task: HostedTask, seed: int, settings: dict[str, Any] | None = None, normalise: bool = True):
        library, buffers = need("stable_baselines3"), need("stable_baselines3.her.her_replay_buffer")
        vectors = need("stable_baselines3.common.vec_env")
        chosen = {**SETTINGS, **(settings or {})}
        self._task, self._key = task, keys_of(jnp.uint32(seed)).evaluation
        environment: Any = vectors.DummyVecEnv([lambda: gymnasium_environment(task)])
        if normalise:
            environment = vectors.VecNormalize(environment, gamma=chosen["gamma"])
        self.model: Any = library.SAC(
            "MultiInputPolicy",
            environment,
            replay_buffer_class=buffers.HerReplayBuffer,
            replay_buffer_kwargs={"n_sampled_goal": 4, "goal_selection_strategy": "future"},
            seed=seed,
            device="cpu",
            **chosen,
        )
        self._normaliser = environment if normalise else None

    @property
    def steps(self) -> int:
        """Actions taken so far."""
        return int(self.model.num_timesteps)

    @property
    def episodes(self) -> int:
        """Finished so far."""
        return int(self.model._episode_num)

    @property
    def gradient_steps(self) -> int:
        """Done so far."""
        return int(self.model._n_updates)

    def train(self, steps: int) -> None:
        """Take so many more actions, and learn."""
        self.model.learn(steps, reset_num_timesteps=False)

    def evaluate(self, pool: WorkerPool, evaluation: int) -> tuple[float, float]:
        """Mean return and success rate of greedy episodes, played as those of our methods are."""

        def exploit(observations: np.ndarray, goals: np.ndarray, times: np.ndarray) -> Any:
            shown = {"observation": observations, "achieved_goal": pool.slots.achieved_goals, "desired_goal": goals}
            shown = {name: np.array(rows, np.float32) for name, rows in shown.items()}
            if self._normaliser is not None:
                shown = self._normaliser.normalize_obs(shown)
            actions, _ = self.model.predict(shown, deterministic=True)
            return actions

        outcomes = play_hosted(self._task, pool, exploit, EPISODES, jax.random.fold_in(self._key, evaluation))
        return float(np.mean(outcomes.returns)), float(np.mean(outcomes.successes))


def gymnasium_environment(task: HostedTask) -> Any:
    """The environment itself, with its own limit of steps."""
    import gymnasium

    made = task.source().build().environment  # type: ignore[attr-defined]
    return gymnasium.wrappers.TimeLimit(made, task.horizon - 1)


def train(environment: str, seed: int, most: int) -> list[tuple[Any, ...]]:
    """Rows of `COLUMNS`: a run until it has learned, or to its limit."""
    task = specify(environment).task
    assert isinstance(task, HostedTask)
    learner = SoftActorCritic(task, seed)
    rows: list[tuple[Any, ...]] = []
    seconds, above = 0.0, 0
    with open_pool(task, EPISODES) as pool:
        while True:
            mean_return, success_rate = learner.evaluate(pool, len(rows))
            where = (learner.episodes, learner.steps, round(seconds, 1))
            rows.append((environment, METHOD, seed, *where, round(mean_return, 4), success_rate))
            above = above + 1 if success_rate >= MARK else 0
            if above == 2 or learner.steps >= most:
                return rows
            # Of the processor: simulators and learning are one process on one thread.
            began = time.process_time()
            learner.train(STEPS_BETWEEN)
            seconds += time.process_time() - began


def read_rows() -> list[tuple[Any, ...]]:
    """The rows of finished runs."""
    if not ROWS.exists():
        return []
    with ROWS.open(newline="") as file:
        return [tuple(row[name] for name in COLUMNS) for row in csv.DictReader(file)]


def write_rows(rows: list[tuple[Any, ...]]) -> None:
    """All of them, run by run."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([COLUMNS, *sorted(rows, key=lambda row: (row[0], row[1], int(row[2]), int(row[4])))])
    make_folder(ROWS.parent)
    write_atomically(ROWS, text.getvalue().encode())


def main() -> None:
    """Train what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = ["gym:FetchReach-v4", "examples.point_robot:PointRobot"]
    parser.add_argument("--environments", nargs="+", default=known)
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 100 on")
    parser.add_argument("--steps", type=int, default=20_000, help="actions after which a run ends")
    arguments = parser.parse_args()
    try:
        need("torch").set_num_threads(1)
        need("stable_baselines3")
        for seed in SEEDS[: arguments.seeds]:
            for environment in arguments.environments:
                if (environment, METHOD, str(seed)) in {row[:3] for row in read_rows()}:
                    continue
                found = train(environment, seed, arguments.steps)
                write_rows([*read_rows(), *found])
                print(f"{environment}, {METHOD}, seed {seed}: {found[-1][3:]}", flush=True)
    except HindsightError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
