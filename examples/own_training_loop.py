"""An estimator inside a training loop of your own, with a policy of your own: no network or environment of ours.

A walker on a line of 11 cells starts in the middle and is sent to one of the other cells. Its policy is a plain table
of preferences, trained by gradient ascent with the weighted hindsight estimator (Theorem 5.2). Run it with
`.venv/bin/python examples/own_training_loop.py`.
"""

import jax
import jax.numpy as jnp
import numpy as np

from hindsight_rl.estimators import cumulative_log_ratios, weighted_per_decision

CELLS, START, ACTIONS_PER_EPISODE, EPISODES = 11, 5, 8, 8
GOALS = np.array([cell for cell in range(CELLS) if cell != START])


def log_policy(preferences):
    """log p(a | s, g) as a table [state, goal, action]; action 0 steps left, action 1 right."""
    return jax.nn.log_softmax(preferences, axis=-1)


def walk(table, generator, episodes):
    """Episodes of a fixed length: states [episode, time + 1], actions [episode, time], pursued goals [episode]."""
    pursued = generator.integers(len(GOALS), size=episodes)
    states, actions = [np.full(episodes, START)], []
    for _ in range(ACTIONS_PER_EPISODE):
        right = np.exp(table[states[-1], pursued, 1])
        actions.append((generator.random(episodes) < right).astype(int))
        states.append(np.clip(states[-1] + 2 * actions[-1] - 1, 0, CELLS - 1))
    return np.stack(states, 1), np.stack(actions, 1), pursued


def first_arrivals(states):
    """Rewards [goal, episode, time]: the remaining time plus one, for the first arrival at each goal."""
    arrived = states[None, :, 1:] == GOALS[:, None, None]
    first = arrived & (np.cumsum(arrived, axis=2) == 1)
    return first * np.arange(ACTIONS_PER_EPISODE, 0, -1.0)


@jax.jit
def gradient(preferences, states, actions, pursued, rewards):
    """The weighted hindsight policy gradient of one batch."""
    taken = jnp.ones(actions.shape, bool)

    def surrogate(preferences):
        under_goals = jnp.moveaxis(log_policy(preferences)[states[:, :-1], :, actions], 2, 0)
        behaviour = under_goals[pursued, jnp.arange(EPISODES)]
        log_ratios = cumulative_log_ratios(under_goals, behaviour, taken)
        probabilities = jnp.full(len(GOALS), 1 / len(GOALS))
        coefficients = weighted_per_decision(log_ratios, rewards, probabilities, taken)
        return jnp.sum(jax.lax.stop_gradient(coefficients) * under_goals)

    return jax.grad(surrogate)(preferences)


def success_rate(preferences, generator):
    """The share of 1000 sampled episodes that arrive at their goal."""
    states, _, pursued = walk(np.asarray(log_policy(preferences)), generator, 1000)
    return np.mean(np.any(states[:, 1:] == GOALS[pursued][:, None], axis=1))


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    preferences = jnp.zeros((CELLS, len(GOALS), 2))
    for batch in range(301):
        if batch % 100 == 0:
            print(f"after {batch:3d} batches: {success_rate(preferences, generator):.1%} of the goals reached")
        states, actions, pursued = walk(np.asarray(log_policy(preferences)), generator, EPISODES)
        preferences += 0.5 * gradient(preferences, states, actions, pursued, first_arrivals(states))
