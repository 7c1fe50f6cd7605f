"""What `import hindsight_rl` offers."""

import subprocess
import sys
from typing import Any

import jax
import numpy as np
import pytest
from small_jobs import SMALL, compiled_programs, small_settings

import hindsight_rl
from hindsight_rl.rollout.compiled import play

__all__ = ["compiled_programs"]

pytestmark = pytest.mark.usefixtures("compiled_programs")

PUBLIC = [
    *("ENVIRONMENTS", "METHODS", "Agent", "Callback", "Environment", "Estimator", "HindsightError", "Method"),
    *("Options", "Result", "Settings", "Update", "for_minutes", "load", "make", "train", "until_success"),
]
MODULES = ["estimators", "exact"]
RUNS, BATCHES = 2, 200


@pytest.fixture(scope="module")
def result(compiled_programs: object) -> hindsight_rl.Result:
    environment = hindsight_rl.make("bit-flipping", bits=4)
    return hindsight_rl.train(environment, **{**SMALL, "runs": RUNS, "batches": BATCHES, "evaluate_every": 50})


def test_every_name_is_there() -> None:
    assert sorted(hindsight_rl.__all__) == sorted(PUBLIC)
    assert dir(hindsight_rl) == sorted([*PUBLIC, *MODULES])
    for name in dir(hindsight_rl):
        assert getattr(hindsight_rl, name) is not None


def test_names_are_what_they_say() -> None:
    assert issubclass(hindsight_rl.HindsightError, ValueError)
    assert isinstance(hindsight_rl.make("bit-flipping", bits=8), hindsight_rl.Environment)
    paper = {"hpg", "hpg+b", "gcpg", "gcpg+b", "hpg-no-ratios", "dqn", "dqn+her"}
    assert hindsight_rl.METHODS.keys() == {*paper, "policy-gradient", "hppo", "ppo"}
    for method in hindsight_rl.METHODS.values():
        assert isinstance(method, hindsight_rl.Method)
        assert issubclass(method.options, hindsight_rl.Options)
    assert {"bit-flipping", "empty-room", "four-rooms", "grid"} <= hindsight_rl.ENVIRONMENTS.keys()
    assert hindsight_rl.Settings().method in hindsight_rl.METHODS


def test_unknown_attribute() -> None:
    with pytest.raises(AttributeError, match="module 'hindsight_rl' has no attribute 'trian'"):
        hindsight_rl.trian  # noqa: B018
    assert not hasattr(hindsight_rl, "_missing")


def test_importing_waits_for_nothing_heavy() -> None:
    code = "import sys, hindsight_rl; dir(hindsight_rl); print('jax' in sys.modules, 'numpy' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "False False\n"


def test_curves_have_a_row_for_each_run_and_a_column_for_each_evaluation(result: hindsight_rl.Result) -> None:
    assert result.evaluations.batches.tolist() == [0, 50, 100, 150, 200]
    assert result.evaluations.mean_returns.shape == result.evaluations.success_rates.shape == (RUNS, 5)
    assert np.all((result.evaluations.success_rates >= 0) & (result.evaluations.success_rates <= 1))
    assert result.settings == small_settings(runs=RUNS, batches=BATCHES, evaluate_every=50)
    assert list(result.evaluations.metrics) == ["mean_return", "success_rate", "steps"]
    assert result.failures == []
    assert len(result.policies) == RUNS


def test_policies_act_legally_on_plain_lists(result: hindsight_rl.Result) -> None:
    for policy in result.policies:
        action = policy.act([0, 0, 0, 0], [1, 0, 1, 0])
        assert action.shape == ()
        assert int(action) in range(4)


def test_trained_policies_flip_a_bit_that_is_wrong(result: hindsight_rl.Result) -> None:
    for policy in result.policies:
        assert int(policy.act(np.zeros(4), np.array([0, 0, 1, 0]))) == 2


def test_policies_play_as_recorded(result: hindsight_rl.Result) -> None:
    environment = hindsight_rl.make("bit-flipping", bits=4)
    assert isinstance(environment, hindsight_rl.Environment)

    @jax.jit
    def returns(policy: Any, key: jax.Array) -> jax.Array:
        def exploit(observations: jax.Array, goals: jax.Array, time: jax.Array) -> jax.Array:
            return jax.vmap(policy.act)(observations, goals)

        return play(environment, exploit, SMALL["evaluation_episodes"], key).returns

    for run, policy in enumerate(result.policies):
        _, _, evaluation_key = jax.random.split(jax.random.key(run), 3)
        played = np.asarray(returns(policy, jax.random.fold_in(evaluation_key, BATCHES)))
        assert played.mean() == pytest.approx(result.evaluations.final_return[run], rel=1e-6)
        assert played.mean() > 2


def test_report_is_called_after_each_evaluation() -> None:
    reported: list[int] = []
    hindsight_rl.train("bit-flipping-4", report=lambda snapshot: reported.append(snapshot.batch), **SMALL)
    assert reported == [0, 10, 20, 30, 40]


def test_named_and_built_environments_give_the_same_numbers() -> None:
    settings = {**SMALL, "hidden_layers": [16]}
    named = hindsight_rl.train("bit-flipping-4", **settings)
    built = hindsight_rl.train(hindsight_rl.make("bit-flipping", bits=4), **settings)
    np.testing.assert_array_equal(named.evaluations.mean_returns, built.evaluations.mean_returns)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "hgp"}, "Did you mean 'hpg'"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"batch_siz": 3}, "There is no setting 'batch_siz' of hppo on bit-flipping-4. Did you mean 'batch_size'"),
        ({"epsilon": 0.1}, "hppo has no option 'epsilon'; dqn, dqn\\+her have it."),
        ({"method": "dqn", "ended": "drop"}, "dqn has no option 'ended'; hpg, hpg\\+b, policy-gradient have it."),
        (
            {"method": "gcpg", "normaliser_floor": 1e-12},
            "gcpg has no option 'normaliser_floor'; hpg, hpg\\+b, policy-gradient have it.",
        ),
        ({"slip": 0.1}, "bit-flipping-4 has no option 'slip'; four-rooms has it."),
        ({"bits": 5}, "'bit-flipping-4' already sets bits."),
        ({"method": 3}, "method must be a name, not 3."),
    ],
)
def test_mistakes_are_sentences(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(hindsight_rl.HindsightError, match=words):
        hindsight_rl.train("bit-flipping-4", **settings)


@pytest.mark.parametrize("settings", [{"batch_siz": 3}, {"epsilon": 0.1}, {"batch_size": 0}])
def test_mistakes_with_a_built_environment_are_sentences(settings: dict[str, Any]) -> None:
    with pytest.raises(hindsight_rl.HindsightError, match=next(iter(settings))):
        hindsight_rl.train(hindsight_rl.make("bit-flipping-4"), **settings)


def test_unknown_environment_is_a_sentence() -> None:
    with pytest.raises(hindsight_rl.HindsightError, match="Did you mean 'empty-room'"):
        hindsight_rl.make("empty-rom")
