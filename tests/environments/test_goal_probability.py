"""How probable a goal of a Gymnasium environment is: as said, or by the box of the goals that it draws."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("gymnasium_robotics", exc_type=ImportError)

from reference.goal_environments import PLACES, Line

import hindsight_rl
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.gymnasium.task import gymnasium_task
from hindsight_rl.environments.registry import make, specify

FETCH_REACH_START = np.array([1.3419, 0.7491, 0.5347], np.float32)


def test_unless_given_it_is_one_everywhere() -> None:
    task = gymnasium_task(Line(), horizon=13)
    assert [float(task.goal_probability(jnp.array([place]))) for place in (0.0, 100.0)] == [1, 1]


def test_a_function_that_is_given_is_used_and_can_be_traced() -> None:
    task = gymnasium_task(Line(), horizon=13, goal_probability=lambda goal: jnp.where(goal[0] > 2, 2.0, 0.0))
    places = jnp.arange(PLACES, dtype=jnp.float32)[:, None]
    found = jax.jit(jax.vmap(task.goal_probability))(places)
    np.testing.assert_array_equal(found, np.where(np.arange(PLACES) > 2, 2, 0))


def test_the_box_holds_what_is_drawn_and_little_else() -> None:
    """Every place of the line is drawn sooner or later; the margin is a twentieth of its length."""
    task = gymnasium_task(Line(), horizon=13, goal_probability="box")
    longest = PLACES - 1
    asked = np.array([-0.06, -0.04, 0, longest, 1.04, 1.06]) * np.array([longest, longest, 1, 1, longest, longest])
    found = [float(task.goal_probability(jnp.array([place], jnp.float32))) for place in asked]
    assert found == [0, 1, 1, 1, 1, 0]


def test_the_box_of_a_robots_goals() -> None:
    """They lie up to 0.15 m from where its gripper starts, along each axis."""
    environment = make("gym:FetchReach-v4", goal_box=True)
    for axis in range(3):
        for distance, expected in ((0.13, 1), (0.19, 0)):
            for side in (-1, 1):
                goal = FETCH_REACH_START + side * distance * np.eye(3, dtype=np.float32)[axis]
                assert float(environment.goal_probability(jnp.asarray(goal))) == expected


def test_the_choice_is_kept_with_a_run() -> None:
    assert specify("gym:FetchReach-v4", goal_box=True).options["goal_box"] is True
    assert specify("gym:FetchReach-v4").options["goal_box"] is False


def test_a_task_can_be_trained_on() -> None:
    seen = []

    def probability(goal: jax.Array) -> jax.Array:
        seen.append(goal.shape)
        return jnp.float32(1)

    task = gymnasium_task(Line(), horizon=13, goal_probability=probability)
    settings: dict[str, Any] = {
        "batches": 1,
        "evaluate_every": 1,
        "evaluation_episodes": 2,
        "batch_size": 2,
        "hidden_layers": [4],
    }
    settings["method"] = "hpg"  # which weighs goals by their probabilities
    with pytest.warns(UserWarning, match="played in this process"):
        result = hindsight_rl.train(task, **settings)
    assert result.evaluations.mean_returns.shape == (1, 2)
    assert seen


@pytest.mark.parametrize("wrong", ["bocks", "uniform"])
def test_another_word_is_refused(wrong: str) -> None:
    with pytest.raises(HindsightError, match=f"There is no goal probability '{wrong}'"):
        gymnasium_task(Line(), horizon=13, goal_probability=wrong)


def test_only_gymnasium_environments_have_a_box_to_find() -> None:
    with pytest.raises(HindsightError, match=r"There is no option 'goal_box' of fetch-push\. There is none at all\.$"):
        specify("fetch-push", goal_box=True)
