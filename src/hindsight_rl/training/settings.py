"""The settings of a training job. Imports nothing heavy, so that help texts appear at once."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from hindsight_rl.agents.replay_options import Relabelling
from hindsight_rl.core.errors import HindsightError, unknown
from hindsight_rl.core.numbers import is_integer, is_number, require_positive_integer

Horizon = Literal["paper", "full"]
Ended = Literal["drop", "carry"]
InitialWeights = Literal["narrow", "scaled"]


@dataclass(frozen=True)
class Settings:
    """One training job: a method on an environment, for one or more runs that differ in their seed."""

    method: str = "hpg"
    """One of the registered methods."""
    batch_size: int = 16
    """Episodes collected for each update."""
    batches: int = 1000
    """Updates in each run."""
    evaluate_every: int = 10
    """Batches between evaluations; must divide `batches`."""
    evaluation_episodes: int = 256
    """Greedy episodes in each evaluation."""
    learning_rate: float = 1e-3
    """Adam's step size for the policy."""
    baseline_learning_rate: float = 1e-3
    """Adam's step size for the baseline, where the method has one."""
    runs: int = 1
    """Independent runs, trained side by side."""
    seed: int = 0
    """Seed of the first run; the others follow it one by one."""
    hidden_layers: tuple[int, ...] = (256, 256)
    """Width of each hidden layer of the networks."""
    max_active_goals: int | None = None
    """Active goals drawn from each episode; None takes them all."""
    horizon: Horizon = "paper"
    """paper: reaching the pursued goal ends the episode. full: the agent acts on to the horizon (unbiased)."""
    ended: Ended = "drop"
    """What an ended episode adds to the normaliser. drop: nothing (as published). carry: its last ratio."""
    initial_weights: InitialWeights = "narrow"
    """narrow: normal with deviation 0.01. scaled: uniform with variance 2 / (inputs + outputs)."""
    normalise: bool = False
    """Show the networks observations and goals with running mean 0 and deviation 1."""
    reward_offset: float = 0.0
    """Added to every reward that the agent learns from; 1 turns -1 and 0 into 0 and 1."""
    skip_reached: bool = False
    """Policy gradients: an episode teaches nothing about a goal that its first state reaches."""
    share_places: bool = False
    """Policy gradients: an active goal weighs one over the number of active goals that reach it."""
    relabelling: Relabelling = "final"
    """dqn+her: goals that transitions are relabelled with: the episode's final one, future ones, or any of it."""
    relabelled_goals: int = 1
    """dqn+her: goals that each transition is relabelled with."""
    replay_capacity: int = 10**6
    """dqn: the most transitions in the buffer, relabelled ones included."""
    epsilon: float = 0.2
    """dqn: the probability of a random action while exploring."""
    discount: float = 0.98
    """dqn: what the next value counts for."""
    gradient_steps: int = 40
    """dqn: minibatches after each batch of episodes."""
    minibatch_size: int = 128
    """dqn: transitions in a minibatch."""
    beyond_horizon: bool = False
    """dqn: the next value counts after the last action before the horizon too, as if the episode went on."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "batches", "evaluate_every", "evaluation_episodes", "runs"):
            require_positive_integer(name, getattr(self, name))
        if self.batches % self.evaluate_every:
            raise HindsightError(
                f"evaluate_every must divide batches, but {self.evaluate_every} does not divide {self.batches}."
            )
        for name in ("learning_rate", "baseline_learning_rate"):
            value = getattr(self, name)
            if not (is_number(value) and math.isfinite(value) and value > 0):
                raise HindsightError(f"{name} must be a finite number above zero, not {value}.")
        if not (is_number(self.reward_offset) and math.isfinite(self.reward_offset)):
            raise HindsightError(f"reward_offset must be a finite number, not {self.reward_offset}.")
        if not is_integer(self.seed):
            raise HindsightError(f"seed must be a whole number, not {self.seed}.")
        if self.seed < 0 or self.seed + self.runs > 2**32:
            raise HindsightError(f"seed must lie between 0 and {2**32 - self.runs}, not {self.seed}.")
        if not isinstance(self.hidden_layers, tuple):
            raise HindsightError(f"hidden_layers must be a sequence of widths, not {self.hidden_layers}.")
        for width in self.hidden_layers:
            require_positive_integer("each width in hidden_layers", width)
        if self.max_active_goals is not None:
            require_positive_integer("max_active_goals", self.max_active_goals)
        for name in ("relabelled_goals", "replay_capacity", "gradient_steps", "minibatch_size"):
            require_positive_integer(name, getattr(self, name))
        if not is_number(self.epsilon) or not 0 <= self.epsilon <= 1:
            raise HindsightError(f"epsilon must be a number from 0 to 1, not {self.epsilon}.")
        if not is_number(self.discount) or not 0 < self.discount <= 1:
            raise HindsightError(f"discount must be a number above 0 and at most 1, not {self.discount}.")
        choices = {
            "horizon": Horizon,
            "ended": Ended,
            "initial_weights": InitialWeights,
            "relabelling": Relabelling,
        }
        for name, options in ((name, get_args(kind)) for name, kind in choices.items()):
            if getattr(self, name) not in options:
                raise unknown(name, str(getattr(self, name)), options)

    @property
    def seeds(self) -> range:
        """The seed of each run."""
        return range(self.seed, self.seed + self.runs)

    @property
    def evaluation_batches(self) -> range:
        """The number of batches seen at each evaluation, batch 0 included."""
        return range(0, self.batches + 1, self.evaluate_every)
