"""The transitions that an episode offers, and the traps of one time step too many or too few."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.compilation import quick_jit
from reference.walks import FINAL, NEVER, WALK, content, filled, of_goal, rows, walks
from scipy.stats import chisquare

from hindsight_rl.agents.replay import draw
from hindsight_rl.agents.replay_options import DQNOptions, HEROptions, Relabelling
from hindsight_rl.core.episodes import Episodes
from hindsight_rl.environments.bit_flipping import BitFlipping


def test_final_relabels_with_the_last_goal_that_was_really_achieved() -> None:
    """The end of an episode, not the padding behind it, nor the state before its last action."""
    transitions = content(FINAL, filled(FINAL, walks([4, 5, 6], [4, 3, 2, 1, 0])))
    assert of_goal(6, transitions) == [(0, 4, 0, False), (1, 5, 1, True)]
    assert of_goal(0, transitions) == [(0, 4, 0, False), (1, 3, 0, False), (2, 2, 0, False), (3, 1, 1, True)]
    assert {row[0] for row in rows(transitions)} == {0, 6, NEVER}


def test_rewards_are_for_the_goal_achieved_after_the_action() -> None:
    """At time 1 the agent stands on cell 5 and leaves it: the reward for 5 was that of the action before."""
    plain = DQNOptions(replay_capacity=64)
    transitions = content(plain, filled(plain, walks([4, 5, 6, 7, 8], goals=8)))
    assert rows(transitions) == [(8, 0, 4, 0, False), (8, 1, 5, 0, False), (8, 2, 6, 0, False), (8, 3, 7, 1, True)]


def test_rewards_are_for_the_time_after_the_action() -> None:
    """In bit flipping reaching a goal with the first of 3 actions is worth T - 1 = 3, with the last of them 1."""
    bits, options = BitFlipping(3), DQNOptions(replay_capacity=32)
    states = np.array([[[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]] * 2, np.float32)
    episodes = Episodes(
        jnp.asarray(states),
        jnp.asarray(states),
        jnp.array([[0, 1, 2]] * 2),
        jnp.array([[1.0, 0, 0], [1, 1, 1]]),
        jnp.array([1, 3]),
        jnp.zeros((2, 3)),
    )
    transitions = content(options, filled(options, episodes, environment=bits), bits)
    assert sorted(zip(transitions.times, transitions.rewards, transitions.terminal, strict=True)) == [
        (0, 0, False),
        (0, 3, True),
        (1, 0, False),
        (2, 1, True),
    ]


def test_episodes_of_unequal_length_offer_their_own_actions_alone() -> None:
    transitions = content(FINAL, filled(FINAL, walks([4, 5], [4, 3, 2, 1, 0], [4, 5, 6, 7])))
    assert len(transitions.times) == 2 * (1 + 4 + 3)
    assert set(transitions.actions) == {0, 1}, "99 would be an action of the padding"
    for leaf in transitions:
        assert np.all(np.isfinite(leaf))


def test_the_next_observation_is_the_one_after_the_action() -> None:
    transitions = content(FINAL, filled(FINAL, walks([4, 3, 2], [4, 5, 6, 7, 6])))
    moves = np.where(transitions.actions == 1, 1, -1)
    goes_on = ~transitions.terminal
    assert np.sum(goes_on) > 4
    expected = transitions.observations[:, 0] + moves
    np.testing.assert_array_equal(transitions.next_observations[goes_on, 0], expected[goes_on])


def test_the_last_action_before_the_horizon_is_terminal_under_every_goal() -> None:
    transitions = content(FINAL, filled(FINAL, walks([4, 5, 6, 5, 6])))
    assert of_goal(NEVER, transitions)[-1] == (3, 5, 0, True)
    assert [row[-1] for row in of_goal(NEVER, transitions)] == [False, False, False, True]


def test_beyond_the_horizon_something_follows_unless_the_goal_was_reached_or_the_episode_cut_short() -> None:
    beyond = replace(FINAL, beyond_horizon=True)
    transitions = content(beyond, filled(beyond, walks([4, 5, 6, 5, 7])))
    assert [row[-1] for row in of_goal(NEVER, transitions)] == [False] * 4
    assert [row[-1] for row in of_goal(7, transitions)] == [False] * 3 + [True]
    last = (transitions.times == 3) & ~transitions.terminal
    assert transitions.next_observations[last, 0].tolist() == [7]
    short = content(beyond, filled(beyond, walks([4, 5, 6])))
    assert of_goal(NEVER, short) == [(0, 4, 0, False), (1, 5, 0, True)]


def test_the_last_action_of_an_episode_that_was_cut_short_is_terminal_too() -> None:
    """A lost life, say: nothing was reached, and nothing follows."""
    transitions = content(FINAL, filled(FINAL, walks([4, 5, 6])))
    assert of_goal(NEVER, transitions) == [(0, 4, 0, False), (1, 5, 0, True)]


def test_a_transition_that_reaches_its_relabelled_goal_is_terminal_and_nothing_follows() -> None:
    """Cell 6, where the episode ends, was reached by the second action: under that goal it was over then."""
    transitions = content(FINAL, filled(FINAL, walks([4, 5, 6, 5, 6])))
    assert of_goal(6, transitions) == [(0, 4, 0, False), (1, 5, 1, True)]
    assert len(of_goal(NEVER, transitions)) == 4, "what the agent pursued goes on"


def test_the_first_state_does_not_count_as_an_arrival() -> None:
    """Coming back to the start is to be learned, although the goal is achieved before the first action."""
    transitions = content(FINAL, filled(FINAL, walks([4, 5, 4])))
    assert of_goal(4, transitions) == [(0, 4, 0, False), (1, 5, 1, True)]


def test_what_follows_the_pursued_goal_is_no_decision_under_it() -> None:
    """With the full horizon the agent acts on after reaching its goal."""
    transitions = content(FINAL, filled(FINAL, walks([4, 5, 6, 7, 6], goals=5)))
    assert of_goal(5, transitions) == [(0, 4, 1, True)]


def test_future_draws_only_goals_achieved_by_this_or_a_later_action() -> None:
    options = HEROptions(relabelling="future", relabelled_goals=4, replay_capacity=5000)
    transitions = content(options, filled(options, *[walks([4, 5, 6, 7], [4, 3, 2, 1, 0])] * 60))
    drawn = {row[:2] for row in rows(transitions) if row[0] != NEVER}
    assert drawn == {(goal, time) for goal in (5, 6, 7) for time in range(goal - 4)} | {
        (goal, time) for goal in range(4) for time in range(4 - goal)
    }


def test_future_draws_uniformly() -> None:
    """From the first of four actions each of four goals; chi-square over 4 * 240 draws with fixed lots."""
    options = HEROptions(relabelling="future", relabelled_goals=4, replay_capacity=5000)
    transitions = content(options, filled(options, *[walks([4, 3, 2, 1, 0])] * 240))
    goals = transitions.goals[(transitions.times == 0) & (transitions.goals[:, 0] != NEVER), 0]
    assert len(goals) == 960
    assert chisquare([np.sum(goals == cell) for cell in range(4)]).pvalue > 1e-3


def test_future_leaves_out_goals_that_were_reached_before() -> None:
    """From cell 5 on the agent goes back and forth: 5 and 6 are the only goals, 5 is reached first, and then 6."""
    options = HEROptions(relabelling="future", relabelled_goals=4, replay_capacity=5000)
    transitions = content(options, filled(options, *[walks([4, 5, 6, 5, 6])] * 20))
    relabelled = [row for row in rows(transitions) if row[0] != NEVER]
    assert {row[:2] for row in relabelled} == {(5, 0), (6, 0), (6, 1)}
    assert len(relabelled) == 20 * 2 * 4, "no goal is left for the last two actions"


def test_episode_draws_from_all_goals_and_drops_those_reached_before() -> None:
    """At time t, 4 - t of the four goals are still ahead. Chi-square over 600 draws for each time, with fixed lots."""
    options = HEROptions(relabelling="episode", relabelled_goals=2, replay_capacity=5000)
    transitions = content(options, filled(options, *[walks([4, 3, 2, 1, 0])] * 300))
    relabelled = transitions.goals[:, 0] != NEVER
    counts = np.bincount(transitions.times[relabelled], minlength=4)
    assert counts[0] == 600
    for time in range(1, 4):
        share = (4 - time) / 4
        observed = [counts[time], 600 - counts[time]]
        assert chisquare(observed, [600 * share, 600 * (1 - share)]).pvalue > 1e-3


def test_half_of_the_transitions_are_relabelled_and_all_are_drawn_alike() -> None:
    """Chi-square over 6000 draws with a fixed key from 6 original and 6 hindsight transitions."""
    replay = filled(FINAL, walks([4, 5, 6, 7], [3, 2, 1, 0]))
    everything = rows(content(FINAL, replay))
    assert len(set(everything)) == len(everything) == 12
    assert sum(row[0] == NEVER for row in everything) == 6
    drawn = rows(quick_jit(lambda key: draw(WALK, FINAL, replay, 6000, key))(jax.random.key(3)))
    assert set(drawn) == set(everything)
    assert chisquare([drawn.count(row) for row in everything]).pvalue > 1e-3


@pytest.mark.parametrize("strategy", ["future", "episode"])
def test_goals_are_redrawn_from_all_that_the_action_could_have_been_relabelled_with(strategy: Relabelling) -> None:
    """One episode, whose list holds one goal for each action. Chi-square over 8000 draws with a fixed key.

    Each goal that is still ahead is as likely as the others; the pursued goal stays as it is.
    """
    frozen = HEROptions(relabelling=strategy, replay_capacity=5000)
    replay = filled(frozen, walks([4, 3, 2, 1, 0]))
    options = replace(frozen, redraw_goals=True)
    drawn = rows(quick_jit(lambda key: draw(WALK, options, replay, 8000, key))(jax.random.key(3)))
    listed = rows(content(frozen, replay))
    assert {row for row in drawn if row[0] == NEVER} == {row for row in listed if row[0] == NEVER}
    for time in {int(row[1]) for row in listed if row[0] != NEVER}:
        goals = [row[0] for row in drawn if row[0] != NEVER and row[1] == time]
        assert set(goals) == set(range(4 - time))
        assert time == 3 or chisquare([goals.count(goal) for goal in range(4 - time)]).pvalue > 1e-3
    for goal, when, place, reward, terminal in drawn:
        assert (reward, terminal) == ((1, True) if goal == place - 1 else (0, when == 3))
