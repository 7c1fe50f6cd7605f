"""From episodes and coefficients to a gradient: each distinct pair of state and goal goes through the network once."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from hindsight.agents import pairs as pairwise
from hindsight.agents.distinct import Distinct, distinct_rows
from hindsight.core.episodes import Episodes
from hindsight.core.goals import GoalSet
from hindsight.environments.interface import Environment
from hindsight.networks.policy import Policy


def distinct_states(environment: Environment, episodes: Episodes) -> Distinct:
    """The distinct observations in which an action was taken; `index` has one entry for each episode and time."""
    batch_size, times = episodes.actions.shape
    rows = episodes.observations[:, :-1].reshape(batch_size * times, -1)
    limit = min(batch_size * times, environment.state_limit or batch_size * times)
    return distinct_rows(rows, episodes.taken.ravel(), limit)


def log_probabilities_under_goals(
    policy: Policy, episodes: Episodes, states: Distinct, goals: GoalSet, horizons: Int[Array, " goal"]
) -> Float[Array, "goal episode time"]:
    """log p(a[i, t] | s[i, t], g), forward only, for the times before each goal's horizon.

    Beyond it, those under the pursued goal stand in, which leaves the ratio as it is: no normaliser needs a ratio
    later than the last reward of its goal.
    """
    batch_size, times = episodes.actions.shape
    clock = jnp.where(episodes.taken, jnp.arange(times), times).ravel()
    first_visit = jnp.full(states.present.shape, times).at[states.index].min(clock)
    pairs = pairwise.select(first_visit[:, None] < horizons[None])
    flat_goals = goals.goals.reshape(len(goals.present), -1)
    action_count = policy.network.biases[-1].shape[0]
    table = pairwise.evaluate(
        lambda row, goal: policy.log_probabilities(states.rows[row], flat_goals[goal]), pairs, action_count
    )
    cells = pairs.numbers[states.index] * action_count + episodes.actions.reshape(-1, 1)
    needed = episodes.taken.reshape(-1, 1) & (jnp.tile(jnp.arange(times), batch_size)[:, None] < horizons[None])
    found = table.ravel()[jnp.where(needed, cells, 0)]
    found = jnp.where(needed, found, episodes.log_probabilities.reshape(-1, 1))
    return found.T.reshape(-1, batch_size, times)


def surrogate_gradient(
    policy: Policy,
    episodes: Episodes,
    states: Distinct,
    goals: GoalSet,
    coefficients: Float[Array, "goal episode time"],
) -> Policy:
    """The gradient of sum c[g, i, t] log p(a[i, t] | s[i, t], g) with c constant.

    Coefficients of the same state, action and goal are added up first, and pairs whose coefficients are all zero are
    left out: without a baseline, those of episodes that did not reach the goal.
    """
    action_count = policy.network.biases[-1].shape[0]
    decisions = states.index * action_count + episodes.actions.ravel()
    rows = coefficients.reshape(len(goals.present), -1).T
    totals = jnp.zeros((len(states.present) * action_count, rows.shape[1])).at[decisions].add(rows)
    totals = totals.reshape(len(states.present), action_count, -1)
    # Not a number differs from zero too, so that a broken coefficient reaches the gradient and is noticed.
    pairs = pairwise.select(jnp.any(totals != 0, axis=1))
    flat_goals = goals.goals.reshape(len(goals.present), -1)

    def tile_gradient(row: Array, goal: Array, real: Array) -> Policy:
        weights = jnp.where(real[:, None], totals[row, :, goal], 0)

        def surrogate(policy: Policy) -> Float[Array, ""]:
            return jnp.sum(weights * policy.log_probabilities(states.rows[row], flat_goals[goal]))

        return jax.grad(surrogate)(policy)

    return pairwise.accumulate(tile_gradient, pairs, jax.tree.map(jnp.zeros_like, policy))
