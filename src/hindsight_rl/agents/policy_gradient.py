"""The policy-gradient agents: log-ratios, coefficients and one surrogate, for every method in the registry."""

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key

from hindsight_rl.agents.active_goals import PLAIN, Lessons, active_goals, own_rewards, pursued_goals, rewards_of_goals
from hindsight_rl.agents.baseline import pursued_values, temporal_difference_gradient, values_under_goals
from hindsight_rl.agents.interface import Agent, LearningRates
from hindsight_rl.agents.pairs import felt
from hindsight_rl.agents.registry import Method
from hindsight_rl.agents.surrogate import States, encode_states, log_probabilities_under_goals, surrogate_gradient
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.goals import GoalSet
from hindsight_rl.environments.interface import Task
from hindsight_rl.estimators import (
    cumulative_log_ratios,
    goal_conditional,
    goal_conditional_baseline,
    normalised_ratios,
    weighted_baseline,
    weighted_per_decision,
    without_ratios,
)
from hindsight_rl.networks.perceptron import flat_size, narrow_normal, scaled_uniform
from hindsight_rl.networks.policy import Policy
from hindsight_rl.networks.value import Value

OPTIMISER = optax.scale_by_adam()
"""Adam without its step size, which is traced."""


INITIALISERS = {"narrow": narrow_normal, "scaled": scaled_uniform}

RATIO_BINS = 32
"""Equal bins from 0 to 1 in which the active normalised ratios are counted."""


class PolicyGradientState(NamedTuple):
    """Networks and their optimisers; the baseline is None for methods without one, as are the counts of ratios."""

    policy: Policy
    policy_optimiser: optax.OptState
    baseline: Value | None
    baseline_optimiser: optax.OptState | None
    ratio_counts: Int[Array, "time bin"] | None = None
    """How many active normalised ratios fell into each bin so far: those that multiplied a reward, by its time."""


class Options(NamedTuple):
    """The part of the settings that a policy-gradient agent needs."""

    hidden_layers: tuple[int, ...] = (256, 256)
    max_active_goals: int | None = None
    ended: Literal["drop", "carry"] = "drop"
    initial_weights: Literal["narrow", "scaled"] = "narrow"
    normalise: bool = False
    lessons: Lessons = PLAIN


def policy_gradient_agent(task: Task, method: Method, options: Options) -> Agent:
    """The agent that runs a policy-gradient method."""
    goal_size = flat_size(task.goal_shape)
    if method.baseline and task.shows_pictures:
        raise HindsightError(
            "The baseline has no convolutions, but this environment shows pictures: choose a method without a baseline."
        )

    def init(key: Key[Array, ""]) -> PolicyGradientState:
        policy_key, baseline_key = jax.random.split(key)
        policy = Policy(
            task.observation_shape if task.shows_pictures else flat_size(task.observation_shape),
            goal_size,
            task.action_count,
            options.hidden_layers,
            policy_key,
            INITIALISERS[options.initial_weights],
            task.continuous,
            options.normalise,
            task.action_bounds,
        )
        counts = jnp.zeros((task.horizon - 1, RATIO_BINS), jnp.int32) if method.ratios else None
        if not method.baseline:
            return PolicyGradientState(policy, OPTIMISER.init(policy), None, None, counts)
        baseline = Value(flat_size(task.observation_shape), goal_size, options.hidden_layers, baseline_key)
        return PolicyGradientState(policy, OPTIMISER.init(policy), baseline, OPTIMISER.init(baseline), counts)

    def explore(
        state: PolicyGradientState, observations: Array, goals: Array, time: Array, key: Key[Array, ""]
    ) -> tuple[Array, Array]:
        return state.policy.sample(observations, _rows(goals), key)

    def exploit(state: PolicyGradientState, observations: Array, goals: Array, time: Array) -> Array:
        return state.policy.greedy(observations, _rows(goals))

    def update(
        state: PolicyGradientState, episodes: Episodes, rates: LearningRates, key: Key[Array, ""]
    ) -> tuple[PolicyGradientState, Int[Array, ""]]:
        return _update(task, method, options, state, episodes, rates, key)

    def records(state: PolicyGradientState) -> dict[str, Array]:
        return {} if state.ratio_counts is None else {"ratios": state.ratio_counts}

    return Agent(init, explore, exploit, update, lambda state: state.policy, records)


def _update(
    task: Task,
    method: Method,
    options: Options,
    state: PolicyGradientState,
    episodes: Episodes,
    rates: LearningRates,
    key: Key[Array, ""],
) -> tuple[PolicyGradientState, Int[Array, ""]]:
    """One step of gradient ascent on the policy and, where there is one, of descent on the baseline's error."""
    states = encode_states(task, state.policy, episodes)
    if method.hindsight:
        goals = active_goals(task, episodes, options.max_active_goals, key, options.lessons)
        coefficients, counts = hindsight_coefficients(
            task, method, options.ended, state, episodes, states, goals, options.lessons
        )
    else:
        goals = pursued_goals(task, episodes)
        coefficients, counts = pursued_coefficients(task, state, episodes, options.lessons), None
    gradient = surrogate_gradient(state.policy, episodes, states, goals, coefficients)
    policy, policy_optimiser = _ascend(state.policy, gradient, state.policy_optimiser, rates.policy)
    updated = state._replace(policy=policy, policy_optimiser=policy_optimiser)
    if state.ratio_counts is not None and counts is not None:
        updated = updated._replace(ratio_counts=state.ratio_counts + counts)
    if updated.policy.normalisers is not None:
        updated = updated._replace(policy=_seen(updated.policy, episodes))
    finite = [jnp.bool_(True), _finite(gradient)]
    if state.baseline is not None:
        descent = temporal_difference_gradient(task, state.baseline, episodes, options.lessons)
        baseline, optimiser = _ascend(state.baseline, descent, state.baseline_optimiser, -rates.baseline)
        updated = updated._replace(baseline=baseline, baseline_optimiser=optimiser)
        finite.append(_finite(descent))
    else:
        finite.append(jnp.bool_(True))
    finite.append(_finite((updated.policy, updated.baseline)))
    # The first check that fails names the cause; where none does, argmax finds the padding's 0.
    cause = jnp.argmax(~jnp.stack(finite)).astype(jnp.int32)
    return jax.tree.map(lambda new, old: jnp.where(cause == 0, new, old), updated, state), cause


def pursued_coefficients(
    task: Task, state: PolicyGradientState, episodes: Episodes, lessons: Lessons = PLAIN
) -> Float[Array, "goal episode time"]:
    """Coefficients of the goal-conditional methods: goal i matters to episode i alone."""
    rewards, decides = own_rewards(task, episodes, lessons)
    own = jnp.eye(len(episodes.lengths), dtype=bool)
    if state.baseline is None:
        coefficients = goal_conditional(rewards)
    else:
        values = jnp.where(decides, pursued_values(state.baseline, episodes)[:, :-1], 0)
        coefficients = goal_conditional_baseline(rewards, values)
    return jnp.where(own[:, :, None], coefficients[None], 0)


def hindsight_coefficients(
    task: Task,
    method: Method,
    ended: Literal["drop", "carry"],
    state: PolicyGradientState,
    episodes: Episodes,
    states: States,
    goals: GoalSet,
    lessons: Lessons = PLAIN,
) -> tuple[Float[Array, "goal episode time"], Int[Array, "time bin"] | None]:
    """Coefficients of the hindsight methods, at the published scale: p(g) relative to uniform, and a batch mean.

    Also how many of the ratios behind them fell into each bin; None for a method without ratios.
    """
    rewards, decides = rewards_of_goals(task, episodes, goals, lessons)
    if not method.ratios:
        return without_ratios(rewards, goals.probabilities) * float(task.goal_count), None
    horizons = jnp.max(jnp.where(rewards != 0, jnp.arange(1, rewards.shape[2] + 1), 0), axis=(1, 2))
    if method.baseline:
        horizons = jnp.where(goals.present, rewards.shape[2], 0)
    log_probabilities = log_probabilities_under_goals(state.policy, episodes, states, goals, horizons)
    log_ratios = cumulative_log_ratios(log_probabilities, episodes.log_probabilities, episodes.taken)
    ratios = normalised_ratios(log_ratios, episodes.taken, ended)
    coefficients = weighted_per_decision(log_ratios, rewards, goals.probabilities, episodes.taken, ended)
    if state.baseline is not None:
        values = values_under_goals(state.baseline, episodes, goals, decides & felt(ratios))
        coefficients -= weighted_baseline(log_ratios, values, goals.probabilities, episodes.taken, ended)
    return coefficients * (task.goal_count / len(episodes.lengths)), count_active_ratios(ratios, rewards)


def count_active_ratios(
    ratios: Float[Array, "goal episode time"], rewards: Float[Array, "goal episode time"]
) -> Int[Array, "time bin"]:
    """How many of the ratios that multiply a reward lie in each bin; the last bin includes 1."""
    times = ratios.shape[2]
    bins = jnp.clip((ratios * RATIO_BINS).astype(jnp.int32), 0, RATIO_BINS - 1)
    places = jnp.arange(times)[None, None, :] * RATIO_BINS + bins
    # What is not active goes to a place behind the others.
    places = jnp.where(rewards != 0, places, times * RATIO_BINS).ravel()
    return jnp.zeros(times * RATIO_BINS + 1, jnp.int32).at[places].add(1)[:-1].reshape(times, RATIO_BINS)


def _seen(policy: Policy, episodes: Episodes) -> Policy:
    """The policy with the batch in its statistics, which its next actions are based on."""
    assert policy.normalisers is not None
    observations, goals = policy.normalisers
    before = episodes.observations[:, :-1].reshape(episodes.taken.size, -1)
    after = episodes.achieved_goals[:, 1:].reshape(episodes.taken.size, -1)
    counted = episodes.taken.ravel()
    newer = (observations.seen(before, counted), goals.seen(after, counted))
    return eqx.tree_at(lambda one: one.normalisers, policy, newer)


def _ascend(model: eqx.Module, gradient: eqx.Module, optimiser: optax.OptState, rate: Array) -> tuple:
    direction, optimiser = OPTIMISER.update(gradient, optimiser)
    return jax.tree.map(lambda parameter, step: parameter + rate * step, model, direction), optimiser


def _finite(tree: object) -> Array:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]))


def _rows(batch: Array) -> Float[Array, "row features"]:
    return batch.reshape(batch.shape[0], -1)
