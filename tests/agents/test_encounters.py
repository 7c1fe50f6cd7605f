"""What new episodes came upon, against a plain loop."""

import jax.numpy as jnp
import numpy as np
import pytest
from reference.compilation import quick_jit

from hindsight_rl.agents.hppo import OTHERS, encounters
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.bit_flipping import BitFlipping

BITS = BitFlipping(3)
compiled = quick_jit(lambda episodes: encounters(BITS, episodes))


def random_episodes(count: int, seed: int) -> Episodes:
    """Of any length, some of which never move; what lies behind the end is noise that must not count."""
    generator = np.random.default_rng(seed)
    achieved = generator.integers(0, 2, (count, 4, 3)).astype(np.float32)
    lengths = generator.integers(1, 4, count)
    for episode in np.flatnonzero(generator.random(count) < 0.5):
        achieved[episode, : lengths[episode] + 1] = achieved[episode, 0]
    return Episodes(
        observations=jnp.asarray(achieved),
        achieved_goals=jnp.asarray(achieved),
        actions=jnp.zeros((count, 3), jnp.int32),
        pursued_goals=jnp.asarray(generator.integers(0, 2, (count, 3)).astype(np.float32)),
        lengths=jnp.asarray(lengths, jnp.int32),
        log_probabilities=jnp.zeros((count, 3)),
    )


def plain(episodes: Episodes) -> dict[str, float]:
    count = len(episodes.lengths)
    courses = [
        [tuple(state) for state in np.asarray(course)[: int(length) + 1]]
        for course, length in zip(episodes.achieved_goals, episodes.lengths, strict=True)
    ]
    goals = [tuple(goal) for goal in np.asarray(episodes.pursued_goals)]
    met, pairs = 0, 0
    for number, course in enumerate(courses):
        for other in range(number + 1, number + 1 + min(OTHERS, count - 1)):
            goal = goals[other % count]
            pairs += course[0] != goal
            met += course[0] != goal and goal in course
    found = {
        "reached": sum(goal in course[1:] for goal, course in zip(goals, courses, strict=True)) / count,
        "moved": sum(len(set(course)) > 1 for course in courses) / count,
    }
    return found if count == 1 else {**found, "others_reached": met / max(pairs, 1)}


@pytest.mark.parametrize(("count", "seed"), [(1, 0), (2, 1), (13, 2)])
def test_shares_are_those_of_a_plain_loop(count: int, seed: int) -> None:
    episodes = random_episodes(count, seed)
    found = compiled(episodes)
    assert {name: float(value) for name, value in found.items()} == pytest.approx(plain(episodes))
    if count > OTHERS:
        assert all(0 < float(value) < 1 for value in found.values())


def test_what_never_moves_has_no_share() -> None:
    episodes = random_episodes(13, 3)
    still = episodes._replace(achieved_goals=jnp.zeros_like(episodes.achieved_goals))
    assert float(compiled(still)["moved"]) == 0
    one = still._replace(achieved_goals=still.achieved_goals.at[2, 0, 0].set(1))
    assert float(compiled(one)["moved"]) == pytest.approx(1 / 13)
