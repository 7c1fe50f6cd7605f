"""The policy-gradient agents: log-ratios, coefficients and one surrogate, for every method in the registry."""

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key

from hindsight.agents import pairs as pairwise
from hindsight.agents.active_goals import active_goals, pursued_goals, rewards_of_goals
from hindsight.agents.distinct import Distinct, distinct_rows
from hindsight.agents.interface import Agent, LearningRates
from hindsight.agents.registry import Method
from hindsight.core.episodes import Episodes
from hindsight.core.goals import GoalSet
from hindsight.environments.interface import Environment
from hindsight.estimators.goal_conditional import goal_conditional, goal_conditional_baseline
from hindsight.estimators.hindsight import weighted_baseline, weighted_per_decision, without_ratios
from hindsight.estimators.ratios import cumulative_log_ratios
from hindsight.networks.perceptron import flat_size
from hindsight.networks.policy import Policy
from hindsight.networks.value import Value

OPTIMISER = optax.scale_by_adam()
"""Adam without its step size, which is traced."""


class PolicyGradientState(NamedTuple):
    """Networks and their optimisers; the baseline is None for methods without one."""

    policy: Policy
    policy_optimiser: optax.OptState
    baseline: Value | None
    baseline_optimiser: optax.OptState | None


class Options(NamedTuple):
    """The part of the settings that a policy-gradient agent needs."""

    hidden_layers: tuple[int, ...] = (256, 256)
    max_active_goals: int | None = None
    ended: Literal["drop", "carry"] = "drop"


def policy_gradient_agent(environment: Environment, method: Method, options: Options) -> Agent:
    """The agent that runs a policy-gradient method."""
    observation_size, goal_size = _sizes(environment)

    def init(key: Key[Array, ""]) -> PolicyGradientState:
        policy_key, baseline_key = jax.random.split(key)
        policy = Policy(observation_size, goal_size, environment.action_count, options.hidden_layers, policy_key)
        if not method.baseline:
            return PolicyGradientState(policy, OPTIMISER.init(policy), None, None)
        baseline = Value(observation_size, goal_size, options.hidden_layers, baseline_key)
        return PolicyGradientState(policy, OPTIMISER.init(policy), baseline, OPTIMISER.init(baseline))

    def log_probabilities(state: PolicyGradientState, observations: Array, goals: Array) -> Array:
        rows = observations.shape[0]
        return state.policy.log_probabilities(observations.reshape(rows, -1), goals.reshape(rows, -1))

    def explore(
        state: PolicyGradientState, observations: Array, goals: Array, time: Array, key: Key[Array, ""]
    ) -> tuple[Array, Array]:
        options_ = log_probabilities(state, observations, goals)
        actions = jnp.argmax(options_ + jax.random.gumbel(key, options_.shape), axis=1)
        return actions, jnp.take_along_axis(options_, actions[:, None], axis=1)[:, 0]

    def exploit(state: PolicyGradientState, observations: Array, goals: Array, time: Array) -> Array:
        return jnp.argmax(log_probabilities(state, observations, goals), axis=1)

    def update(
        state: PolicyGradientState, episodes: Episodes, rates: LearningRates, key: Key[Array, ""]
    ) -> tuple[PolicyGradientState, Int[Array, ""]]:
        return _update(environment, method, options, state, episodes, rates, key)

    return Agent(init, explore, exploit, update, lambda state: state.policy)


def _update(
    environment: Environment,
    method: Method,
    options: Options,
    state: PolicyGradientState,
    episodes: Episodes,
    rates: LearningRates,
    key: Key[Array, ""],
) -> tuple[PolicyGradientState, Int[Array, ""]]:
    """One step of gradient ascent on the policy and, where there is one, of descent on the baseline's error."""
    states = distinct_states(environment, episodes)
    if method.hindsight:
        goals = active_goals(environment, episodes, options.max_active_goals, key)
        coefficients = hindsight_coefficients(environment, method, options.ended, state, episodes, states, goals)
    else:
        goals = pursued_goals(environment, episodes)
        coefficients = pursued_coefficients(environment, state, episodes, goals)
    gradient = surrogate_gradient(state.policy, episodes, states, goals, coefficients)
    policy, policy_optimiser = _ascend(state.policy, gradient, state.policy_optimiser, rates.policy)
    updated = state._replace(policy=policy, policy_optimiser=policy_optimiser)
    finite = [jnp.bool_(True), _finite(gradient)]
    if state.baseline is not None:
        descent = temporal_difference_gradient(environment, state.baseline, episodes)
        baseline, optimiser = _ascend(state.baseline, descent, state.baseline_optimiser, -rates.baseline)
        updated = updated._replace(baseline=baseline, baseline_optimiser=optimiser)
        finite.append(_finite(descent))
    else:
        finite.append(jnp.bool_(True))
    finite.append(_finite((updated.policy, updated.baseline)))
    # The first check that fails names the cause; where none does, argmax finds the padding's 0.
    return updated, jnp.argmax(~jnp.stack(finite)).astype(jnp.int32)


def distinct_states(environment: Environment, episodes: Episodes) -> Distinct:
    """The distinct observations in which an action was taken; `index` has one entry for each episode and time."""
    batch_size, times = episodes.actions.shape
    rows = episodes.observations[:, :-1].reshape(batch_size * times, -1)
    limit = min(batch_size * times, environment.state_limit or batch_size * times)
    return distinct_rows(rows, episodes.taken.ravel(), limit)


def pursued_coefficients(
    environment: Environment, state: PolicyGradientState, episodes: Episodes, goals: GoalSet
) -> Float[Array, "goal episode time"]:
    """Coefficients of the goal-conditional methods: goal i matters to episode i alone."""
    rewards, _ = rewards_of_goals(environment, episodes, goals)
    own = jnp.eye(len(episodes.lengths), dtype=bool)
    rewards = jnp.sum(jnp.where(own[:, :, None], rewards, 0), axis=0)
    if state.baseline is None:
        coefficients = goal_conditional(rewards)
    else:
        values = jnp.where(episodes.taken, _pursued_values(state.baseline, episodes)[:, :-1], 0)
        coefficients = goal_conditional_baseline(rewards, values)
    return jnp.where(own[:, :, None], coefficients, 0)


def hindsight_coefficients(
    environment: Environment,
    method: Method,
    ended: Literal["drop", "carry"],
    state: PolicyGradientState,
    episodes: Episodes,
    states: Distinct,
    goals: GoalSet,
) -> Float[Array, "goal episode time"]:
    """Coefficients of the hindsight methods, at the published scale: p(g) relative to uniform, and a batch mean."""
    rewards, decides = rewards_of_goals(environment, episodes, goals)
    scale = goals.probabilities * environment.goal_count
    if not method.ratios:
        return without_ratios(rewards, scale)
    scale = scale / len(episodes.lengths)
    horizons = jnp.max(jnp.where(rewards != 0, jnp.arange(1, rewards.shape[2] + 1), 0), axis=(1, 2))
    if method.baseline:
        horizons = jnp.where(goals.present, rewards.shape[2], 0)
    log_probabilities = _log_probabilities_under_goals(state.policy, episodes, states, goals, horizons)
    log_ratios = cumulative_log_ratios(log_probabilities, episodes.log_probabilities, episodes.taken)
    coefficients = weighted_per_decision(log_ratios, rewards, scale, episodes.taken, ended)
    if state.baseline is not None:
        values = jnp.where(decides, _values_under_goals(state.baseline, episodes, goals, decides), 0)
        coefficients -= weighted_baseline(log_ratios, values, scale, episodes.taken, ended)
    return coefficients


def _log_probabilities_under_goals(
    policy: Policy, episodes: Episodes, states: Distinct, goals: GoalSet, horizons: Int[Array, " goal"]
) -> Float[Array, "goal episode time"]:
    """log p(a[i, t] | s[i, t], g), forward only, for the times before each goal's horizon; 0 beyond.

    No normaliser needs a ratio later than the last reward of its goal.
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


def _values_under_goals(
    baseline: Value, episodes: Episodes, goals: GoalSet, decides: Array
) -> Float[Array, "goal episode time"]:
    """b_t(s[i, t], g) for every goal, computed once for each distinct state and time."""
    batch_size, times = episodes.actions.shape
    clock = jnp.tile(jnp.arange(times, dtype=jnp.float32), batch_size)
    observations = episodes.observations[:, :-1].reshape(batch_size * times, -1)
    moments = distinct_rows(
        jnp.concatenate([observations, clock[:, None]], axis=1), episodes.taken.ravel(), batch_size * times
    )
    wanted = jnp.zeros((batch_size * times, len(goals.present)), bool)
    wanted = wanted.at[moments.index].max(decides.reshape(len(goals.present), -1).T)
    pairs = pairwise.select(wanted)
    flat_goals = goals.goals.reshape(len(goals.present), -1)

    def value(row: Array, goal: Array) -> Array:
        return baseline(moments.rows[row, :-1], flat_goals[goal], moments.rows[row, -1])[:, None]

    table = pairwise.evaluate(value, pairs, 1)
    return table[pairs.numbers[moments.index], 0].T.reshape(-1, batch_size, times)


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


def temporal_difference_gradient(environment: Environment, baseline: Value, episodes: Episodes) -> Value:
    """The gradient of the mean squared one-step temporal difference error of the pursued goals.

    After the last action of an episode the target is the reward alone.
    """
    times = jnp.arange(1, episodes.actions.shape[1] + 1)

    def own_rewards(achieved: Array, goal: Array) -> Array:
        return jax.vmap(environment.reward, in_axes=(0, None, 0))(achieved, goal, times)

    rewards = jax.vmap(own_rewards)(episodes.achieved_goals[:, 1:], episodes.pursued_goals)
    goes_on = times[None] < episodes.lengths[:, None]

    def loss(baseline: Value) -> Float[Array, ""]:
        values = _pursued_values(baseline, episodes)
        targets = rewards + jnp.where(goes_on, jax.lax.stop_gradient(values[:, 1:]), 0)
        errors = jnp.where(episodes.taken, targets - values[:, :-1], 0)
        return jnp.sum(errors**2) / jnp.sum(episodes.taken)

    return jax.grad(loss)(baseline)


def _pursued_values(baseline: Value, episodes: Episodes) -> Float[Array, "episode state"]:
    """b_t(s[i, t], g[i]) at every state."""
    batch_size, states = episodes.observations.shape[:2]
    observations = episodes.observations.reshape(batch_size * states, -1)
    goals = jnp.repeat(episodes.pursued_goals.reshape(batch_size, -1), states, axis=0)
    clock = jnp.tile(jnp.arange(states, dtype=jnp.float32), batch_size)
    return baseline(observations, goals, clock).reshape(batch_size, states)


def _ascend(model: eqx.Module, gradient: eqx.Module, optimiser: optax.OptState, rate: Array) -> tuple:
    direction, optimiser = OPTIMISER.update(gradient, optimiser)
    return jax.tree.map(lambda parameter, step: parameter + rate * step, model, direction), optimiser


def _finite(tree: object) -> Array:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]))


def _sizes(environment: Environment) -> tuple[int, int]:
    """The number of inputs that an observation and a goal make."""
    state = jax.eval_shape(environment.reset, jax.random.key(0))
    observation = jax.eval_shape(environment.observe, state)
    goal = jax.eval_shape(environment.achieved_goal, state)
    return flat_size(observation.shape), flat_size(goal.shape)
