"""Settings that cannot be meant are refused with a sentence that names the value."""

import re
from typing import Any

import pytest

from hindsight_rl.agents.options import HindsightOptions
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.training.settings import Settings, make_settings

WHOLE_NUMBERS = ("batch_size", "batches", "evaluate_every", "evaluation_episodes", "runs", "max_active_goals")
LEARNING_RATES = ("learning_rate", "baseline_learning_rate")


def refusal(**values: Any) -> str:
    with pytest.raises(HindsightError) as refused:
        make_settings({"method": "hpg", **values})
    return str(refused.value)


@pytest.mark.parametrize("name", WHOLE_NUMBERS)
@pytest.mark.parametrize("value", [0, -3, True, 2.0, "8"])
def test_what_must_be_a_whole_number_is_one(name: str, value: Any) -> None:
    assert refusal(**{name: value}) == f"{name} must be a whole number of at least 1, not {value}."


@pytest.mark.parametrize("name", LEARNING_RATES)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 0, 0.0, -0.1])
def test_learning_rate_is_finite_and_above_zero(name: str, value: float) -> None:
    assert refusal(method="hpg+b", **{name: value}) == f"{name} must be a finite number above zero, not {value}."


@pytest.mark.parametrize("runs", [2**32 + 1, 10**20])
def test_more_runs_than_seeds_are_refused(runs: int) -> None:
    assert refusal(runs=runs) == f"runs must be at most {2**32}, each with a seed of its own, not {runs}."


def test_evaluations_fit_the_batches() -> None:
    assert Settings(batches=20, evaluate_every=7).evaluation_batches == [0, 7, 14, 20]
    assert Settings(batches=100, evaluate_every=200).evaluation_batches == [0, 100]
    longer = Settings(batches=30, evaluate_every=7)
    assert [longer.next_evaluation(done) for done in (0, 20, 21, 28)] == [7, 21, 28, 30]


@pytest.mark.parametrize("widths", [(0,), (16, -1), (True,), (16, 8.0)])
def test_widths_are_whole_numbers(widths: tuple[Any, ...]) -> None:
    message = refusal(hidden_layers=widths)
    assert message == f"each width in hidden_layers must be a whole number of at least 1, not {widths[-1]}."


@pytest.mark.parametrize(
    ("name", "value", "nearest", "known"),
    [("episodes_end", "goals", "goal", "goal, horizon"), ("ended", "cary", "carry", "drop, carry")],
)
def test_unknown_choice_names_the_nearest(name: str, value: str, nearest: str, known: str) -> None:
    assert refusal(**{name: value}) == f"There is no {name} '{value}'. Did you mean '{nearest}'? Known: {known}."


@pytest.mark.parametrize(("seed", "runs"), [(-1, 1), (2**32, 1), (2**32 - 1, 2)])
def test_seed_out_of_range(seed: int, runs: int) -> None:
    assert refusal(seed=seed, runs=runs) == f"seed must lie between 0 and {2**32 - runs}, not {seed}."


def test_seeds_reach_to_the_last_number_that_fits() -> None:
    assert list(Settings(seed=2**32 - 2, runs=2).seeds) == [2**32 - 2, 2**32 - 1]


def test_evaluations_begin_before_the_first_batch_and_end_after_the_last() -> None:
    assert list(Settings(batches=30, evaluate_every=10).evaluation_batches) == [0, 10, 20, 30]


def test_refusals_are_single_sentences() -> None:
    for values in ({"batch_size": 0}, {"learning_rate": -1}, {"seed": -1}, {"evaluate_every": 0}):
        assert re.fullmatch(r"[^\n]*\.", refusal(**values))


def test_what_another_method_has_is_refused_with_its_name() -> None:
    assert refusal(method="hpg", relabelling="final") == "The method hpg has no option 'relabelling'; dqn+her has it."
    assert refusal(method="gcpg", baseline_learning_rate=0.1) == (
        "The method gcpg has no option 'baseline_learning_rate'; gcpg+b, hpg+b, policy-gradient have it."
    )


def test_what_no_method_has_gets_the_nearest_match() -> None:
    message = refusal(method="dqn", epsilom=0.1)
    assert message.startswith("There is no setting 'epsilom' of dqn. Did you mean 'epsilon'? Known: batch_size, ")
    assert "episode_limit" not in message


@pytest.mark.parametrize("method", [3, None, ["hpg"]])
def test_a_method_is_a_name(method: Any) -> None:
    assert refusal(method=method) == f"method must be a name, not {method!r}."


def test_options_of_another_method_are_refused() -> None:
    with pytest.raises(HindsightError, match=r"^The options of dqn must be DQNOptions, not HindsightOptions\(.*\)\.$"):
        Settings(method="dqn", options=HindsightOptions())


def test_flat_settings_make_the_settings_again() -> None:
    made = make_settings({"method": "dqn+her", "runs": 3, "relabelling": "future", "hidden_layers": (4,)})
    assert make_settings(made.flat) == made
    assert made.flat == {**made.run, "method": "dqn+her", **made.method_options}
    assert made.rates == {"learning_rate": made.options.learning_rate}


def test_what_a_program_is_compiled_for() -> None:
    """Not for numbers of runs and batches, rates and seeds; but a replay buffer has room for the run's episodes."""
    base = make_settings({"method": "hpg+b"})
    inputs = {"runs": 5, "seed": 7, "batches": 50, "evaluate_every": 5, "learning_rate": 0.5}
    assert make_settings({**base.flat, **inputs, "baseline_learning_rate": 0.1}).compiled == base.compiled
    for change in ({"batch_size": 3}, {"evaluation_episodes": 3}, {"episodes_end": "horizon"}, {"normalise": True}):
        assert make_settings({**base.flat, **change}).compiled != base.compiled
    replay = make_settings({"method": "dqn"})
    assert make_settings({**replay.flat, "learning_rate": 0.5}).compiled == replay.compiled
    assert make_settings({**replay.flat, "batches": 2000}).compiled != replay.compiled
