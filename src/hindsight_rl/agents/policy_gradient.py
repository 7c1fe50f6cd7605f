"""The policy-gradient agents: log-ratios, coefficients and one surrogate, whatever the estimator."""

from dataclasses import fields
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key

from hindsight_rl.agents.active_goals import active_goals, own_rewards, pursued_goals, rewards_of_goals
from hindsight_rl.agents.baseline import pursued_values, temporal_difference_gradient, values_under_goals
from hindsight_rl.agents.interface import Agent, Rates, Update, all_finite
from hindsight_rl.agents.options import HindsightBaselineOptions, PolicyOptions
from hindsight_rl.agents.surrogate import States, encode_states, log_probabilities_under_goals, surrogate_gradient
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.goals import GoalSet
from hindsight_rl.core.pairs import significant
from hindsight_rl.environments.interface import Task
from hindsight_rl.estimators import cumulative_log_ratios, normalised_ratios
from hindsight_rl.estimators.table import Estimator, Ingredients
from hindsight_rl.networks.layers import with_statistics
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


def policy_gradient_agent(task: Task, estimator: Estimator, options: PolicyOptions) -> Agent:
    """The agent that climbs an estimated gradient; an estimator with values learns them as its baseline."""
    if estimator.goals == "all":
        raise HindsightError(
            f"The estimator '{estimator.summary}' sums over all goals, which a learner does not know: train with one "
            "over pursued or active goals."
        )
    # A method of somebody's own may have options of its own too.
    known = {field.name for field in fields(HindsightBaselineOptions)}
    every = HindsightBaselineOptions(**{name: value for name, value in vars(options).items() if name in known})

    def init(key: Key[Array, ""]) -> PolicyGradientState:
        policy_key, baseline_key = jax.random.split(key)
        observation = task.observation_shape if task.shows_pictures else flat_size(task.observation_shape)
        goal_size = flat_size(task.goal_shape)
        policy = Policy(
            observation,
            goal_size,
            task.action_count,
            every.hidden_layers,
            policy_key,
            INITIALISERS[every.initial_weights],
            task.continuous,
            every.normalise,
            task.action_bounds,
        )
        counts = jnp.zeros((task.horizon - 1, RATIO_BINS), jnp.int32) if estimator.weighted else None
        if not estimator.values:
            return PolicyGradientState(policy, OPTIMISER.init(policy), None, None, counts)
        baseline = Value(observation, goal_size, every.hidden_layers, baseline_key)
        return PolicyGradientState(policy, OPTIMISER.init(policy), baseline, OPTIMISER.init(baseline), counts)

    def explore(
        state: PolicyGradientState, observations: Array, goals: Array, time: Array, key: Key[Array, ""]
    ) -> tuple[Array, Array]:
        return state.policy.sample(observations, _rows(goals), key)

    def exploit(state: PolicyGradientState, observations: Array, goals: Array, time: Array) -> Array:
        return state.policy.greedy(observations, _rows(goals))

    def update(state: PolicyGradientState, episodes: Episodes, rates: Rates, key: Key[Array, ""]) -> Update:
        return _update(task, estimator, every, state, episodes, rates, key)

    def records(state: PolicyGradientState) -> dict[str, Array]:
        return {} if state.ratio_counts is None else {"ratios": state.ratio_counts}

    return Agent(init, explore, exploit, update, lambda state: state.policy, records, any_behaviour=estimator.ratios)


def _update(
    task: Task,
    estimator: Estimator,
    options: HindsightBaselineOptions,
    state: PolicyGradientState,
    episodes: Episodes,
    rates: Rates,
    key: Key[Array, ""],
) -> Update:
    """One step of gradient ascent on the policy and, where there is one, of descent on the baseline's error."""
    states = encode_states(task, state.policy, episodes)
    own = estimator.goals == "pursued"
    goals = pursued_goals(task, episodes) if own else active_goals(task, episodes, key, options)
    coefficients, counts = training_coefficients(task, estimator, options, state, episodes, states, goals)
    gradient = surrogate_gradient(state.policy, episodes, states, goals, coefficients)
    policy, policy_optimiser = _ascend(state.policy, gradient, state.policy_optimiser, rates["learning_rate"])
    updated = state._replace(policy=with_statistics(policy, episodes), policy_optimiser=policy_optimiser)
    if state.ratio_counts is not None and counts is not None:
        updated = updated._replace(ratio_counts=state.ratio_counts + counts)
    finite = [jnp.bool_(True), all_finite(gradient)]
    if state.baseline is not None:
        descent = temporal_difference_gradient(task, state.baseline, episodes, options)
        rate = rates["baseline_learning_rate"]
        baseline, optimiser = _ascend(state.baseline, descent, state.baseline_optimiser, -rate)
        updated = updated._replace(baseline=baseline, baseline_optimiser=optimiser)
        finite.append(all_finite(descent))
    else:
        finite.append(jnp.bool_(True))
    finite.append(all_finite((updated.policy, updated.baseline)))
    # The first check that fails names the cause; where none does, argmax finds the padding's 0.
    cause = jnp.argmax(~jnp.stack(finite)).astype(jnp.int32)
    return Update(jax.tree.map(lambda new, old: jnp.where(cause == 0, new, old), updated, state), cause)


def training_coefficients(
    task: Task,
    estimator: Estimator,
    options: HindsightBaselineOptions,
    state: PolicyGradientState,
    episodes: Episodes,
    states: States,
    goals: GoalSet,
) -> tuple[Float[Array, "*goal episode time"], Int[Array, "time bin"] | None]:
    """An estimator's coefficients at the published scale: p(g) relative to uniform, and a batch mean.

    Also how many of the normalised ratios behind them fell into each bin; None for an estimator without them.
    """
    own = estimator.goals == "pursued"
    rewards, decides = own_rewards(task, episodes, options) if own else rewards_of_goals(task, episodes, goals, options)
    log_ratios, ratios = jnp.zeros_like(rewards), None
    if estimator.ratios:
        log_ratios = _log_ratios(estimator, state.policy, episodes, states, goals, rewards)
    if estimator.weighted:
        ratios = normalised_ratios(log_ratios, episodes.taken, options.ended, options.normaliser_floor)
    values = jnp.zeros_like(rewards)
    if state.baseline is not None and own:
        values = jnp.where(decides, pursued_values(state.baseline, episodes)[:, :-1], 0)
    elif state.baseline is not None:
        wanted = decides & significant(ratios) if estimator.values_where_weighed and ratios is not None else decides
        values = values_under_goals(task, state.baseline, episodes, goals, wanted)
    # Nothing is worth anything at the last state.
    values = jnp.concatenate([values, jnp.zeros_like(values[..., :1])], axis=-1)
    given = Ingredients(
        log_ratios, rewards, values, goals.probabilities, episodes.taken, options.ended, options.normaliser_floor
    )
    scale = 1.0 if own else task.goal_count / (len(episodes.lengths) if estimator.weighted else 1)
    counts = None if ratios is None else count_active_ratios(ratios, rewards)
    return estimator.coefficients(given) * scale, counts


def _log_ratios(
    estimator: Estimator,
    policy: Policy,
    episodes: Episodes,
    states: States,
    goals: GoalSet,
    rewards: Float[Array, "goal episode time"],
) -> Float[Array, "goal episode time"]:
    """Those of the actions up to each time, as far as the estimator looks at them."""
    horizons = jnp.where(goals.present, rewards.shape[2], 0)
    if estimator.ratios_where_rewarded:
        horizons = jnp.max(jnp.where(rewards != 0, jnp.arange(1, rewards.shape[2] + 1), 0), axis=(1, 2))
    log_probabilities = log_probabilities_under_goals(policy, episodes, states, goals, horizons)
    return cumulative_log_ratios(log_probabilities, episodes.log_probabilities, episodes.taken)


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


def _ascend(model: eqx.Module, gradient: eqx.Module, optimiser: optax.OptState, rate: Array) -> tuple[Any, ...]:
    direction, optimiser = OPTIMISER.update(gradient, optimiser)
    return jax.tree.map(lambda parameter, step: parameter + rate * step, model, direction), optimiser


def _rows(batch: Array) -> Float[Array, "row features"]:
    return batch.reshape(batch.shape[0], -1)
