"""The options of the agents. Imports nothing heavy, so that help texts appear at once."""

from dataclasses import dataclass
from typing import Literal

from hindsight_rl.core.options import Count, Number, Options, Rate, Share, Widths

Ended = Literal["drop", "carry"]
InitialWeights = Literal["narrow", "scaled"]


@dataclass(frozen=True)
class PolicyOptions(Options):
    """What every policy gradient has."""

    learning_rate: Rate = 1e-3
    """Adam's step size for the policy."""
    hidden_layers: Widths = (256, 256)
    """Width of each hidden layer of the networks."""
    initial_weights: InitialWeights = "narrow"
    """narrow: normal with deviation 0.01. scaled: uniform with variance 2 / (inputs + outputs)."""
    normalise: bool = False
    """Show the policy observations and goals with running mean 0 and deviation 1."""
    reward_offset: Number = 0.0
    """Added to every reward that the agent learns from; 1 turns -1 and 0 into 0 and 1."""
    skip_reached: bool = False
    """Learn nothing from an episode about a goal that its first state reaches."""


@dataclass(frozen=True)
class BaselineOptions(Options):
    """What a learned baseline adds."""

    baseline_learning_rate: Rate = 5e-5
    """Adam's step size for the baseline; searches mostly chose a tenth or less of the policy's."""


@dataclass(frozen=True)
class ActiveGoalOptions(Options):
    """What learning about the goals that episodes reached adds."""

    max_active_goals: Count | None = None
    """Active goals drawn from each episode; all of them unless given."""
    share_places: bool = False
    """Weigh each active goal by one over the number of active goals that reach it."""


@dataclass(frozen=True)
class NormaliserOptions(Options):
    """What normalised likelihood ratios add."""

    ended: Ended = "drop"
    """What an ended episode adds to the normaliser. drop: nothing (as published). carry: its last ratio."""
    normaliser_floor: Share = 0.0
    """Added to every likelihood ratio before normalisation; 1e-12 as published, where it evens out vanishing ratios."""


@dataclass(frozen=True)
class PolicyBaselineOptions(BaselineOptions, PolicyOptions):
    """A policy gradient with a baseline."""


@dataclass(frozen=True)
class UnweightedOptions(ActiveGoalOptions, PolicyOptions):
    """Hindsight without ratios."""


@dataclass(frozen=True)
class HindsightOptions(NormaliserOptions, ActiveGoalOptions, PolicyOptions):
    """Hindsight with normalised ratios."""


@dataclass(frozen=True)
class HindsightBaselineOptions(BaselineOptions, HindsightOptions):
    """The same with a baseline: all that a policy gradient can be told."""
