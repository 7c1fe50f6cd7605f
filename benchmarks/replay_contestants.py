"""What `benchmarks/replay.py` compares: how each contestant is set up, and how long it is given."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from hindsight_rl.environments.registry import make_compiled
from hindsight_rl.exact.best import best_return
from hindsight_rl.training.settings import Settings, make_settings

EPISODES = 16
"""In a cycle."""
MINIBATCH = 128
REPLAY_RATE = 5e-4
GOALS = 4
EPSILON = 0.2
DISCOUNT = 0.98
HIDDEN = (256, 256)
CAPACITY = 10**6

Schedule = Literal["cycles", "steps"]
Rewards = Literal["remaining", "steps"]
SMALL_MINIBATCH = 32
"""The default of stable-baselines3."""


@dataclass(frozen=True)
class Arena:
    """An environment under both of its names, and when a learner is given up."""

    name: str
    gymnasium: str
    episodes: int
    seconds: float
    """For our methods; the others get their patience times as long."""
    marks: tuple[float, ...]
    """Returns to be reached, beside 90 % of the best possible."""
    policy_rate: float
    """The best learning rate known for HPG with batch size 16."""
    shortening: int = 1
    """Divides the gradient steps of a cycle, for smoke runs."""

    @property
    def quick(self) -> "Arena":
        """The same for a smoke run."""
        return replace(self, episodes=64, seconds=1.0, shortening=32)

    @property
    def best(self) -> float:
        """The best possible return."""
        found = best_return(make_compiled(self.name))
        assert found is not None
        return found

    @property
    def gradient_steps(self) -> int:
        """After each cycle: one for every action of episodes that last to the horizon."""
        return EPISODES * (make_compiled(self.name).horizon - 1) // self.shortening


@dataclass(frozen=True)
class Contestant:
    """A way to learn."""

    name: str
    method: str = ""
    """Ours; empty for stable-baselines3."""
    like_stable_baselines: bool = False
    """Replay as stable-baselines3 does it: `future`, four goals, as many gradient steps."""
    schedule: Schedule = "cycles"
    """For stable-baselines3. cycles: as ours. steps: a gradient step after every action, as it is mostly used."""
    batch_size: int = EPISODES
    minibatch: int = MINIBATCH
    patience: float = 1.0
    rewards: Rewards = "remaining"
    """remaining: those of the environment. steps: actions have a price. For stable-baselines3, -1 for every action that
    misses the goal, and 0 for the one that reaches it, as in the tasks its buffer was written for; for ours, 1 less
    than those of the environment."""

    def settings(self, arena: Arena) -> Settings:
        """Our settings."""
        replays = self.method.startswith("dqn")
        chosen: dict[str, Any] = {
            "method": self.method,
            "batch_size": self.batch_size,
            "batches": arena.episodes // self.batch_size,
            "evaluate_every": arena.episodes // self.batch_size,
            "learning_rate": REPLAY_RATE if replays else arena.policy_rate,
            "hidden_layers": HIDDEN,
            "reward_offset": -1.0 if self.rewards == "steps" else 0.0,
        }
        if replays:
            chosen |= {"minibatch_size": self.minibatch, "epsilon": EPSILON, "discount": DISCOUNT}
            chosen |= {"replay_capacity": CAPACITY}
        if self.like_stable_baselines:
            chosen |= {"relabelling": "future", "relabelled_goals": GOALS, "gradient_steps": arena.gradient_steps}
        return make_settings(chosen)


ARENAS = (
    Arena("bit-flipping-16", "hindsight/BitFlipping16-v0", 16_000, 40.0, (6.0, 8.0), 1e-3),
    Arena("four-rooms", "hindsight/FourRooms-v0", 27_200, 40.0, (12.0, 14.5), 5e-4),
)

CONTESTANTS = (
    Contestant("SB3 DQN+HER, in cycles", schedule="cycles", patience=2.5),
    Contestant("SB3 DQN+HER, step by step", schedule="steps", patience=2.5),
    Contestant(
        "SB3 DQN+HER, as mostly used", schedule="steps", minibatch=SMALL_MINIBATCH, patience=6.0, rewards="steps"
    ),
    Contestant("dqn+her like SB3", "dqn+her", like_stable_baselines=True),
    Contestant("dqn+her like SB3, small minibatches", "dqn+her", like_stable_baselines=True, minibatch=SMALL_MINIBATCH),
    Contestant(
        "dqn+her like SB3, small minibatches, price on steps",
        "dqn+her",
        like_stable_baselines=True,
        minibatch=SMALL_MINIBATCH,
        rewards="steps",
    ),
    Contestant("dqn+her as in the paper", "dqn+her", patience=3.0),
    Contestant("dqn", "dqn", patience=3.0),
    Contestant("hpg", "hpg"),
    Contestant("gcpg", "gcpg"),
)
MATCHED = CONTESTANTS[0], CONTESTANTS[3]
"""The two that do the same work."""
