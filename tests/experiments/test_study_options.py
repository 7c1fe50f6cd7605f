"""Options of methods and environments in a study's file: set for all cells or some, and searched."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_jobs import ENVIRONMENT, compiled_programs
from small_results import refusal
from small_studies import STAGE, results_in, small_plan, small_study

from hindsight_rl.experiments.study.ledger import performances
from hindsight_rl.experiments.study.policies import kept_policy
from hindsight_rl.experiments.study.protocol import Piece, ranked
from hindsight_rl.experiments.study.run import held_study, run_study
from hindsight_rl.experiments.study.worker import Observer
from hindsight_rl.records.runs import DEFINITIVE, Cell
from hindsight_rl.records.tidy import columns

__all__ = ["compiled_programs"]

REPLAY: dict[str, Any] = {"minibatch_size": 8, "replay_capacity": 500}
DQN: dict[str, Any] = {"methods": ["dqn"], "baseline_learning_rates": None, **REPLAY}
SEARCHED_STEPS = "[search.options]\ngradient_steps = [3, 1]\n"
CELL = Cell(ENVIRONMENT, 8, "dqn")


def test_a_method_has_the_options_that_a_file_sets_flat() -> None:
    hpg, dqn = small_study(methods=["hpg", "dqn"], ended="carry", epsilon=0.5, normalise=True, **REPLAY).plans
    assert (hpg.options["ended"], hpg.options["normalise"]) == ("carry", True)
    assert (dqn.options["epsilon"], dqn.options["minibatch_size"]) == (0.5, 8)
    assert hpg.options.keys() & {"epsilon", *REPLAY} == set()
    assert dqn.options.keys() & {"ended", "normalise"} == set()
    assert hpg.settings(hpg.search, 1).options.ended == "carry"


def test_an_override_sets_options_where_it_matches() -> None:
    override = '[[override]]\nmethods = ["dqn"]\nhidden_layers = [4]\nepsilon = 0.1\nepisodes_end = "horizon"\n'
    plans = small_study(override, methods=["hpg", "dqn", "dqn+her"], epsilon=0.5, **REPLAY).plans
    found = {plan.method: (plan.options["hidden_layers"], plan.options.get("epsilon")) for plan in plans}
    assert found == {"hpg": ((16,), None), "dqn": ((4,), 0.1), "dqn+her": ((16,), 0.5)}
    assert {plan.method: plan.episodes_end for plan in plans} == {"hpg": "goal", "dqn": "horizon", "dqn+her": "goal"}


def test_environments_have_the_options_that_a_file_sets() -> None:
    places = ["four-rooms", "empty-room", ENVIRONMENT]
    override = '[[override]]\nenvironments = ["empty-room"]\nsize = 5\n'
    plans = small_study(override, environments=places, methods=["hpg"], slip=0.05).plans
    assert [dict(plan.specification.options) for plan in plans] == [{"slip": 0.05}, {"size": 5}, {"bits": 4}]
    assert [plan.environment for plan in plans] == places
    assert plans[1].specification.task.goal_count == 5 * 5 - 1


def test_an_option_that_the_environments_name_sets_is_no_setting() -> None:
    message = refusal(lambda: small_study(bits=5))
    assert message.startswith("In the small study: There is no setting 'bits'.")


def test_the_values_of_an_environments_option_are_checked() -> None:
    message = refusal(lambda: small_study(environments=["four-rooms"], slip="much"))
    assert message == "In the small study: slip must be a number, not much."


def test_a_searched_option_set_to_one_value_is_not_searched() -> None:
    plan = small_plan(learning_rates=None, learning_rate=0.5)
    assert plan.choices == {"learning_rate": (0.5,)}
    assert len(plan.grid) == 1


def test_the_short_spelling_is_that_of_the_table() -> None:
    table = "[search.options]\nlearning_rate = [0.001, 0.01]\n"
    assert small_plan(table, learning_rates=None) == small_plan()


def test_options_that_are_searched_join_the_learning_rates() -> None:
    plan = small_plan("[search.options]\nepsilon = [0.3, 0.1]\ngradient_steps = [2]\n", **DQN)
    assert plan.choices == {"learning_rate": (1e-3, 1e-2), "epsilon": (0.1, 0.3), "gradient_steps": (2.0,)}
    assert len(plan.grid) == 4
    assert plan.options.keys() & plan.choices.keys() == set()
    assert plan.strategy == "halving"
    chosen = plan.settings(plan.search, 1, plan.grid[-1]).options
    assert (chosen.learning_rate, chosen.epsilon, chosen.gradient_steps) == (1e-2, 0.3, 2)
    assert isinstance(chosen.gradient_steps, int)


def test_what_is_searched_of_one_method_leaves_the_others_alone() -> None:
    hpg, dqn = small_study(SEARCHED_STEPS, **{**DQN, "methods": ["hpg", "dqn"]}).plans
    assert hpg.choices.keys() == {"learning_rate"}
    assert dqn.choices.keys() == {"learning_rate", "gradient_steps"}


def test_an_override_can_search_or_stop_searching() -> None:
    override = '[[override]]\nmethods = ["dqn+her"]\ngradient_steps = 7\n'
    dqn, her = small_study(SEARCHED_STEPS + override, **{**DQN, "methods": ["dqn", "dqn+her"]}).plans
    assert dqn.choices["gradient_steps"] == (1.0, 3.0)
    assert her.choices.keys() == {"learning_rate"}
    assert her.options["gradient_steps"] == 7
    override = '[[override]]\nmethods = ["dqn+her"]\n[override.search.options]\nrelabelled_goals = [1]\n'
    dqn, her = small_study(override, **{**DQN, "methods": ["dqn", "dqn+her"]}).plans
    assert dqn.choices.keys() == {"learning_rate"}
    assert her.choices.keys() == {"learning_rate", "relabelled_goals"}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("", "none of the methods hpg, gcpg+b has the option 'epsilon'; dqn, dqn+her have it."),
        ("[search.options]\n", "none of the methods hpg, gcpg+b has the option 'epsilon'; dqn, dqn+her have it."),
        ("[[override]]\n", "none of the methods hpg, gcpg+b has the option 'epsilon'; dqn, dqn+her have it."),
    ],
)
def test_an_option_of_other_methods_is_refused_with_their_names(more: str, words: str) -> None:
    changes = {} if more else {"epsilon": 0.5}
    message = refusal(lambda: small_study(f"{more}epsilon = [0.5]\n" if more else "", **changes))
    assert message == f"In the small study: {words}"


def test_an_option_of_one_other_method_is_refused_with_its_name() -> None:
    words = "none of the methods hpg, gcpg+b has the option 'relabelling'; dqn+her has it."
    assert refusal(lambda: small_study(relabelling="final")) == f"In the small study: {words}"


@pytest.mark.parametrize("name", ["ended", "hidden_layers", "normalise"])
def test_only_numbers_can_be_searched(name: str) -> None:
    message = refusal(lambda: small_study(f"[search.options]\n{name} = [1, 2]\n", hidden_layers=None))
    assert message == (
        f"In the small study: search.options can only hold numeric options of a method, which '{name}' is not."
    )


def test_an_environments_options_cannot_be_searched() -> None:
    message = refusal(lambda: small_study("[search.options]\nslip = [0.1, 0.2]\n", environments=["four-rooms"]))
    assert message.endswith("search.options can only hold numeric options of a method, which 'slip' is not.")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("[1, 0]", "gradient_steps must be a whole number of at least 1, not 0."),
        ("[1.5, 2]", "gradient_steps must be a whole number of at least 1, not 1.5."),
        ("[]", "gradient_steps must be a list with at least one value to choose, not []."),
        ("[2, 2.0]", "gradient_steps names a value twice."),
        ('["many"]', "the values of gradient_steps must be numbers, not 'many'."),
        ("3", "gradient_steps must be a list with at least one value to choose, not 3."),
    ],
)
def test_values_that_cannot_be_chosen_are_refused(values: str, words: str) -> None:
    assert words in refusal(lambda: small_study(f"[search.options]\ngradient_steps = {values}\n", **DQN))


def test_the_table_of_what_is_searched_is_a_table() -> None:
    message = refusal(lambda: small_study(search={**STAGE, "options": 3}))
    assert message == "In the small study: search.options must be a table: [search.options]."


@pytest.fixture(scope="module")
def searched(
    compiled_programs: object, quick_compilation: object, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[Piece]]:
    """A study over two numbers of gradient steps and two learning rates, and the pieces that it was run in."""
    folder = tmp_path_factory.mktemp("searched")
    pieces: list[Piece] = []
    study = small_study(SEARCHED_STEPS, search={**STAGE, "strategy": "grid"}, **DQN)
    # So short a search stays at chance; what is looked at here is that the best score is chosen.
    study = replace(study, plans=tuple(replace(plan, guarded=False) for plan in study.plans))
    run_study(study, folder, Observer(begin=pieces.append))
    return folder, pieces


def test_values_that_are_compiled_are_run_as_pieces_of_their_own(searched: tuple[Path, list[Piece]]) -> None:
    _, pieces = searched
    steps = [{dict(key.choices)["gradient_steps"] for key in piece.keys} for piece in pieces]
    assert [piece.round.name for piece in pieces] == ["search", "search", DEFINITIVE]
    assert steps[:2] == [{1.0}, {3.0}]
    # Learning rates are inputs of a program: those of one number of steps are trained side by side.
    assert [len(piece.keys) for piece in pieces] == [4, 4, 4]
    assert [piece.settings.options.gradient_steps for piece in pieces[:2]] == [1, 3]
    assert pieces[0].settings.compiled != pieces[1].settings.compiled


def test_definitive_runs_have_the_value_that_was_chosen(searched: tuple[Path, list[Piece]]) -> None:
    folder, pieces = searched
    results = results_in(folder)
    best = ranked(pieces[0].round, performances(results, CELL))[0]
    assert [name for name, _ in best] == ["learning_rate", "gradient_steps"]
    definitive = results.of(CELL, DEFINITIVE)
    assert {run.key.choices for run in definitive} == {best}
    for run in results.runs:
        chosen = dict(run.key.choices)
        assert run.settings["gradient_steps"] == chosen["gradient_steps"]
        assert isinstance(run.settings["gradient_steps"], int)
        assert run.settings["learning_rate"] == chosen["learning_rate"]
    assert {"learning_rate", "gradient_steps"} <= set(columns(results))


def test_the_folder_goes_on_and_its_policy_acts(searched: tuple[Path, list[Piece]]) -> None:
    folder, pieces = searched
    study = held_study(folder)
    assert study.plans == (pieces[0].plan,)
    more: list[Piece] = []
    run_study(study, folder, Observer(begin=more.append))
    assert more == []
    policy = kept_policy(folder, study.plans[0])
    assert policy is not None
    assert int(policy.act([0.0] * 4, [1.0] * 4, 0)) in range(4)
