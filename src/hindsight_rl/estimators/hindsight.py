"""Hindsight policy gradients (section 4 and appendix B): each episode teaches about every goal it reached.

All are batch means, and unbiased for any pursued goals when every episode has the full horizon. Their ratios, and so
their variance, are unbounded; `weighted` has the bounded forms.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from hindsight_rl.estimators.checks import require_goal_probabilities, require_shapes
from hindsight_rl.estimators.ratios import rewards_to_go


def every_decision(
    log_ratios: Float[Array, "goal episode time"],
    rewards: Float[Array, "goal episode time"],
    goal_probabilities: Float[Array, " goal"],
) -> Float[Array, "goal episode time"]:
    """Theorem 4.1: c[g, i, t] = p(g)/N rho[g, i, T-1] sum_{t' > t} r(s[i, t'], g), rho that of the whole episode."""
    return _mean(log_ratios[:, :, -1:] + jnp.zeros_like(log_ratios), rewards_to_go(rewards), goal_probabilities)


def per_decision(
    log_ratios: Float[Array, "goal episode time"],
    rewards: Float[Array, "goal episode time"],
    goal_probabilities: Float[Array, " goal"],
) -> Float[Array, "goal episode time"]:
    """Theorems 4.2 and 5.1: c[g, i, t] = p(g)/N sum_{t' > t} rho[g, i, t'-1] r(s[i, t'], g), rho the ratio so far."""
    return rewards_to_go(_mean(log_ratios, rewards, goal_probabilities))


def hindsight_baseline(
    log_ratios: Float[Array, "goal episode time"],
    baselines: Float[Array, "goal episode time"],
    goal_probabilities: Float[Array, " goal"],
) -> Float[Array, "goal episode time"]:
    """Lemma 4.1: p(g)/N rho[g, i, t] b_t(s[i, t], g), to subtract from Theorem 4.2, which makes Theorem B.1.

    Its expectation is zero. The ratio here includes action t itself.
    """
    return _mean(log_ratios, baselines, goal_probabilities)


def hindsight_action_value(
    log_ratios: Float[Array, "goal episode time"],
    action_values: Float[Array, "goal episode time"],
    goal_probabilities: Float[Array, " goal"],
) -> Float[Array, "goal episode time"]:
    """Lemma B.1: c[g, i, t] = p(g)/N rho[g, i, t] Q_t(s[i, t], a[i, t], g). Unbiased with the true Q."""
    return _mean(log_ratios, action_values, goal_probabilities)


def hindsight_advantage(
    log_ratios: Float[Array, "goal episode time"],
    advantages: Float[Array, "goal episode time"],
    goal_probabilities: Float[Array, " goal"],
) -> Float[Array, "goal episode time"]:
    """Theorem 4.3: c[g, i, t] = p(g)/N rho[g, i, t] A_t(s[i, t], a[i, t], g). Unbiased with the true advantage."""
    return _mean(log_ratios, advantages, goal_probabilities)


def one_step_advantage(
    rewards: Float[Array, "goal episode time"], values: Float[Array, "goal episode state"]
) -> Float[Array, "goal episode time"]:
    """Theorem 4.4: r(s[t+1], g) + V_{t+1}(s[t+1], g) - V_t(s[t], g), whose expectation over s[t+1] is the advantage.

    `values` has one more entry along time than `rewards`: the last is that of the final state, which is zero.
    """
    require_shapes(rewards=(rewards, "goal episode time"), values=(values[:, :, :-1], "goal episode time"))
    return rewards + values[:, :, 1:] - values[:, :, :-1]


def without_ratios(
    rewards: Float[Array, "goal episode time"], goal_probabilities: Float[Array, " goal"]
) -> Float[Array, "goal episode time"]:
    """The ablation: Theorem 5.1 with every ratio replaced by one. Biased: it imitates whatever reached the goal."""
    return _mean(jnp.zeros_like(rewards), rewards_to_go(rewards), goal_probabilities)


def _mean(log_ratios: Array, values: Array, goal_probabilities: Array) -> Float[Array, "goal episode time"]:
    """p(g)/N rho[g, i, t] values[g, i, t]."""
    axes = "goal episode time"
    require_shapes(
        log_ratios=(log_ratios, axes), values=(values, axes), goal_probabilities=(goal_probabilities, "goal")
    )
    require_goal_probabilities(goal_probabilities=goal_probabilities)
    # Where there is nothing to weigh, the ratio does not matter, and may be too large for a float.
    weighted = jnp.where(values != 0, jnp.exp(log_ratios) * values, 0)
    return goal_probabilities[:, None, None] * weighted / values.shape[1]
