"""From episodes and coefficients to a gradient: each distinct pair of state and goal goes through the network once."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hindsight_rl.core import pairs as pairwise
from hindsight_rl.core.distinct import Distinct, distinct_rows
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.goals import GoalSet
from hindsight_rl.environments.interface import Task
from hindsight_rl.networks.policy import Policy


class Objective(NamedTuple):
    """What is summed over samples: a function of log p, of log p when the action was taken, and of coefficients c.

    Samples with the same state, action and goal share both log-probabilities, so sums over their coefficients are all
    that is needed of them.
    """

    parts: Callable[[Array], tuple[Array, ...]]
    """What is added up, from the coefficients."""
    value: Callable[..., Array]
    """(log p, log p when taken, *sums) to the objective."""


LINEAR = Objective(lambda c: (c,), lambda now, before, total: total * now)
"""c log p, whose gradient is REINFORCE's."""


def clipped(width: float) -> Objective:
    """min(r c, clip(r, 1 - width, 1 + width) c) with r = p / (p when taken), as in proximal policy optimisation.

    For positive c that is c min(r, 1 + width), for negative c it is c max(r, 1 - width).
    """

    def value(now: Array, before: Array, gains: Array, losses: Array) -> Array:
        # Where there is nothing to multiply, the ratio may be too large for a float.
        ratio = jnp.exp(jnp.where((gains != 0) | (losses != 0), now - before, 0))
        return gains * jnp.minimum(ratio, 1 + width) + losses * jnp.maximum(ratio, 1 - width)

    return Objective(lambda c: (jnp.maximum(c, 0), jnp.minimum(c, 0)), value)


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
        lambda row, goal: policy.distributions(states.encoded[row], flat_goals[goal]), pairs, policy.head.size
    )
    needed = episodes.taken.reshape(-1, 1) & (jnp.tile(jnp.arange(times), batch_size)[:, None] < horizons[None])
    numbers = jnp.where(needed, pairs.numbers[states.index], 0)
    found = policy.head.look_up(table, numbers, _decisions(episodes))
    found = jnp.where(needed, found, episodes.log_probabilities.reshape(-1, 1))
    return found.T.reshape(-1, batch_size, times)


def surrogate_gradient(
    policy: Policy,
    episodes: Episodes,
    states: States,
    goals: GoalSet,
    coefficients: Float[Array, "*goal episode time"],
    objective: Objective = LINEAR,
    before: Float[Array, "*goal episode time"] | None = None,
) -> Policy:
    """The gradient of an objective of log p(a[i, t] | s[i, t], g) with coefficients c[g, i, t] held constant.

    Coefficients without a goal axis are those of each episode's own goal, and `goals` those that were pursued. An
    objective that compares with the policy `before` needs its log p(a[i, t] | s[i, t], g) wherever c is not zero.

    Coefficients of the same state, action and goal are added up first, and pairs whose coefficients are negligible are
    left out: zeros, as without a baseline those of episodes that did not reach the goal, and what rounding would lose.
    """
    rows = _rows(states, episodes, coefficients.ndim == 2)
    head, actions = policy.head, _decisions(episodes)
    shape = (len(rows.states), head.kinds, 1 if rows.goals is not None else len(goals.present))
    places = rows.places * head.kinds + head.kind(actions)
    empty = jnp.zeros((shape[0] * shape[1], shape[2]))

    def columns(values: Float[Array, "*goal episode time"]) -> Float[Array, "decision goal"]:
        return values.reshape(shape[2], -1).T

    sums = [empty.at[places].add(columns(part)).reshape(shape) for part in objective.parts(coefficients)]
    if before is not None:
        known = jnp.where(columns(coefficients) != 0, columns(before), -jnp.inf)
        before = (empty - jnp.inf).at[places].max(known).reshape(shape)

    def value(policy: Policy, outputs: Array, row: Array, column: Array, real: Array) -> Float[Array, ""]:
        now = policy.head.of_kinds(outputs, actions[rows.states[row]])
        then = None if before is None else before[row, :, column]
        parts = (jnp.where(real[:, None], part[row, :, column], 0) for part in sums)
        return jnp.sum(objective.value(now, then, *parts))

    wanted = jnp.stack([jnp.any(pairwise.significant(part), axis=1) for part in sums])
    return _accumulate(policy, states, goals, rows, pairwise.select(jnp.any(wanted, axis=0)), value)


class _Rows(NamedTuple):
    """The rows of the table in which coefficients are added up; its columns are goals."""

    places: Int[Array, " decision"]
    """The row of each episode and time."""
    states: Int[Array, " row"]
    goals: Int[Array, " row"] | None
    """Where each row has a goal of its own, that goal, and the table has one column."""


def _rows(states: States, episodes: Episodes, own_goals: bool) -> _Rows:
    """A row for each state or, where an episode counts for its own goal alone, for each state and episode."""
    if not own_goals:
        return _Rows(states.index, jnp.arange(len(states.present)), None)
    batch_size, times = episodes.actions.shape[:2]
    visits = jnp.stack([states.index, jnp.repeat(jnp.arange(batch_size), times)], axis=1)
    found = distinct_rows(visits, episodes.taken.ravel(), batch_size * times)
    return _Rows(found.index, found.rows[:, 0], found.rows[:, 1])


def _decisions(episodes: Episodes) -> Array:
    """The actions of all episodes and times, one after another."""
    return episodes.actions.reshape(-1, *episodes.actions.shape[2:])


def _accumulate(
    policy: Policy, states: States, goals: GoalSet, rows: _Rows, pairs: pairwise.Pairs, value: Callable[..., Array]
) -> Policy:
    """The gradient, tile by tile; what depends on the state alone is differentiated once at the end."""
    flat_goals = goals.goals.reshape(len(goals.present), -1)

    def tile_gradient(row: Array, column: Array, real: Array) -> Any:
        state, goal = rows.states[row], column if rows.goals is None else rows.goals[row]

        def total(policy: Policy, encoded: Array) -> Float[Array, ""]:
            return value(policy, policy.distributions(encoded[state], flat_goals[goal]), row, column, real)

        return jax.grad(total, argnums=(0, 1) if states.pull else 0)(policy, states.encoded)

    if states.pull is None:
        return pairwise.accumulate(tile_gradient, pairs, jax.tree.map(jnp.zeros_like, policy))
    zero = jax.tree.map(jnp.zeros_like, (policy, states.encoded))
    direct, through_states = pairwise.accumulate(tile_gradient, pairs, zero)
    return jax.tree.map(jnp.add, direct, states.pull(through_states)[0])
