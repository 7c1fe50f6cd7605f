"""Truncated corrections as rows of the table: found by their dials, and what a plain loop says."""

import math

import numpy as np
import pytest

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.estimators.dials import LADDER, Dials, parse_dials, truncated_coefficients
from hindsight_rl.estimators.hindsight import per_decision
from hindsight_rl.estimators.table import find_estimator

pytestmark = pytest.mark.usefixtures("double_precision")

GOALS, EPISODES, TIMES = 3, 4, 5


def random_batch(seed: int) -> dict[str, np.ndarray]:
    """Some pairs reach their goal, some go on to the horizon, some ended at another goal and are bootstrapped."""
    generator = np.random.default_rng(seed)
    shape = (GOALS, EPISODES, TIMES)
    decides = np.arange(TIMES) < generator.integers(1, TIMES + 1, (GOALS, EPISODES))[:, :, None]
    decides[0] = True
    values = np.where(decides, generator.normal(size=shape), 0)
    following = np.concatenate([values[:, :, 1:], np.zeros((GOALS, EPISODES, 1))], axis=2)
    last = decides & ~np.concatenate([decides[:, :, 1:], np.zeros((GOALS, EPISODES, 1), bool)], axis=2)
    bootstrapped = last & (generator.random((GOALS, EPISODES, 1)) < 0.5)
    bootstrapped[:, :, -1] = False
    return {
        "log_ratios": np.cumsum(generator.normal(size=shape), axis=2),
        "rewards": np.where(decides, generator.normal(size=shape), 0),
        "values": np.concatenate([values, np.zeros((GOALS, EPISODES, 1))], axis=2),
        "following": np.where(bootstrapped, generator.normal(size=shape), following),
        "decides": decides,
        "goal_probabilities": generator.dirichlet(np.ones(GOALS)),
    }


def plain(dials: Dials, batch: dict[str, np.ndarray]) -> np.ndarray:
    """The equations of docs/hppo.md, one decision at a time; weights are not normalised."""
    coefficients = np.zeros((GOALS, EPISODES, TIMES))
    zero = dials.critic == "zero"
    for goal, episode in np.ndindex(GOALS, EPISODES):
        logs, target, later = batch["log_ratios"][goal, episode], 0.0, 0.0
        for time in reversed(range(int(batch["decides"][goal, episode].sum()))):
            value = 0.0 if zero else batch["values"][goal, episode, time]
            following = 0.0 if zero else batch["following"][goal, episode, time]
            earlier = logs[time - 1] if time else 0.0
            ratio, reward = math.exp(logs[time] - earlier), batch["rewards"][goal, episode, time]
            advantage = reward + following + later - value
            weight = min(dials.rho, ratio) * math.exp(dials.power * earlier)
            probability = batch["goal_probabilities"][goal]
            coefficients[goal, episode, time] = probability / EPISODES * weight * advantage
            delta = min(dials.rho, ratio) * (reward + following - value)
            target = value + delta + dials.trace * min(dials.c, ratio) * later
            later = target - value
    return coefficients


@pytest.mark.parametrize("dials", [Dials(), Dials(1.0, 4.0, 0.9, 0.0), Dials(4.0, 1.0, 0.0, 0.5, critic="zero")])
def test_coefficients_are_those_of_a_plain_loop(dials: Dials) -> None:
    batch = random_batch(1)
    np.testing.assert_allclose(truncated_coefficients(dials, **batch), plain(dials, batch), atol=1e-12)


def test_the_exact_setting_without_a_critic_is_the_per_decision_estimator() -> None:
    batch = random_batch(2)
    expected = per_decision(batch["log_ratios"], batch["rewards"], batch["goal_probabilities"])
    found = truncated_coefficients(Dials(critic="zero"), **batch)
    np.testing.assert_allclose(found, np.where(batch["decides"], expected, 0), atol=1e-12)


def test_normalised_weights_share_one_mean_over_episodes_and_goals() -> None:
    batch = random_batch(3)
    found = np.asarray(truncated_coefficients(Dials(normalised=True), **batch))
    for time in range(TIMES):
        decides = batch["decides"][:, :, time]
        earlier = np.exp(batch["log_ratios"][:, :, time - 1]) if time else np.ones((GOALS, EPISODES))
        expected = plain(Dials(), batch)[:, :, time] / earlier[decides].mean()
        np.testing.assert_allclose(found[:, :, time], expected, atol=1e-12)


def test_every_step_of_the_ladder_is_found_by_its_name() -> None:
    assert len({dials.name for dials in LADDER}) == len(LADDER)
    for dials in LADDER:
        assert parse_dials(dials.name) == dials
        assert find_estimator(dials.name).goals == "all"
    assert LADDER[0].name == "truncated,rho=none,c=none,lambda=1,power=1"
    assert parse_dials("truncated,lambda=0.5,critic=zero") == Dials(trace=0.5, critic="zero")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("truncated,roh=1", "no dial 'roh' of truncated corrections. Did you mean 'rho'"),
        ("truncated,rho=much", "rho must be a number, not 'much'"),
        ("truncated,rho=0", "rho must be above zero, not 0"),
        ("truncated,lambda=2", "lambda must be a number from 0 to 1, not 2"),
        ("truncated,power=nan", "power must be a number from 0 to 1, not nan"),
        ("truncated,critic=good", "critic must be exact or zero, not 'good'"),
    ],
)
def test_bad_dials_are_one_sentence(name: str, message: str) -> None:
    with pytest.raises(HindsightError) as found:
        find_estimator(name)
    assert message in str(found.value)
