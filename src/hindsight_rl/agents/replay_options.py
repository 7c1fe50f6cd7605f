"""The options of the agents with a replay buffer. Imports nothing heavy, so that help texts appear at once."""

from typing import Literal, NamedTuple, get_args

from hindsight_rl.core.errors import HindsightError, unknown
from hindsight_rl.core.numbers import require_positive_integer

Relabelling = Literal["final", "future", "episode"]

LARGEST_CAPACITY = 10**9
"""Transitions are counted in 32 bits."""


class ReplayOptions(NamedTuple):
    """The part of the settings that a replay agent needs; the defaults are the paper's (appendix E.3.7)."""

    relabel: bool = False
    """Adds hindsight transitions, as hindsight experience replay does."""
    strategy: Relabelling = "final"
    """The achieved goals that a transition is relabelled with. final: the last one of its episode. future: drawn from
    those of this action and later ones. episode: drawn from all of its episode."""
    relabelled_goals: int = 1
    """Goals that each transition is relabelled with; 4 is customary with `future`, and `final` has only 1 to offer."""
    capacity: int = 10**6
    """The most transitions in the buffer, original and hindsight ones together."""
    epsilon: float = 0.2
    """The probability with which an exploring agent takes a uniformly random action."""
    discount: float = 0.98
    """What the next value counts for in the target."""
    gradient_steps: int = 40
    """Minibatches in each cycle."""
    minibatch_size: int = 128
    """Transitions in each minibatch."""
    hidden_layers: tuple[int, ...] = (256, 256)
    """Width of each hidden layer of the network."""
    reward_offset: float = 0.0
    """Added to every reward."""
    beyond_horizon: bool = False
    """Lets the next value count after the last action before the horizon too, as if the episode went on."""
    episode_limit: int | None = None
    """Episodes that the agent will ever see, where that is known: no memory is set aside for more."""

    @property
    def goals_per_transition(self) -> int:
        """The goals that one action may be replayed under: the pursued one, and the relabelled ones."""
        return 1 + (self.relabelled_goals if self.relabel else 0)

    def most_transitions(self, horizon: int) -> int:
        """The transitions of an episode that lasts to the horizon, under all of its goals."""
        return (horizon - 1) * self.goals_per_transition


def check_options(options: ReplayOptions, horizon: int) -> None:
    """Refuse what cannot work on an environment with this horizon, with a sentence that says why."""
    if options.strategy not in get_args(Relabelling):
        raise unknown("relabelling strategy", str(options.strategy), get_args(Relabelling))
    for name in ("relabelled_goals", "capacity", "gradient_steps", "minibatch_size"):
        require_positive_integer(name, getattr(options, name))
    if options.episode_limit is not None:
        require_positive_integer("episode_limit", options.episode_limit)
    if not 0 <= options.epsilon <= 1:
        raise HindsightError(f"epsilon must lie between 0 and 1, not {options.epsilon}.")
    if not 0 < options.discount <= 1:
        raise HindsightError(f"discount must be above 0 and at most 1, not {options.discount}.")
    if options.relabel and options.strategy == "final" and options.relabelled_goals != 1:
        raise HindsightError(
            f"An episode has only one final goal, so with the strategy 'final' relabelled_goals must be 1, "
            f"not {options.relabelled_goals}."
        )
    _check_capacity(options, options.most_transitions(horizon))


def _check_capacity(options: ReplayOptions, episode: int) -> None:
    if options.capacity < episode:
        raise HindsightError(
            f"The replay buffer must hold at least one episode, which here has up to {episode} transitions, "
            f"but its capacity is {options.capacity}."
        )
    if options.capacity > LARGEST_CAPACITY:
        raise HindsightError(
            f"The replay buffer's capacity can be at most {LARGEST_CAPACITY} transitions, not {options.capacity}."
        )
    if options.minibatch_size > options.capacity:
        raise HindsightError(
            f"A minibatch of {options.minibatch_size} transitions is more than the replay buffer can ever hold, "
            f"as its capacity is {options.capacity}."
        )
