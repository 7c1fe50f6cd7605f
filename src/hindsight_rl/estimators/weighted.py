"""Weighted hindsight estimators (section 5 and appendix C): ratios normalised over the batch, so between 0 and 1.

Consistent, not unbiased: their error falls with the number of episodes, when every episode has the full horizon.
"""

from typing import Literal

from jaxtyping import Array, Bool, Float

from hindsight_rl.estimators.checks import require_goal_probabilities, require_shapes
from hindsight_rl.estimators.ratios import normalised_ratios, rewards_to_go


def weighted_per_decision(
    log_ratios: Float[Array, "goal episode time"],
    rewards: Float[Array, "goal episode time"],
    goal_probabilities: Float[Array, " goal"],
    taken: Bool[Array, "episode time"],
    ended: Literal["drop", "carry"] = "drop",
    floor: float = 0.0,
) -> Float[Array, "goal episode time"]:
    """Theorem 5.2: c[g, i, t] = p(g) sum_{t' > t} w[g, i, t'-1] r(s[i, t'], g) with w = rho[g, i] / sum_j rho[g, j].

    `ended` and `floor` change the weights as `normalised_ratios` says.
    """
    return rewards_to_go(_weigh(log_ratios, "rewards", rewards, goal_probabilities, taken, ended, floor))


def weighted_baseline(
    log_ratios: Float[Array, "goal episode time"],
    baselines: Float[Array, "goal episode time"],
    goal_probabilities: Float[Array, " goal"],
    taken: Bool[Array, "episode time"],
    ended: Literal["drop", "carry"] = "drop",
    floor: float = 0.0,
) -> Float[Array, "goal episode time"]:
    """Theorem C.1: p(g) w[g, i, t] b_t(s[i, t], g), to subtract from Theorem 5.2. Converges to zero.

    The ratio here includes action t itself.
    """
    return _weigh(log_ratios, "baselines", baselines, goal_probabilities, taken, ended, floor)


def _weigh(
    log_ratios: Array,
    name: str,
    values: Array,
    goal_probabilities: Array,
    taken: Array,
    ended: Literal["drop", "carry"],
    floor: float,
) -> Float[Array, "goal episode time"]:
    axes = "goal episode time"
    require_shapes(
        log_ratios=(log_ratios, axes), **{name: (values, axes)}, goal_probabilities=(goal_probabilities, "goal")
    )
    require_goal_probabilities(goal_probabilities=goal_probabilities)
    return goal_probabilities[:, None, None] * normalised_ratios(log_ratios, taken, ended, floor) * values
