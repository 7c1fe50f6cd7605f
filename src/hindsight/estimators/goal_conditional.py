"""Goal-conditional policy gradients (section 3): each episode teaches only about the goal it pursued."""

from jaxtyping import Array, Float

from hindsight.estimators.ratios import rewards_to_go


def goal_conditional(rewards: Float[Array, "episode time"]) -> Float[Array, "episode time"]:
    """Theorem 3.1 as a batch mean: c[i, t] = 1/N sum_{t' > t} r(s[i, t'], g[i]). Unbiased."""
    return rewards_to_go(rewards) / rewards.shape[0]


def goal_conditional_baseline(
    rewards: Float[Array, "episode time"], baselines: Float[Array, "episode time"]
) -> Float[Array, "episode time"]:
    """Theorem 3.2 as a batch mean: c[i, t] = 1/N (sum_{t' > t} r(s[i, t'], g[i]) - b_t(s[i, t], g[i])). Unbiased.

    `baselines` is zero for actions that were not taken.
    """
    return (rewards_to_go(rewards) - baselines) / rewards.shape[0]
