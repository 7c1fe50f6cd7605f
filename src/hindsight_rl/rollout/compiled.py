"""Whole episodes of a compiled environment, a batch at a time, with no reset in between."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.interface import Environment, State

Actions = Int[Array, " episode"] | Float[Array, "episode size"]
"""One of a few, or a vector, for each episode."""

Explore = Callable[
    [Float[Array, "episode *features"], Float[Array, "episode *goal"], Int[Array, ""], Key[Array, ""]],
    tuple[Actions, Float[Array, " episode"]],
]
"""Draws actions for observations, goals, the time and a key; also returns their log-probabilities."""

Exploit = Callable[[Float[Array, "episode *features"], Float[Array, "episode *goal"], Int[Array, ""]], Actions]
"""The greedy actions for observations, goals and the time."""

EpisodesEnd = Literal["goal", "horizon"]
"""Where an episode ends: `goal`, where its pursued goal is reached; `horizon`, at the horizon whatever is reached."""


class Outcomes(NamedTuple):
    """What greedy episodes came to."""

    returns: Float[Array, " episode"]
    successes: Bool[Array, " episode"]


def collect(
    environment: Environment,
    explore: Explore,
    batch_size: int,
    key: Key[Array, ""],
    episodes_end: EpisodesEnd = "goal",
) -> Episodes:
    """A batch of episodes. Continuous actions have an axis for their numbers behind that of time."""
    states, goals, step_key = _begin(environment, batch_size, key)

    def step(states: State, time: Int[Array, ""]) -> tuple[State, tuple[Array, Array, State]]:
        action_key, transition_key = jax.random.split(jax.random.fold_in(step_key, time))
        actions, log_probabilities = explore(jax.vmap(environment.observe)(states), goals, time, action_key)
        following = _step(environment, states, actions, transition_key)
        return following, (actions, log_probabilities, following)

    times = jnp.arange(environment.horizon - 1)
    _, (actions, log_probabilities, following) = jax.lax.scan(step, states, times)
    trajectory = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), states, following)
    trajectory = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), trajectory)
    achieved_goals = jax.vmap(jax.vmap(environment.achieved_goal))(trajectory)
    return Episodes(
        observations=jax.vmap(jax.vmap(environment.observe))(trajectory),
        achieved_goals=achieved_goals,
        actions=jnp.swapaxes(actions, 0, 1),
        pursued_goals=goals,
        lengths=_lengths(environment, achieved_goals, goals, episodes_end),
        log_probabilities=log_probabilities.T,
    )


def play(
    environment: Environment,
    exploit: Exploit,
    episodes: int,
    key: Key[Array, ""],
    wanted: Float[Array, "episode *goal"] | None = None,
) -> Outcomes:
    """The returns of greedy episodes, stopping as soon as all of them have ended; goals are drawn unless `wanted`."""
    states, goals, step_key = _begin(environment, episodes, key)
    goals = goals if wanted is None else jnp.asarray(wanted, goals.dtype)

    def unfinished(carry: tuple[Int[Array, ""], State, Outcomes]) -> Bool[Array, ""]:
        time, _, outcomes = carry
        return (time < environment.horizon - 1) & ~jnp.all(outcomes.successes)

    def step(carry: tuple[Int[Array, ""], State, Outcomes]) -> tuple[Int[Array, ""], State, Outcomes]:
        time, states, outcomes = carry
        actions = exploit(jax.vmap(environment.observe)(states), goals, time)
        following = _step(environment, states, actions, jax.random.fold_in(step_key, time))
        achieved = jax.vmap(environment.achieved_goal)(following)
        rewards = jax.vmap(environment.reward, in_axes=(0, 0, None))(achieved, goals, time + 1)
        returns = outcomes.returns + jnp.where(outcomes.successes, 0, rewards)
        reached = jax.vmap(environment.reached)(achieved, goals)
        return time + 1, following, Outcomes(returns, outcomes.successes | reached)

    nothing = Outcomes(jnp.zeros(episodes), jnp.zeros(episodes, bool))
    return jax.lax.while_loop(unfinished, step, (jnp.int32(0), states, nothing))[2]


def _begin(environment: Environment, episodes: int, key: Key[Array, ""]) -> tuple[State, Array, Key[Array, ""]]:
    reset_key, goal_key, step_key = jax.random.split(key, 3)
    states = jax.vmap(environment.reset)(jax.random.split(reset_key, episodes))
    goals = jax.vmap(environment.sample_goal)(jax.random.split(goal_key, episodes))
    return states, goals, step_key


def _step(environment: Environment, states: State, actions: Array, key: Key[Array, ""]) -> State:
    return jax.vmap(environment.step)(states, actions, jax.random.split(key, actions.shape[0]))


def _lengths(
    environment: Environment, achieved_goals: Array, goals: Array, episodes_end: EpisodesEnd
) -> Int[Array, " episode"]:
    actions = achieved_goals.shape[1] - 1
    if episodes_end == "horizon":
        return jnp.full(goals.shape[0], actions)
    reached = jax.vmap(jax.vmap(environment.reached, in_axes=(0, None)))(achieved_goals[:, 1:], goals)
    return jnp.where(jnp.any(reached, axis=1), jnp.argmax(reached, axis=1) + 1, actions)
