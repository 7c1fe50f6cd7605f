"""From episodes and coefficients to a gradient: each distinct pair of state and goal goes through the network once."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hindsight_rl.agents import pairs as pairwise
from hindsight_rl.agents.distinct import Distinct, distinct_rows
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.goals import GoalSet
from hindsight_rl.environments.interface import Task
from hindsight_rl.networks.policy import Policy


class States(eqx.Module):
    """The distinct states in which an action was taken, encoded by the policy once, whatever is done with them."""

    encoded: Float[Array, "state encoded"]
    pull: Callable[[Array], tuple[Policy]] | None
    """From a gradient with respect to `encoded` to one with respect to the policy; None where no parameter matters."""
    present: Bool[Array, " state"]
    index: Int[Array, " decision"]
    """The state of each episode and time."""


def encode_states(task: Task, policy: Policy, episodes: Episodes) -> States:
    """Find the distinct states of a batch and encode them."""
    found = distinct_states(task, episodes)
    if policy.trunk is None:
        return States(policy.encode(found.rows), None, found.present, found.index)
    encoded, pull = jax.vjp(lambda policy: policy.trunk.encode(found.rows, found.present), policy)
    return States(encoded, pull, found.present, found.index)


def distinct_states(task: Task, episodes: Episodes) -> Distinct:
    """The distinct observations in which an action was taken; `index` has one entry for each episode and time.

    Pictures, and states with continuous actions, hardly ever repeat: there every decision keeps its own.
    """
    batch_size, times = episodes.actions.shape[:2]
    if task.continuous or task.shows_pictures:
        rows = episodes.observations[:, :-1].reshape(batch_size * times, *task.observation_shape)
        return Distinct(rows, episodes.taken.ravel(), jnp.arange(batch_size * times))
    rows = episodes.observations[:, :-1].reshape(batch_size * times, -1)
    limit = min(batch_size * times, task.state_limit or batch_size * times)
    return distinct_rows(rows, episodes.taken.ravel(), limit)


def log_probabilities_under_goals(
    policy: Policy, episodes: Episodes, states: States, goals: GoalSet, horizons: Int[Array, " goal"]
) -> Float[Array, "goal episode time"]:
    """log p(a[i, t] | s[i, t], g), forward only, for the times before each goal's horizon.

    Beyond it, those under the pursued goal stand in, which leaves the ratio as it is: no normaliser needs a ratio
    later than the last reward of its goal.
    """
    batch_size, times = episodes.actions.shape[:2]
    clock = jnp.where(episodes.taken, jnp.arange(times), times).ravel()
    first_visit = jnp.full(states.present.shape, times).at[states.index].min(clock)
    pairs = pairwise.select(first_visit[:, None] < horizons[None])
    flat_goals = goals.goals.reshape(len(goals.present), -1)
    table = pairwise.evaluate(
        lambda row, goal: policy.distributions(states.encoded[row], flat_goals[goal]), pairs, policy.output_size
    )
    needed = episodes.taken.reshape(-1, 1) & (jnp.tile(jnp.arange(times), batch_size)[:, None] < horizons[None])
    if policy.log_deviation is None:
        cells = pairs.numbers[states.index] * policy.output_size + episodes.actions.reshape(-1, 1)
        found = table.ravel()[jnp.where(needed, cells, 0)]
    else:
        actions = episodes.actions.reshape(batch_size * times, 1, -1)
        found = policy.log_density(table[jnp.where(needed, pairs.numbers[states.index], 0)], actions)
    found = jnp.where(needed, found, episodes.log_probabilities.reshape(-1, 1))
    return found.T.reshape(-1, batch_size, times)


def surrogate_gradient(
    policy: Policy,
    episodes: Episodes,
    states: States,
    goals: GoalSet,
    coefficients: Float[Array, "goal episode time"],
) -> Policy:
    """The gradient of sum c[g, i, t] log p(a[i, t] | s[i, t], g) with c constant.

    Coefficients of the same state, action and goal are added up first, and pairs whose coefficients cannot be felt are
    left out: zeros, as without a baseline those of episodes that did not reach the goal, and what rounding would lose.
    """
    if policy.log_deviation is None:
        return _discrete(policy, episodes, states, goals, coefficients)
    return _continuous(policy, episodes, states, goals, coefficients)


def _discrete(policy: Policy, episodes: Episodes, states: States, goals: GoalSet, coefficients: Array) -> Policy:
    action_count = policy.output_size
    decisions = states.index * action_count + episodes.actions.ravel()
    rows = coefficients.reshape(len(goals.present), -1).T
    totals = jnp.zeros((len(states.present) * action_count, rows.shape[1])).at[decisions].add(rows)
    totals = totals.reshape(len(states.present), action_count, -1)

    def surrogate(policy: Policy, outputs: Array, row: Array, goal: Array, real: Array) -> Float[Array, ""]:
        return jnp.sum(jnp.where(real[:, None], totals[row, :, goal], 0) * outputs)

    pairs = pairwise.select(jnp.any(pairwise.felt(totals), axis=1))
    return _accumulate(policy, states, goals, pairs, surrogate)


def _continuous(policy: Policy, episodes: Episodes, states: States, goals: GoalSet, coefficients: Array) -> Policy:
    weights = coefficients.reshape(len(goals.present), -1).T
    actions = episodes.actions.reshape(len(weights), -1)

    def surrogate(policy: Policy, outputs: Array, row: Array, goal: Array, real: Array) -> Float[Array, ""]:
        return jnp.sum(jnp.where(real, weights[row, goal], 0) * policy.log_density(outputs, actions[row]))

    return _accumulate(policy, states, goals, pairwise.select(pairwise.felt(weights)), surrogate)


def _accumulate(policy: Policy, states: States, goals: GoalSet, pairs: pairwise.Pairs, surrogate: Any) -> Policy:
    """The surrogate's gradient, tile by tile; what depends on the state alone is differentiated once at the end."""
    flat_goals = goals.goals.reshape(len(goals.present), -1)

    def tile_gradient(row: Array, goal: Array, real: Array) -> Any:
        def value(policy: Policy, encoded: Array) -> Float[Array, ""]:
            return surrogate(policy, policy.distributions(encoded[row], flat_goals[goal]), row, goal, real)

        return jax.grad(value, argnums=(0, 1) if states.pull else 0)(policy, states.encoded)

    if states.pull is None:
        return pairwise.accumulate(tile_gradient, pairs, jax.tree.map(jnp.zeros_like, policy))
    zero = jax.tree.map(jnp.zeros_like, (policy, states.encoded))
    direct, through_states = pairwise.accumulate(tile_gradient, pairs, zero)
    return jax.tree.map(jnp.add, direct, states.pull(through_states)[0])
