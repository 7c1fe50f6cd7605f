"""The options of the agents with a replay buffer. Imports nothing heavy, so that help texts appear at once."""

from dataclasses import dataclass
from typing import Literal

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.options import Count, Number, Options, PositiveShare, Rate, Share, Widths

Relabelling = Literal["final", "future", "episode"]

LARGEST_CAPACITY = 10**9
"""Transitions are counted in 32 bits."""


@dataclass(frozen=True)
class DQNOptions(Options):
    """Deep Q-networks; the defaults are the paper's (appendix E.3.7)."""

    learning_rate: Rate = 1e-3
    """Adam's step size."""
    hidden_layers: Widths = (256, 256)
    """Width of each hidden layer of the network."""
    reward_offset: Number = 0.0
    """Added to every reward that the agent learns from; 1 turns -1 and 0 into 0 and 1."""
    replay_capacity: Count = 10**6
    """The most transitions in the buffer, original and hindsight ones together."""
    epsilon: Share = 0.2
    """The probability with which an exploring agent takes a uniformly random action."""
    discount: PositiveShare = 0.98
    """What the next value counts for in the target."""
    gradient_steps: Count = 40
    """Minibatches after each batch of episodes."""
    minibatch_size: Count = 128
    """Transitions in each minibatch."""
    beyond_horizon: bool = False
    """Lets the next value count after the last action before the horizon too, as if the episode went on."""
    episode_limit: Count | None = None
    """Episodes that the run will ever see; no memory is set aside for more. Set by the run."""


@dataclass(frozen=True)
class HEROptions(DQNOptions):
    """The same with hindsight experience replay, which adds relabelled transitions."""

    relabelling: Relabelling = "final"
    """The achieved goals that a transition is relabelled with. final: the last one of its episode. future: drawn from
    those of this action and later ones. episode: drawn from all of its episode."""
    relabelled_goals: Count = 1
    """Goals that each transition is relabelled with; 4 is customary with `future`, and `final` has only 1 to offer."""
    redraw_goals: bool = False
    """Draw relabelled goals anew whenever a transition is replayed, not once when its episode enters the buffer."""


def goals_per_transition(options: DQNOptions) -> int:
    """The goals that one action may be replayed under: the pursued one, and the relabelled ones."""
    return 1 + (options.relabelled_goals if isinstance(options, HEROptions) else 0)


def most_transitions(options: DQNOptions, horizon: int) -> int:
    """The transitions of an episode that lasts to the horizon, under all of its goals."""
    return (horizon - 1) * goals_per_transition(options)


def check_options(options: DQNOptions, horizon: int) -> None:
    """Refuse what cannot work on an environment with this horizon, with a sentence that says why."""
    if isinstance(options, HEROptions) and options.relabelling == "final" and options.relabelled_goals != 1:
        raise HindsightError(
            f"An episode has only one final goal, so with the strategy 'final' relabelled_goals must be 1, "
            f"not {options.relabelled_goals}."
        )
    if isinstance(options, HEROptions) and options.relabelling == "final" and options.redraw_goals:
        raise HindsightError(
            "An episode has only one final goal, so with the strategy 'final' there are no goals to redraw: choose "
            "'future' or 'episode'."
        )
    _check_capacity(options, most_transitions(options, horizon))


def _check_capacity(options: DQNOptions, episode: int) -> None:
    if options.replay_capacity < episode:
        raise HindsightError(
            f"The replay buffer must hold at least one episode, which here has up to {episode} transitions, "
            f"but its capacity is {options.replay_capacity}."
        )
    if options.replay_capacity > LARGEST_CAPACITY:
        raise HindsightError(
            f"The replay buffer's capacity can be at most {LARGEST_CAPACITY} transitions, "
            f"not {options.replay_capacity}."
        )
    if options.minibatch_size > options.replay_capacity:
        raise HindsightError(
            f"A minibatch of {options.minibatch_size} transitions is more than the replay buffer can ever hold, "
            f"as its capacity is {options.replay_capacity}."
        )
