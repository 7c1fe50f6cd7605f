"""Deep Q-networks with a replay buffer, with hindsight (DQN+HER) or without (DQN): appendix E.3.7 of the paper."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key, Shaped

from hindsight.agents.interface import CAUSES, Agent, LearningRates
from hindsight.agents.replay import Replay, Transitions, add_episodes, draw, empty_replay, shapes_of
from hindsight.agents.replay_options import ReplayOptions, check_options
from hindsight.core.episodes import Episodes
from hindsight.core.errors import HindsightError
from hindsight.environments.interface import Task
from hindsight.networks.action_value import ActionValue
from hindsight.networks.perceptron import flat_size

OPTIMISER = optax.scale_by_adam()
"""Adam without its step size, which is traced."""

NOT_FINITE = CAUSES.index("a parameter is not finite")


class DQNState(NamedTuple):
    """The network, its optimiser and the replay buffer.

    There is no target network: it is the network at the start of a cycle, which is the one that an update begins with.
    """

    network: ActionValue
    optimiser: optax.OptState
    replay: Replay


def dqn_agent(environment: Task, options: ReplayOptions) -> Agent:
    """The agent that learns action values from its buffer; one update is the end of a cycle.

    The greedy policy depends on the time: `policy(state).act(observation, goal, time)`.
    """
    check_options(options, environment.horizon)
    if environment.continuous:
        raise HindsightError("A Q-network chooses among a few actions, but those of this environment are continuous.")
    if environment.shows_pictures:
        raise HindsightError("The Q-network has no convolutions, but this environment shows pictures.")
    observation, goal = shapes_of(environment)
    sizes = flat_size(observation.shape), flat_size(goal.shape)
    actions = environment.action_count

    def init(key: Key[Array, ""]) -> DQNState:
        network = ActionValue(*sizes, actions, options.hidden_layers, key)
        return DQNState(network, OPTIMISER.init(network), empty_replay(environment, options))

    def exploit(state: DQNState, observations: Array, goals: Array, time: Array) -> Int[Array, " episode"]:
        times = jnp.full(observations.shape[0], time)
        return jnp.argmax(state.network(_rows(observations), _rows(goals), times), axis=1)

    def explore(
        state: DQNState, observations: Array, goals: Array, time: Array, key: Key[Array, ""]
    ) -> tuple[Int[Array, " episode"], Float[Array, " episode"]]:
        greedy = exploit(state, observations, goals, time)
        wander_key, action_key = jax.random.split(key)
        wanders = jax.random.bernoulli(wander_key, options.epsilon, greedy.shape)
        chosen = jnp.where(wanders, jax.random.randint(action_key, greedy.shape, 0, actions), greedy)
        other = options.epsilon / actions
        return chosen, jnp.log(jnp.where(chosen == greedy, 1 - options.epsilon + other, other))

    def update(
        state: DQNState, episodes: Episodes, rates: LearningRates, key: Key[Array, ""]
    ) -> tuple[DQNState, Int[Array, ""]]:
        return _update(environment, options, state, episodes, rates, key)

    return Agent(init, explore, exploit, update, lambda state: state.network)


def _update(
    environment: Task,
    options: ReplayOptions,
    state: DQNState,
    episodes: Episodes,
    rates: LearningRates,
    key: Key[Array, ""],
) -> tuple[DQNState, Int[Array, ""]]:
    """The end of a cycle: episodes into the buffer, then steps of gradient descent on minibatches drawn from it.

    Minibatches are drawn with replacement, so a buffer that still holds fewer transitions than one serves as well.
    A network that is no longer finite is not kept; the episodes are.
    """
    lot_key, draw_key = jax.random.split(key)
    lots = jax.random.uniform(lot_key, (*episodes.actions.shape, options.goals_per_transition - 1))
    replay = add_episodes(environment, options, state.replay, episodes, lots)
    minibatches = (options.gradient_steps, options.minibatch_size)
    transitions = draw(environment, options, replay, math.prod(minibatches), draw_key)
    # The target network stays the same for the whole cycle, so that all targets can be computed at once.
    targets = bootstrap(state.network, transitions, options.discount)
    batches = jax.tree.map(lambda leaf: leaf.reshape(*minibatches, *leaf.shape[1:]), (transitions, targets))

    def step(carry: tuple[ActionValue, optax.OptState], batch: tuple[Transitions, Array]) -> tuple:
        network, optimiser = carry
        gradient = jax.grad(squared_error)(network, *batch)
        direction, optimiser = OPTIMISER.update(gradient, optimiser)
        return (jax.tree.map(lambda weight, step: weight - rates.policy * step, network, direction), optimiser), None

    before = (state.network, state.optimiser)
    after, _ = jax.lax.scan(step, before, batches)
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(after[0])]))
    network, optimiser = jax.tree.map(lambda new, old: jnp.where(finite, new, old), after, before)
    return DQNState(network, optimiser, replay), jnp.where(finite, 0, NOT_FINITE).astype(jnp.int32)


def bootstrap(target: ActionValue, transitions: Transitions, discount: float) -> Float[Array, " row"]:
    """r + discount * max over a' of Q(s', g, t + 1, a'), or r alone where the episode of the goal is over."""
    next_times = transitions.times + 1
    values = target(_rows(transitions.next_observations), _rows(transitions.goals), next_times)
    return transitions.rewards + jnp.where(transitions.terminal, 0, discount * jnp.max(values, axis=1))


def squared_error(network: ActionValue, transitions: Transitions, targets: Float[Array, " row"]) -> Float[Array, ""]:
    """The mean of (target - Q(s, g, t, a))^2 over a minibatch."""
    values = network(_rows(transitions.observations), _rows(transitions.goals), transitions.times)
    taken = jnp.take_along_axis(values, transitions.actions[:, None], axis=1)[:, 0]
    return jnp.mean((targets - taken) ** 2)


def _rows(batch: Shaped[Array, "row *features"]) -> Shaped[Array, "row flat"]:
    return batch.reshape(batch.shape[0], -1)
