"""stable-baselines3's DQN with hindsight replay as a learner of the map; it needs the packages of the benchmarks."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))

from map_runs import BATCH_SIZE, BATCHES, PATIENT_SECONDS, Cell
from replay_contestants import CONTESTANTS, Arena
from stable_baselines import StableBaselines

from hindsight_rl.environments.as_gymnasium import NAMES

USUAL = next(one for one in CONTESTANTS if one.name == "SB3 DQN+HER, as mostly used")


class TheirLearner(StableBaselines):
    """The benchmark's learner, which also tells its actions."""

    @property
    def steps(self) -> int:
        """Actions taken so far."""
        return int(self.model.num_timesteps)


def open_stable_baselines(cell: Cell) -> TheirLearner:
    """A learner on one thread, so that the processor's seconds are those of its work."""
    import torch

    torch.set_num_threads(1)
    name = next(name for name, ours in NAMES.items() if ours == cell.environment)
    most = BATCHES[cell.environment] * BATCH_SIZE
    return TheirLearner(Arena(cell.environment, name, most, PATIENT_SECONDS, (), 0.0), USUAL, cell.seed)
