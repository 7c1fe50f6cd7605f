"""Deep Q-networks with a replay buffer, with hindsight (DQN+HER) or without (DQN): appendix E.3.7 of the paper."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from hindsight_rl.agents.interface import NOT_FINITE, Agent, Rates, Update, all_finite
from hindsight_rl.agents.picture_replay import (
    PictureReplay,
    add_pictures,
    compile_programs,
    empty_picture_replay,
    with_more_room,
    with_pictures,
)
from hindsight_rl.agents.replay import Replay, Transitions, add_episodes, draw, empty_replay, with_more_slots
from hindsight_rl.agents.replay_options import DQNOptions, check_options, goals_per_transition
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.environments.interface import Task
from hindsight_rl.networks.action_value import ActionValue
from hindsight_rl.networks.perceptron import flat_size

OPTIMISER = optax.scale_by_adam()
"""Adam without its step size, which is traced."""


class DQNState(NamedTuple):
    """The network, its optimiser and the replay buffer.

    There is no target network: it is the network at the start of a cycle, which is the one that an update begins with.
    """

    network: ActionValue
    optimiser: optax.OptState
    replay: Replay | PictureReplay


Learned = tuple[ActionValue, optax.OptState]
Learn = Callable[[DQNState, Episodes, Rates, Key[Array, ""]], Update]


def dqn_agent(environment: Task, options: DQNOptions) -> Agent:
    """The agent that learns action values from its buffer; one update is the end of a cycle.

    The greedy policy depends on the time: `policy(state).act(observation, goal, time)`. Pictures from simulators are
    kept in a buffer outside of the compiled program.
    """
    check_options(options, environment.horizon)
    if environment.continuous:
        raise HindsightError("A Q-network chooses among a few actions, but those of this environment are continuous.")
    if options.beyond_horizon and environment.shows_pictures:
        raise HindsightError("Values beyond the horizon are not to be had from pictures: their last one is not kept.")
    shape, actions = environment.observation_shape, environment.action_count
    sizes = shape if environment.shows_pictures else flat_size(shape), flat_size(environment.goal_shape)
    on_host = environment.shows_pictures and isinstance(environment, HostedTask)

    def init(key: Key[Array, ""]) -> DQNState:
        network = ActionValue(*sizes, actions, options.hidden_layers, key)
        empty = empty_picture_replay if on_host else empty_replay
        return DQNState(network, OPTIMISER.init(network), empty(environment, options))

    def exploit(state: DQNState, observations: Array, goals: Array, time: Array) -> Int[Array, " episode"]:
        return jnp.argmax(state.network(observations, goals, jnp.full(observations.shape[0], time)), axis=1)

    def explore(
        state: DQNState, observations: Array, goals: Array, time: Array, key: Key[Array, ""]
    ) -> tuple[Int[Array, " episode"], Float[Array, " episode"]]:
        greedy = exploit(state, observations, goals, time)
        wander_key, action_key = jax.random.split(key)
        wanders = jax.random.bernoulli(wander_key, options.epsilon, greedy.shape)
        chosen = jnp.where(wanders, jax.random.randint(action_key, greedy.shape, 0, actions), greedy)
        other = options.epsilon / actions
        return chosen, jnp.log(jnp.where(chosen == greedy, 1 - options.epsilon + other, other))

    update = _update_on_host(environment, options) if on_host else _compiled_update(environment, options)
    return Agent(
        init,
        explore,
        exploit,
        update,
        lambda state: state.network,
        updates_on_host=on_host,
        lengthen=_lengthen,
        any_behaviour=True,
    )


def _lengthen(held: DQNState, empty: DQNState) -> DQNState:
    """What was learned so far, with a buffer that has room for the episodes of a longer run."""
    if isinstance(held.replay, PictureReplay):
        assert isinstance(empty.replay, PictureReplay)
        return held._replace(replay=with_more_room(held.replay, empty.replay))
    assert isinstance(empty.replay, Replay)
    return held._replace(replay=with_more_slots(held.replay, empty.replay))


def _compiled_update(environment: Task, options: DQNOptions) -> Learn:
    """The end of a cycle: episodes into the buffer, then steps of gradient descent on minibatches drawn from it.

    Minibatches are drawn with replacement, so a buffer that still holds fewer transitions than one serves as well.
    A network that is no longer finite is not kept; the episodes are.
    """
    minibatches = (options.gradient_steps, options.minibatch_size)

    def update(state: DQNState, episodes: Episodes, rates: Rates, key: Key[Array, ""]) -> Update:
        assert isinstance(state.replay, Replay)
        lots, draw_key = _lots(options, episodes, key)
        replay = add_episodes(environment, options, state.replay, episodes, lots)
        drawn = draw(environment, options, replay, math.prod(minibatches), draw_key)
        drawn = jax.tree.map(lambda leaf: leaf.reshape(*minibatches, *leaf.shape[1:]), drawn)

        def step(learned: Learned, transitions: Transitions) -> tuple[Learned, None]:
            # All targets could be computed at once, but what a minibatch needs stays close to the processor.
            targets = bootstrap(state.network, transitions, options.discount)
            return descend(learned, transitions, targets, rates["learning_rate"]), None

        before = (state.network, state.optimiser)
        after, _ = jax.lax.scan(step, before, drawn)
        (network, optimiser), cause = _finite(before, after)
        return Update(DQNState(network, optimiser, replay), cause)

    return update


def _update_on_host(environment: Task, options: DQNOptions) -> Learn:
    """The same, with pictures that are decompressed for one minibatch at a time."""
    programs = compile_programs(environment, options)
    choose_finite = jax.jit(_finite)

    @jax.jit
    def step(learned: Learned, target: ActionValue, transitions: Transitions, rate: Array) -> Learned:
        return descend(learned, transitions, bootstrap(target, transitions, options.discount), rate)

    def update(state: DQNState, episodes: Episodes, rates: Rates, key: Key[Array, ""]) -> Update:
        assert isinstance(state.replay, PictureReplay)
        lots, draw_key = _lots(options, episodes, key)
        replay = add_pictures(programs, state.replay, episodes, lots)
        drawn = jax.tree.map(np.asarray, programs.draw(replay.catalogue, draw_key))
        target = jax.tree.map(jnp.asarray, state.network)
        after = before = (target, state.optimiser)
        for number in range(options.gradient_steps):
            transitions = with_pictures(replay, jax.tree.map(lambda leaf, number=number: leaf[number], drawn))
            # Pictures are decompressed while the step before is computed, but never more than one step ahead.
            jax.block_until_ready(after)
            after = step(after, target, transitions, rates["learning_rate"])
        (network, optimiser), cause = choose_finite(before, after)
        return Update(DQNState(network, optimiser, replay), cause)

    return update


def _lots(
    options: DQNOptions, episodes: Episodes, key: Key[Array, ""]
) -> tuple[Float[Array, "episode time relabelled"], Key[Array, ""]]:
    """What decides which goals are drawn for the episodes, and a key to draw transitions with."""
    lot_key, draw_key = jax.random.split(key)
    return jax.random.uniform(lot_key, (*episodes.actions.shape, goals_per_transition(options) - 1)), draw_key


def descend(learned: Learned, transitions: Transitions, targets: Float[Array, " row"], rate: Array) -> Learned:
    """One step of Adam on a minibatch."""
    network, optimiser = learned
    gradient = jax.grad(squared_error)(network, transitions, targets)
    direction, optimiser = OPTIMISER.update(gradient, optimiser)
    return jax.tree.map(lambda weight, step: weight - rate * step, network, direction), optimiser


def _finite(before: Learned, after: Learned) -> tuple[Learned, Int[Array, ""]]:
    """What was learned, or what there was before where that is not finite any more, and the cause."""
    finite = all_finite(after[0])
    kept = jax.tree.map(lambda new, old: jnp.where(finite, new, old), after, before)
    return kept, jnp.where(finite, 0, NOT_FINITE).astype(jnp.int32)


def bootstrap(target: ActionValue, transitions: Transitions, discount: float) -> Float[Array, " row"]:
    """r + discount * max over a' of Q(s', g, t + 1, a'), or r alone where the episode of the goal is over."""
    next_times = transitions.times + 1
    values = target(transitions.next_observations, transitions.goals, next_times)
    return transitions.rewards + jnp.where(transitions.terminal, 0, discount * jnp.max(values, axis=1))


def squared_error(network: ActionValue, transitions: Transitions, targets: Float[Array, " row"]) -> Float[Array, ""]:
    """The mean of (target - Q(s, g, t, a))^2 over a minibatch."""
    values = network(transitions.observations, transitions.goals, transitions.times)
    taken = jnp.take_along_axis(values, transitions.actions[:, None], axis=1)[:, 0]
    return jnp.mean((targets - taken) ** 2)
