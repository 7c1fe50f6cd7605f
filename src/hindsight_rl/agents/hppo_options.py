"""The options of PPO, with hindsight and without. Imports nothing heavy, so that help texts appear at once."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.options import Amount, Count, Number, Options, PositiveShare, Rate, Rule, Share, Widths

MOST_COUNTED, MOST_WAVES = 2**31 - 1, 24
"""As far as compiled programs count; and the halvings of a wavelength that 32 bits of a number can tell apart."""
Size = Annotated[Count, Rule(f"at most {MOST_COUNTED}", lambda value: value <= MOST_COUNTED)]
Whole = Annotated[int, Rule("a whole number of at least 0", lambda value: value >= 0)]
Waves = Annotated[Whole, Rule(f"at most {MOST_WAVES}", lambda value: value <= MOST_WAVES)]

STEPS_FOR_AN_EPISODE = 5.0
"""The fewest; more where there are many actions or states."""
STEPS_FOR_AN_ACTION = 3 / 8
DECISIONS_FOR_A_STEP = 20
FEW_ACTIONS = 8
"""Up to so many there is less entropy in long episodes; with more, less of that."""
FEW_NUMBERS = 8
"""Up to so many numbers of observation and goal together are shown as waves too, and to smaller networks."""
MOST_DECISIONS = 1600
GOALS_OF_A_PICTURE = 8
CANDIDATES = 4
"""Achieved goals that are drawn for each one wanted: most may say nothing, as where a robot rarely moves its block."""


class Work(NamedTuple):
    """What is done with a batch of episodes."""

    steps_for_an_episode: float
    pairs: int
    """Of episode and goal, in each draw."""
    minibatch: int
    """Decisions in a gradient step."""
    goals: int
    """Under which each drawn episode, and each state of a gradient step, is looked at. Divides the other two."""


@dataclass(frozen=True)
class PPOOptions(Options):
    """An actor-critic that takes several clipped steps on each batch of episodes, and on those it kept."""

    learning_rate: Rate = 2.5e-4
    """Adam's step size for the policy."""
    critic_learning_rate: Rate = 2e-3
    """Adam's step size for the critic."""
    hidden_layers: Widths | None = (128, 128)
    """Width of each hidden layer of the networks. If none are given for a simulator, three of 256; but two of 128 where
    observation and goal have at most 8 numbers together."""
    gradient_steps: Size | None = None
    """Steps on each batch. Unless given, for each of its episodes 5, or one for 20 actions of its horizon, or three for
    8 actions that there are to choose from, whichever is most: a decision says something about one action only. One for
    each episode of pictures, which cost more."""
    steps_per_draw: Size = 10
    """Steps after which pairs of episode and goal are drawn anew, and their targets computed."""
    pairs: Size | None = None
    """Pairs of episode and goal in each draw; 256 unless given."""
    minibatch: Size | None = None
    """Decisions in each gradient step, of those that the drawn pairs made. Unless given, as many as 32 episodes that
    last to the horizon have, but no more than 1600; 512 of pictures."""
    goals_together: Size | None = None
    """Goals under which each drawn episode, and each state of a step, is seen: 1 unless given; 8 of pictures, whose
    convolutions are then worked out once for all of them. Pairs and minibatch are rounded down to multiples of it."""
    kept_episodes: Size = 4096
    """The newest episodes, from which pairs are drawn; the size of a batch draws from the newest batch alone."""
    critic: Literal["states", "actions"] = "states"
    """What the critic values: states, corrected as in V-trace, or the actions in them, as in Retrace. The latter takes
    one of a few actions."""
    trace: Share = 0.9
    """What of a later correction is handed back at each step: lambda."""
    ratio_limit: Rate = 1.0
    """Where ratios are truncated in corrections and in the policy's weights: rho-bar."""
    trace_limit: Rate = 1.0
    """Where ratios are truncated in traces: c-bar."""
    ratio_power: Share = 0.0
    """Power of the product of earlier ratios that weighs a decision: 1 corrects for the states seen, 0 does not."""
    clip: Rate = 0.1
    """How far, relatively, a probability may move from what it was at the draw before an advantage pushes no more."""
    divergence_limit: Rate | None = None
    """KL divergence, added up over the draws, at which the steps on a batch stop; never unless given."""
    entropy: Amount | None = None
    """Weight of the policy's entropy, beside advantages with a mean square of one. Unless given, 0.01 where
    actions are continuous; otherwise 0.1, less where episodes are longer than 25 actions, as 0.05 for 50; but less than
    that only in so far as there are few actions to choose from: 0.1 from 16 on in episodes of 50."""
    target_rate: PositiveShare = 0.05
    """How far the target critic moves towards the critic at each step."""
    exploration: Share | None = None
    """Share of actions that an exploring agent draws uniformly. Unless given, 0.2 where actions are continuous and have
    bounds, otherwise none."""
    deviation_floor: Amount = 0.1
    """The least standard deviation of continuous actions, where the bounds lie at -1 and 1."""
    normalise: bool = True
    """Show the networks observations and goals with mean 0 and deviation 1, by running statistics."""
    interactions: bool = True
    """Show the networks the product of observation and goal as well, where they have the same size."""
    waves: Waves | None = None
    """Sines and cosines of each number that the networks are shown as well, with wavelengths from 4 deviations down by
    halves; 3 unless given where observation and goal have at most 8 numbers together, otherwise none."""
    reward_offset: Number | None = None
    """Added to every reward that the agent learns from; 1 turns -1 and 0 into 0 and 1. Unless given, none; but where
    reaching a goal is worth as much late as early, minus that worth, so that every step before it costs something."""
    reward_scale: Rate | None = None
    """What rewards are divided by; the horizon unless given."""

    def widths(self, numbers: int) -> tuple[int, ...]:
        """Of the hidden layers, where observation and goal have so many numbers together."""
        if self.hidden_layers is not None:
            return self.hidden_layers
        return (128, 128) if numbers <= FEW_NUMBERS else (256, 256, 256)

    def work(self, actions: int, horizon: int, pictures: bool = False) -> Work:
        """What a batch is worth, where there are so many actions to choose from (0 if they are vectors)."""
        steps, minibatch = 1.0, self.minibatch or 512
        if not pictures:
            steps = max(STEPS_FOR_AN_EPISODE, STEPS_FOR_AN_ACTION * actions, (horizon - 1) / DECISIONS_FOR_A_STEP)
            minibatch = self.minibatch or min(32 * (horizon - 1), MOST_DECISIONS)
        pairs = self.pairs or 256
        goals = self.goals_together or (GOALS_OF_A_PICTURE if pictures else 1)
        if self.goals_together and goals > min(pairs, minibatch):
            raise HindsightError(
                f"goals_together must be at most the pairs ({pairs}) and the minibatch ({minibatch}), not {goals}."
            )
        if not (most := MOST_COUNTED // (CANDIDATES * horizon)):
            raise HindsightError(f"Compiled programs cannot count {CANDIDATES * horizon} actions: lower the horizon.")
        if pairs > most:
            raise HindsightError(
                f"pairs must be at most {most} where episodes have {horizon - 1} actions, not {pairs}: compiled "
                "programs count no further."
            )

        def divided(count: int) -> int:
            return max(count // goals, 1) * goals

        return Work(steps, divided(pairs), divided(minibatch), goals)

    def steps_on_a_batch(self, episodes: int, work: Work) -> int:
        """Gradient steps on so many new episodes."""
        return self.gradient_steps or math.ceil(episodes * work.steps_for_an_episode)

    def entropy_weight(self, actions: int, horizon: int) -> float:
        """Where there are so many actions to choose from (0 if they are vectors).

        Of vectors one deviation serves all states, so that a small weight moves it. In a long episode many actions must
        go right, so that each may be left less to chance. But the more there are to choose from, the less often each
        was tried, and the more of what seems good about it is chance itself.
        """
        chosen = min(0.1, 2.5 / (horizon - 1) * max(1.0, actions / FEW_ACTIONS)) if actions else 0.01
        return chosen if self.entropy is None else self.entropy

    def offset(self, early: float, late: float) -> float:
        """Where the reward of reaching a goal at the first and at the last time is so much."""
        chosen = -early if early == late and early > 0 else 0.0
        return chosen if self.reward_offset is None else self.reward_offset

    def uniform_share(self, bounded: bool) -> float:
        """Of actions within bounds, which few of a normal distribution's lie near once it is narrow."""
        return self.exploration if self.exploration is not None else 0.2 if bounded else 0.0


@dataclass(frozen=True)
class HPPOOptions(PPOOptions):
    """The same, learning about any goal from any episode."""

    achieved_share: Share = 0.4
    """Share of pairs whose goal was achieved later in the episode."""
    earlier_share: Share = 0.0
    """Share of pairs that begin where the episode left a goal it had achieved: what to do near a goal, and what not,
    cannot be told from goals that were reached in the end alone."""
    own_share: Share = 0.1
    """Share of pairs whose goal is the one that the episode pursued; all others have goals of other episodes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        total = self.achieved_share + self.earlier_share + self.own_share
        if total > 1 + 1e-9:
            raise HindsightError(f"achieved_share, earlier_share and own_share must sum to at most 1, not {total:g}.")
