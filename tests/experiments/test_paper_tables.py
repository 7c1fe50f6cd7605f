"""The paper's tables as data, and the settings that come from them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.experiments.configuration import complete, resolve
from hindsight_rl.experiments.paper import (
    PaperResult,
    about_a_hundredth,
    chosen_rates,
    default_values,
    paper_result,
    paper_settings,
    rate_tables,
    spaced,
    tables,
    tried_learning_rates,
)
from hindsight_rl.training.settings import Settings

RESULTS = Path(__file__).parents[2] / "results"
# Environment, batch size, batches, batches between evaluations.
DEFINITIVE = [
    ("bit-flipping-8", 2, 5000, 50),
    ("bit-flipping-8", 16, 1400, 14),
    ("bit-flipping-16", 2, 15000, 150),
    ("bit-flipping-16", 16, 1000, 10),
    ("empty-room", 2, 2200, 22),
    ("empty-room", 16, 200, 2),
    ("four-rooms", 2, 10000, 100),
    ("four-rooms", 16, 1700, 17),
]


def test_tables_are_complete() -> None:
    results, rows = tables()["average_performance"], tables()["settings"]
    cells = {(row["environment"], row["method"], row["batch_size"]) for row in results}
    assert len(results) == len(cells) == 40
    assert len(rows) == len({(row["environment"], row["batch_size"]) for row in rows}) == 12
    assert {cell[0] for cell in cells} == {row["environment"] for row in rows}


@pytest.mark.parametrize(
    ("environment", "method", "batch_size", "mean", "std"),
    [
        ("bit-flipping-8", "hpg", 16, 4.72, 0.02),
        ("bit-flipping-16", "gcpg", 2, 0.0, 0.0),
        ("four-rooms", "hpg+b", 2, 7.28, 1.28),
        ("fetch-push", "gcpg", 16, 4.42, 0.28),
    ],
)
def test_results_of_some_cells(environment: str, method: str, batch_size: int, mean: float, std: float) -> None:
    assert paper_result(environment, method, batch_size) == PaperResult(mean, std)


def test_what_the_paper_does_not_have_is_none() -> None:
    assert paper_result("bit-flipping-8", "hpg", 4) is None
    assert paper_result("ms-pacman", "hpg+b", 2) is None
    assert paper_settings("bit-flipping-9", 2) is None


def test_learning_rates_that_were_tried() -> None:
    rates = tables()["learning_rates"]
    assert rates["R1"] == [1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2]
    assert len(rates["R2"]) == 5
    assert {row["policy_learning_rates"] for row in tables()["settings"]} == {"R1", "R2"}


@pytest.mark.parametrize("row", tables()["settings"], ids=lambda row: f"{row['environment']}, {row['batch_size']}")
def test_every_row_makes_settings(row: dict[str, Any]) -> None:
    made = complete(row["environment"], {"method": "hpg", "batch_size": row["batch_size"]})
    assert made.batches == row["batches"]
    assert len(made.evaluation_batches) == 101
    assert made.options.max_active_goals == row["max_active_goals_per_episode"]


@pytest.mark.parametrize(("environment", "batch_size", "batches", "evaluate_every"), DEFINITIVE)
def test_defaults_are_the_papers(environment: str, batch_size: int, batches: int, evaluate_every: int) -> None:
    made = complete(environment, {"method": "hpg", "batch_size": batch_size})
    assert (made.batch_size, made.batches, made.evaluate_every) == (batch_size, batches, evaluate_every)
    assert made.evaluation_episodes == 256
    assert made.options.hidden_layers == (256, 256)
    assert made.options.max_active_goals is None
    assert (made.episodes_end, made.options.ended) == ("goal", "drop")


@pytest.mark.parametrize("environment", sorted({row["environment"] for row in tables()["settings"]}))
@pytest.mark.parametrize("method", ["gcpg", "hpg", "hpg+b", "dqn", "dqn+her"])
@pytest.mark.parametrize("batch_size", [2, 5, 16])
def test_default_learning_rate_is_one_that_the_paper_tried(environment: str, method: str, batch_size: int) -> None:
    made = complete(environment, {"method": method, "batch_size": batch_size})
    assert made.options.learning_rate in tried_learning_rates(environment, method)


def test_pictures_and_robots_are_learned_slowly() -> None:
    assert [complete(name, {"method": "hpg"}).options.learning_rate for name in ("ms-pacman", "fetch-push")] == [
        1e-4,
        1e-4,
    ]


def test_q_networks_have_learning_rates_of_their_own() -> None:
    found = {
        (name, method): complete(name, {"method": method}).options.learning_rate
        for name in ("empty-room", "four-rooms")
        for method in ("gcpg", "dqn", "dqn+her")
    }
    assert found["empty-room", "dqn"] == found["empty-room", "dqn+her"] == 5e-3
    assert found["four-rooms", "dqn"] == found["four-rooms", "dqn+her"] == 1e-3
    assert found["empty-room", "gcpg"] == found["four-rooms", "gcpg"] == 5e-4


def committed_choices() -> dict[tuple[str, int, str], tuple[dict[str, float], float]]:
    """The rates of the definitive runs that results/ keeps, and their average performance, by cell."""
    polars = pytest.importorskip("polars")
    names = ["environment", "batch_size", "method"]
    kinds = ["learning_rate", "baseline_learning_rate"]
    found: dict[tuple[str, int, str], tuple[dict[str, float], float]] = {}
    for study in ("her", "paper"):
        runs = polars.read_parquet(RESULTS / study / "evaluations.parquet").filter(stage="definitive")
        for row in runs.group_by(names + kinds).agg(polars.col("mean_return").mean()).iter_rows(named=True):
            rates = {kind: row[kind] for kind in kinds if row[kind] is not None}
            cell = (row["environment"], row["batch_size"], row["method"])
            assert found.get(cell, (rates,))[0] == rates
            found[cell] = rates, row["mean_return"]
    return found


def test_default_rates_are_those_that_the_committed_studies_chose() -> None:
    """But for two, each with its reason; and cells in which nothing was learned at any rate have no choice."""
    corrected = {
        (row["environment"], row["batch_size"], row["method"]): row["chosen"] for row in rate_tables()["corrected"]
    }
    assert corrected.keys() == {("bit-flipping-8", 2, "gcpg+b"), ("empty-room", 16, "hpg+b")}
    choices = committed_choices()
    assert len(choices) == 40 + 8
    for cell, (rates, performance) in choices.items():
        environment, batch_size, method = cell
        own = complete(environment, {"method": method, "batch_size": batch_size}).rates
        if performance < 0.01:
            assert method in ("gcpg", "gcpg+b", "dqn")
            assert environment == "bit-flipping-16"
            assert not chosen_rates(environment, method, batch_size)
        elif cell in corrected:
            assert own != rates
            assert list(rates.values()) == corrected[cell]
        else:
            assert own == rates, cell
    listed = {(row["environment"], row["batch_size"], name) for row in rate_tables()["chosen"] for name in row["rates"]}
    assert listed == {cell for cell, (_, performance) in choices.items() if performance >= 0.01}


@pytest.mark.parametrize(("batch_size", "expected"), [(1, 1e-4), (5, 1e-4), (6, 5e-4), (1000, 5e-4)])
def test_other_batch_sizes_have_the_rates_of_the_nearest(batch_size: int, expected: float) -> None:
    made = complete("four-rooms", {"method": "gcpg", "batch_size": batch_size})
    assert made.options.learning_rate == expected


def test_baselines_learn_slowly_where_no_study_was_made() -> None:
    made = complete("bit-flipping-9", {"method": "hpg+b"})
    assert made.rates == {"learning_rate": 1e-3, "baseline_learning_rate": 5e-5}


def test_batch_size_is_sixteen_where_nothing_is_said() -> None:
    assert complete("bit-flipping-8", {}) == complete("bit-flipping-8", {"batch_size": 16})


def test_given_values_win() -> None:
    given = {"method": "gcpg+b", "batches": 60, "evaluate_every": 20, "evaluation_episodes": 7, "learning_rate": 0.5}
    made = complete("bit-flipping-8", given)
    assert {name: made.flat[name] for name in given} == given


def test_where_the_paper_says_nothing_there_are_defaults() -> None:
    assert complete("bit-flipping-9", {"method": "hpg"}) == Settings(method="hpg")
    assert complete("custom", {"method": "hpg", "batch_size": 3}) == Settings(method="hpg", batch_size=3)


@pytest.mark.parametrize("environment", ["bit-flipping-16", "four-rooms", "custom", "fetch-push", "gym:FetchReach-v4"])
def test_without_a_word_hindsight_ppo_trains_with_settings_of_its_own(environment: str) -> None:
    made = complete(environment, {})
    assert made.method == "hppo"
    hosted = environment in ("fetch-push", "gym:FetchReach-v4")
    assert made.episodes_end == ("horizon" if hosted else "goal")
    trained = made.evaluate_every * made.batch_size
    assert not hosted or made.evaluation_episodes <= trained / 10, "evaluations take at most a tenth of the steps"


@pytest.mark.parametrize(
    ("batches", "most", "expected"), [(1, 20, 1), (15, 20, 5), (100, 20, 20), (300, 4, 4), (7, 4, 1)]
)
def test_evaluations_of_a_given_number_of_batches_are_spaced(batches: int, most: int, expected: int) -> None:
    assert spaced(batches, most) == expected


@pytest.mark.parametrize(("batches", "expected"), [(1, 1), (7, 1), (300, 3), (997, 1), (1000, 10), (1100, 11)])
def test_evaluations_adapt_to_given_batches(batches: int, expected: int) -> None:
    assert about_a_hundredth(batches) == expected
    assert complete("bit-flipping-8", {"method": "hpg", "batches": batches}).evaluate_every == expected


def test_adapted_evaluations_always_fit() -> None:
    for batches in range(1, 2000):
        every = about_a_hundredth(batches)
        assert batches % every == 0
        assert every <= max(1, batches // 100)


@pytest.mark.parametrize("batches", [10**12, 10**20, 999_999_999_989, 2**61 - 1])
def test_evaluations_of_more_batches_than_could_be_counted_are_spaced_too(batches: int) -> None:
    """Two powers of ten, and two primes: to try every number up to a hundredth of these would take for ever."""
    for every in (about_a_hundredth(batches), spaced(batches, 10**9)):
        assert batches % every == 0
    assert about_a_hundredth(10**12) == 10**10
    assert spaced(10**12, 10**9) == 10**9


@pytest.mark.parametrize("settings", [complete, resolve])
def test_unknown_setting_is_named(settings: Callable[[str, dict[str, Any]], Any]) -> None:
    with pytest.raises(HindsightError, match=r"'bach_size' of .*\. Did you mean 'batch_size'\?"):
        settings("bit-flipping-8", {"bach_size": 2})


def test_only_what_a_method_has_is_given_to_it() -> None:
    assert default_values("bit-flipping-8", "hpg", 16).keys() == {
        "batches",
        "evaluate_every",
        "evaluation_episodes",
        "max_active_goals",
        "learning_rate",
    }
    assert "max_active_goals" not in default_values("bit-flipping-8", "gcpg", 16)
    assert "initial_weights" not in default_values("fetch-push", "dqn", 16)
