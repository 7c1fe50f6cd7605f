"""Goal-conditional policy gradients (section 3): each episode teaches only about the goal it pursued."""

from jaxtyping import Array, Float

from hindsight_rl.estimators.checks import require_shapes
from hindsight_rl.estimators.ratios import rewards_to_go


def goal_conditional(rewards: Float[Array, "episode time"]) -> Float[Array, "episode time"]:
    """Theorem 3.1 as a batch mean: c[i, t] = 1/N sum_{t' > t} r(s[i, t'], g[i]). Unbiased."""
    require_shapes(rewards=(rewards, "episode time"))
    return rewards_to_go(rewards) / rewards.shape[0]


def goal_conditional_baseline(
    rewards: Float[Array, "episode time"], baselines: Float[Array, "episode time"]
) -> Float[Array, "episode time"]:
    """Theorem 3.2 as a batch mean: c[i, t] = 1/N (sum_{t' > t} r(s[i, t'], g[i]) - b_t(s[i, t], g[i])). Unbiased.

    The baseline may depend on state, goal and time; it is zero for actions that were not taken.
    """
    require_shapes(rewards=(rewards, "episode time"), baselines=(baselines, "episode time"))
    return (rewards_to_go(rewards) - baselines) / rewards.shape[0]


def goal_conditional_action_value(action_values: Float[Array, "episode time"]) -> Float[Array, "episode time"]:
    """Lemma A.2 as a batch mean: c[i, t] = 1/N Q_t(s[i, t], a[i, t], g[i]). Unbiased with the true Q."""
    require_shapes(action_values=(action_values, "episode time"))
    return action_values / action_values.shape[0]


def goal_conditional_advantage(advantages: Float[Array, "episode time"]) -> Float[Array, "episode time"]:
    """Theorem 3.3 as a batch mean: c[i, t] = 1/N A_t(s[i, t], a[i, t], g[i]). Unbiased with the true advantage."""
    require_shapes(advantages=(advantages, "episode time"))
    return advantages / advantages.shape[0]
