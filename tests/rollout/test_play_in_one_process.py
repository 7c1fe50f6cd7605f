"""Gymnasium environments that no other process can make: one at a time, here, to the same numbers as with workers."""

import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from environments.registered_lines import TROUBLE, MoodyLine
from gymnasium import spaces
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit
from reference.goal_environments import Line

import hindsight_rl
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.gymnasium.task import gymnasium_task
from hindsight_rl.rollout.hosted import open_pool, play_hosted

NAME = "environments.registered_lines:MoodyLine-v0"
SMALL: dict[str, Any] = {
    "method": "hpg",
    "batch_size": 5,
    "batches": 4,
    "evaluate_every": 2,
    "evaluation_episodes": 9,
    "hidden_layers": (8,),
    "learning_rate": 1e-2,
    "initial_weights": "scaled",
}
ALONE = r"'MoodyLine' is played in this process, one episode after another.*for parallel play pass its registered name"


class Mirror(gymnasium.ActionWrapper):
    """A wrapper of which Gymnasium does not remember how it was made."""

    def action(self, action: Any) -> Any:
        return 3 - action


def alone() -> gymnasium.Env:
    return TimeLimit(MoodyLine(), 12)


def test_the_same_numbers_as_with_workers() -> None:
    from hindsight_rl.training.loop import training
    from hindsight_rl.training.program import make_program
    from hindsight_rl.training.settings import make_settings

    settings, found = make_settings(SMALL), list[Any]()
    notices: list[str] = []
    for wanted in (NAME, alone()):
        environment = gymnasium_task(wanted)
        *_, newest = training(make_program(environment, settings), settings, notice=notices.append)
        found.append((newest.states, newest.evaluations.mean_returns, newest.evaluations.success_rates))
    for with_workers, without in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_array_equal(with_workers, without)
    assert len(np.unique(found[0][1])) > 1, "nothing was learned"
    assert len(notices) == 1


def test_training_on_an_object_says_once_how_it_is_played_and_leaves_it_open() -> None:
    environment = alone()
    closed = []
    environment.unwrapped.close = lambda: closed.append(True)  # type: ignore[method-assign]
    with pytest.warns(UserWarning, match=ALONE) as seen:
        result = hindsight_rl.train(environment, **{**SMALL, "method": "gcpg", "batches": 2})
    assert len(seen) == 1
    assert result.evaluations.batches.tolist() == [0, 2]
    assert not closed
    assert environment.reset(seed=0)[0]["desired_goal"].shape == (1,)


@pytest.mark.parametrize(
    ("make", "portable"),
    [
        (lambda: NAME, True),
        (lambda: MoodyLine, True),
        (lambda: gymnasium.make(NAME), True),
        (lambda: RecordEpisodeStatistics(gymnasium.make(NAME)), True),
        (lambda: lambda: MoodyLine(), False),
        (lambda: MoodyLine(), False),
        (lambda: Mirror(gymnasium.make(NAME)), False),
    ],
    ids=["name", "class", "made", "remembered wrapper", "local function", "object", "forgotten wrapper"],
)
def test_what_other_processes_can_make(make: Callable[[], Any], portable: bool) -> None:
    task = gymnasium_task(make(), horizon=13)
    assert task.source().portable == portable
    assert len(task.notices) == (not portable)
    with open_pool(task, 3, 2) as pool:
        assert (pool.places, len(pool._workers)) == ((3, 2) if portable else (1, 0))
        pool.begin([0], np.full((1, 2), 4, np.uint64))
        pool.step([0], np.array([1]))
        moved = pool.slots.achieved_goals[0] - MoodyLine().reset(seed=4)[0]["achieved_goal"]
    assert moved == (-1 if "Mirror" in str(task.wanted) else 1)


def test_another_process_gets_what_only_this_one_has_registered() -> None:
    gymnasium.register("HereOnly-v0", entry_point="reference.goal_environments:Line", max_episode_steps=5)
    try:
        task = gymnasium_task("HereOnly-v0")
        assert task.horizon == 6
        with open_pool(task, 1, 1) as pool:
            pool.begin([0], np.full((1, 2), 4, np.uint64))
            assert pool.slots.goals[0] == Line().reset(seed=4)[0]["desired_goal"]
    finally:
        del gymnasium.registry["HereOnly-v0"]


def test_what_was_typed_in_stays_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of a notebook can be named, but there is no file in which another process would find it."""
    monkeypatch.setattr(Mirror, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Mirror", Mirror, raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "script.py", raising=False)
    recipe = gymnasium_task(TypedIn(Mirror), horizon=4)
    assert recipe.portable
    monkeypatch.delattr(sys.modules["__main__"], "__file__")
    assert not gymnasium_task(TypedIn(Mirror), horizon=4).portable


class TypedIn:
    """Makes an environment with the help of some class."""

    def __init__(self, helper: type):
        self.helper = helper

    def __call__(self) -> gymnasium.Env:
        return Line()


def test_a_wrapper_sets_the_horizon_of_an_environment_without_a_specification() -> None:
    assert gymnasium_task(TimeLimit(TimeLimit(Line(), 9), 4)).horizon == 5
    with pytest.raises(
        HindsightError, match=r"give a horizon \(states .*\), or set its attribute max_episode_steps\.$"
    ):
        gymnasium_task(Line())


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("raises", r"^The environment 'MoodyLine(-v0)?' failed at step 5: ZeroDivisionError: a wheel came off\.$"),
        ("no number", r"^The environment 'MoodyLine(-v0)?' gave an observation that is not a finite number at step 5"),
        ("reward raises", r"'MoodyLine(-v0)?': compute_reward failed: ZeroDivisionError: no scales\.$"),
        ("reward is no number", r"'MoodyLine(-v0)?': compute_reward gave something else than one finite number"),
    ],
)
def test_trouble_is_the_same_sentence_with_workers_and_without(
    trouble: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def walk(observations: np.ndarray, goals: np.ndarray, times: np.ndarray) -> np.ndarray:
        return times % 2

    for wanted in (NAME, alone()):
        environment = gymnasium_task(wanted)
        monkeypatch.setenv(TROUBLE, trouble)
        with open_pool(environment, 3, 1) as pool, pytest.raises(HindsightError, match=said):
            play_hosted(environment, pool, walk, 8, jax.random.key(0))
        # What was said is over: the same object can be played once it is in order.
        monkeypatch.delenv(TROUBLE)
        with open_pool(environment, 3, 0) as pool:
            assert len(play_hosted(environment, pool, walk, 8, jax.random.key(0)).returns) == 8


def test_only_spaces_that_a_policy_can_choose_from() -> None:
    with pytest.raises(HindsightError, match="only discrete and real Box spaces will do"):
        gymnasium_task(Line(action=spaces.Tuple((spaces.Discrete(2),))), horizon=4)
