"""A replay buffer and a cycle of deep Q-learning in plain loops, one transition at a time."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from reference.compilation import quick_jit

from hindsight_rl.core.episodes import Episodes
from hindsight_rl.networks.action_value import ActionValue


class PlainTransition(NamedTuple):
    observation: np.ndarray
    action: int
    goal: np.ndarray
    time: int
    reward: float
    next_observation: np.ndarray | None
    """None where the transition is terminal."""
    relabelled: bool


class PlainReplay:
    """A list of episodes, each a list of transitions, for environments with the paper's reward: T - t on reaching."""

    def __init__(self, horizon: int, capacity: int, slots: int, strategy: str | None, relabelled_goals: int = 1):
        self.horizon, self.capacity, self.slots = horizon, capacity, slots
        self.strategy, self.relabelled_goals = strategy, relabelled_goals
        self.episodes: list[list[PlainTransition]] = []

    def add(self, episodes: Episodes, lots: np.ndarray) -> None:
        """Put a batch into the buffer, and throw whole episodes out until all fits."""
        for episode in range(len(episodes.lengths)):
            single = Episodes(*(np.asarray(leaf)[episode] for leaf in episodes))
            self.episodes.append(list(self._transitions(single, lots[episode])))
            while len(self.episodes) > self.slots or sum(map(len, self.episodes)) > self.capacity:
                del self.episodes[0]

    def content(self) -> list[PlainTransition]:
        """All transitions, those of the newest episode first."""
        return [transition for episode in reversed(self.episodes) for transition in episode]

    def _transitions(self, episode: Episodes, lots: np.ndarray) -> Any:
        for time in range(int(episode.lengths)):
            if not self._over(episode, episode.pursued_goals, time):
                yield self._transition(episode, time, episode.pursued_goals, False)
            for lot in lots[time] if self.strategy else ():
                goal = self._relabelled_goal(episode, time, lot)
                if goal is not None and not self._over(episode, goal, time):
                    yield self._transition(episode, time, goal, True)

    def _relabelled_goal(self, episode: Episodes, time: int, lot: float) -> Array | None:
        length = int(episode.lengths)
        if self.strategy == "final":
            states = [length]
        elif self.strategy == "episode":
            states = list(range(1, length + 1))
        else:
            later = range(time + 1, length + 1)
            states = [state for state in later if not self._over(episode, episode.achieved_goals[state], time)]
        if not states:
            return None
        return episode.achieved_goals[states[int(np.float32(lot) * np.float32(len(states)))]]

    def _over(self, episode: Episodes, goal: Array, time: int) -> bool:
        """Whether one of the actions before this time had reached the goal already."""
        return any(np.array_equal(episode.achieved_goals[state], goal) for state in range(1, time + 1))

    def _transition(self, episode: Episodes, time: int, goal: Array, relabelled: bool) -> PlainTransition:
        reaches = np.array_equal(episode.achieved_goals[time + 1], goal)
        ends = reaches or time + 1 == int(episode.lengths)
        return PlainTransition(
            observation=episode.observations[time],
            action=int(episode.actions[time]),
            goal=goal,
            time=time,
            reward=float(self.horizon - (time + 1)) if reaches else 0.0,
            next_observation=None if ends else episode.observations[time + 1],
            relabelled=relabelled,
        )


def action_values(model: ActionValue, observation: np.ndarray, goal: np.ndarray, time: int) -> np.ndarray:
    """The network's answer for one row: rectified linear layers and a linear output."""
    row = np.concatenate([observation.ravel(), goal.ravel(), [time]])
    *hidden, (last_weight, last_bias) = zip(model.network.weights, model.network.biases, strict=True)
    for weight, bias in hidden:
        row = np.maximum(row @ np.asarray(weight) + np.asarray(bias), 0)
    return row @ np.asarray(last_weight) + np.asarray(last_bias)


def target(model: ActionValue, transition: PlainTransition, discount: float) -> float:
    """The reward, and the discounted best value of what follows where something does."""
    if transition.next_observation is None:
        return transition.reward
    following = action_values(model, transition.next_observation, transition.goal, transition.time + 1)
    return transition.reward + discount * float(np.max(following))


def descend(model: ActionValue, minibatches: list[list[PlainTransition]], discount: float, rate: float) -> ActionValue:
    """One cycle: a step of Adam for each minibatch, towards targets of the network that the cycle began with."""
    leaves, structure = jax.tree.flatten(model)
    weights = [np.asarray(leaf) for leaf in leaves]
    first, second = [np.zeros_like(leaf) for leaf in weights], [np.zeros_like(leaf) for leaf in weights]
    for number, minibatch in enumerate(minibatches, 1):
        gradient = jax.tree.leaves(_gradient(jax.tree.unflatten(structure, weights), model, minibatch, discount))
        for index, slope in enumerate(np.asarray(leaf) for leaf in gradient):
            first[index] = 0.9 * first[index] + 0.1 * slope
            second[index] = 0.999 * second[index] + 0.001 * slope**2
            mean, square = first[index] / (1 - 0.9**number), second[index] / (1 - 0.999**number)
            weights[index] = weights[index] - rate * mean / (np.sqrt(square) + 1e-8)
    return jax.tree.unflatten(structure, weights)


@quick_jit
@jax.grad
def _slope(model: ActionValue, rows: tuple[np.ndarray, ...], actions: np.ndarray, targets: np.ndarray) -> jax.Array:
    """The gradient of the mean squared error of a minibatch."""
    return jnp.mean((model(*rows)[jnp.arange(len(actions)), actions] - targets) ** 2)


def _gradient(model: ActionValue, start: ActionValue, minibatch: list[PlainTransition], discount: float) -> ActionValue:
    observations = np.stack([transition.observation.ravel() for transition in minibatch])
    goals = np.stack([transition.goal.ravel() for transition in minibatch])
    times = np.array([transition.time for transition in minibatch])
    actions = np.array([transition.action for transition in minibatch])
    targets = np.array([target(start, transition, discount) for transition in minibatch])
    return _slope(model, (observations, goals, times), actions, targets)
