"""A study's file: what it may say, what it means, and what is refused with which sentence."""

import json
from dataclasses import replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from small_results import refusal
from small_studies import STAGE, small_plan, small_study, study_text

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.experiments.study.files import load_study, parse_study, presets
from hindsight_rl.experiments.study.plan import LARGEST_SEED, Plan, Stage, Study
from hindsight_rl.records.runs import Cell
from hindsight_rl.training.settings import make_settings

# Environment, batch size, then batches and batches between evaluations: in the search, and of definitive runs.
PAPER = [
    ("bit-flipping-8", 2, (4000, 40), (5000, 50)),
    ("bit-flipping-8", 16, (1400, 14), (1400, 14)),
    ("bit-flipping-16", 2, (4000, 40), (15000, 150)),
    ("bit-flipping-16", 16, (1000, 10), (1000, 10)),
    ("empty-room", 2, (2500, 25), (2200, 22)),
    ("empty-room", 16, (800, 8), (200, 2)),
    ("four-rooms", 2, (10000, 100), (10000, 100)),
    ("four-rooms", 16, (3500, 35), (1700, 17)),
]
HARD = ("ms-pacman", "fetch-push")
METHODS = ("gcpg", "gcpg+b", "hpg", "hpg+b", "hpg-no-ratios")
RATES = (1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2)

OVERRIDE = """
[[override]]
methods = ["hpg"]
learning_rates = [0.5]
[override.search]
runs = 7
[[override]]
environments = ["bit-flipping-4"]
batch_sizes = [8]
hidden_layers = [4, 4]
[override.search]
runs = 9
[override.definitive]
runs = 11
"""


def refused(text: str) -> str:
    message = refusal(lambda: parse_study(text, "'mine.toml'", "mine"))
    assert "\n" not in message
    return message


def test_every_cell_of_the_paper_has_its_settings() -> None:
    study = load_study("paper")
    assert study.name == "paper"
    cells = [plan.cell for plan in study.plans]
    hard = [cell for cell in cells if cell.environment in ("ms-pacman", "fetch-push")]
    assert sorted(hard) == sorted(Cell(*values) for values in product(HARD, (2, 16), ("gcpg", "hpg")))
    assert len(cells) == len(set(cells)) == len(PAPER) * len(METHODS) + len(hard) == 48
    for environment, batch_size, (search, every), (definitive, between) in PAPER:
        for method in METHODS:
            plan = study.plans[cells.index(Cell(environment, batch_size, method))]
            assert plan.search == Stage(10, search, every, 256)
            assert plan.definitive == Stage(20, definitive, between, 256)
            baseline = method.endswith("+b")
            rates = {"learning_rate": RATES, "baseline_learning_rate": RATES}
            assert plan.choices == (rates if baseline else {"learning_rate": RATES})
            assert len(plan.grid) == (64 if baseline else 8)
            assert plan.strategy == ("halving" if baseline else "grid")
            floor = {"normaliser_floor": 1e-12} if method in ("hpg", "hpg+b") else {}
            base = make_settings({"method": method, **floor})
            assert {**base.method_options, **plan.options} == base.method_options
            assert {*plan.options, *plan.choices} == base.method_options.keys()
            assert plan.episodes_end == "goal"
            assert (plan.options["hidden_layers"], plan.options["initial_weights"]) == ((256, 256), "narrow")
            assert plan.specification.id == environment
            assert plan.seed == 0


def test_a_plan_from_before_an_option_has_its_default() -> None:
    """So that a folder without the published constant is not taken for one with it."""
    (plan,) = load_study("paper").narrowed(["bit-flipping-8"], ["hpg"], [16]).plans
    content = json.loads(json.dumps(plan.to_json()))
    assert Plan.from_json(plan.cell, content) == plan
    del content["options"]["normaliser_floor"]
    held = Plan.from_json(plan.cell, content)
    assert held == replace(plan, options={**plan.options, "normaliser_floor": 0.0})
    assert held.grid == plan.grid


def test_the_preset_agrees_with_the_papers_tables() -> None:
    content = json.loads(files("hindsight_rl.experiments").joinpath("paper.json").read_text())
    rows = {(row["environment"], row["batch_size"]): row for row in content["settings"]}
    for plan in load_study("paper").plans:
        row = rows[plan.environment, plan.batch_size]
        episodes = row["evaluation_episodes"]
        found = (plan.search, plan.definitive)
        assert found == (
            Stage(row["search_runs"], row["search_batches"], row["search_batches_between_evaluations"], episodes),
            Stage(row["runs"], row["batches"], row["batches_between_evaluations"], episodes),
        )
        expected = {"learning_rate": tuple(sorted(content["learning_rates"][row["policy_learning_rates"]]))}
        if plan.method.endswith("+b"):
            expected["baseline_learning_rate"] = tuple(
                sorted(content["learning_rates"][row["baseline_learning_rates"]])
            )
        assert plan.choices == expected
        if plan.method.startswith("hpg"):
            assert plan.options["max_active_goals"] == row["max_active_goals_per_episode"]


def test_what_the_paper_does_not_have_gets_its_small_environments_search() -> None:
    text = 'environments = ["bit-flipping-5"]\nmethods = ["hpg", "hpg+b"]\nbatch_sizes = [3]\n'
    study = parse_study(text, "'mine.toml'", "mine")
    assert study.name == "mine"
    for plan in study.plans:
        assert (plan.search, plan.definitive) == (Stage(10, 1000, 10, 256), Stage(20, 1000, 10, 256))
        assert set(plan.choices.values()) == {RATES}


def test_both_presets_add_the_published_constant() -> None:
    for name in ("paper", "paper-her"):
        floors = {plan.method: plan.options.get("normaliser_floor") for plan in load_study(name).plans}
        concerned = {method for method in floors if method in ("hpg", "hpg+b")}
        assert floors == {method: 1e-12 if method in concerned else None for method in floors}


def test_every_preset_can_be_read() -> None:
    assert "paper" in presets()
    for name in presets():
        assert load_study(name).plans


def test_cells_come_in_the_order_of_the_file() -> None:
    study = small_study(environments=["bit-flipping-4", "bit-flipping-3"], methods=["hpg", "gcpg"], batch_sizes=[8, 2])
    assert [tuple(plan.cell) for plan in study.plans] == [
        (f"bit-flipping-{bits}", size, method) for bits in (4, 3) for size in (8, 2) for method in ("hpg", "gcpg")
    ]


def test_a_part_of_a_table_leaves_the_rest_as_it_was() -> None:
    text = 'environments = ["empty-room"]\nmethods = ["hpg"]\nbatch_sizes = [2]\n[search]\nruns = 3\n'
    (plan,) = parse_study(text, "'mine.toml'", "mine").plans
    assert plan.search == Stage(3, 2500, 25, 256)
    assert plan.definitive == Stage(20, 2200, 22, 256)


def test_overrides_apply_in_order_and_only_where_they_match() -> None:
    changes: dict[str, Any] = {"environments": ["bit-flipping-4", "bit-flipping-3"], "methods": ["hpg", "gcpg"]}
    plans = {tuple(plan.cell)[::2]: plan for plan in small_study(OVERRIDE, **changes).plans}
    found = {
        cell: (plan.choices["learning_rate"], plan.search.runs, plan.definitive.runs, plan.options["hidden_layers"])
        for cell, plan in plans.items()
    }
    assert found == {
        ("bit-flipping-4", "hpg"): ((0.5,), 9, 11, (4, 4)),
        ("bit-flipping-4", "gcpg"): ((1e-3, 1e-2), 9, 11, (4, 4)),
        ("bit-flipping-3", "hpg"): ((0.5,), 7, 4, (16,)),
        ("bit-flipping-3", "gcpg"): ((1e-3, 1e-2), 2, 4, (16,)),
    }


def test_rates_are_sorted_and_whole_numbers_will_do() -> None:
    plan = small_plan(methods=["gcpg+b"], learning_rates=[1, 0.1], baseline_learning_rates=[0.2])
    assert plan.grid == [(("learning_rate", rate), ("baseline_learning_rate", 0.2)) for rate in (0.1, 1.0)]
    assert all(isinstance(rate, float) for choices in plan.grid for _, rate in choices)


def test_no_limit_on_active_goals_is_written_as_zero() -> None:
    assert small_plan(max_active_goals=3).options["max_active_goals"] == 3
    assert small_plan(max_active_goals=0).options["max_active_goals"] is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": ["hpg"]}, "There is no setting 'method'. Did you mean 'methods'?"),
        ({"search": {**STAGE, "run": 3}}, "There is no setting 'run' of [search]. Did you mean 'runs'?"),
        ({"definitive": {"batchs": 3}}, "There is no setting 'batchs' of [definitive]. Did you mean 'batches'?"),
        ({"definitive": {"strategy": "grid"}}, "There is no setting 'strategy' of [definitive]."),
        ({"methods": ["hgp"]}, "There is no method 'hgp'. Did you mean 'hpg'?"),
        ({"environments": ["bit-fliping-4"]}, "Did you mean 'bit-flipping'?"),
        ({"search": {"strategy": "halfing"}}, "There is no search strategy 'halfing'. Did you mean 'halving'?"),
        ({"horizon": "papr"}, "There is no setting 'horizon'."),
        ({"hiden_layers": [3]}, "There is no setting 'hiden_layers'. Did you mean 'hidden_layers'?"),
    ],
)
def test_unknown_names_get_the_nearest_match(changes: dict[str, Any], words: str) -> None:
    message = refused(study_text(**changes))
    assert message.startswith("In 'mine.toml': ")
    assert words in message


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("learning_rat = [1]", "There is no setting 'learning_rat' of an override. Did you mean 'learning_rate'?"),
        ("seed = 3", "There is no setting 'seed' of an override."),
        ('methods = ["hgp"]', "Did you mean 'hpg'?"),
        ("[override.search]\nbatch = 3", "There is no setting 'batch' of [search]. Did you mean 'batches'?"),
        ("search = 3", "search must be a table: [search]."),
        ("batch_sizes = []", "batch_sizes must be a list with at least one entry, not []."),
    ],
)
@pytest.mark.parametrize("environment", ["bit-flipping-4", "four-rooms"])
def test_mistakes_in_an_override_are_found_whether_or_not_it_applies(
    environment: str, override: str, words: str
) -> None:
    message = refused(study_text(f'[[override]]\nenvironments = ["{environment}"]\n{override}\n'))
    assert words in message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"environments": None}, "environments is missing: a study needs environments, methods and batch_sizes."),
        ({"methods": None}, "methods is missing"),
        ({"batch_sizes": None}, "batch_sizes is missing"),
        ({"environments": []}, "environments must be a list with at least one entry, not []."),
        ({"methods": "hpg"}, "methods must be a list with at least one entry, not 'hpg'."),
        ({"methods": [3]}, "methods must be names, not 3."),
        ({"environments": [True]}, "environments must be names, not True."),
        ({"batch_sizes": [2.5]}, "batch_sizes must be whole numbers of at least 1, not 2.5."),
        ({"batch_sizes": [0]}, "batch_sizes must be whole numbers of at least 1, not 0."),
        ({"batch_sizes": [True]}, "batch_sizes must be whole numbers of at least 1, not True."),
        ({"learning_rates": []}, "learning_rate must be a list with at least one value to choose, not []."),
        ({"learning_rates": 1e-3}, "learning_rate must be a list with at least one value to choose, not 0.001."),
        ({"learning_rates": ["fast"]}, "the values of learning_rate must be numbers, not 'fast'."),
        ({"learning_rates": [True]}, "the values of learning_rate must be numbers, not True."),
        ({"learning_rates": [0.1, 0.1]}, "learning_rate names a value twice."),
        (
            {"baseline_learning_rates": []},
            "baseline_learning_rate must be a list with at least one value to choose, not [].",
        ),
        ({"search": 3}, "search must be a table: [search]."),
        ({"override": 3}, "override must be written as tables: [[override]]."),
        ({"override": [3]}, "override must be written as tables: [[override]]."),
        ({"name": ""}, "name must be a word that can name a folder, not ''."),
        ({"name": "a/b"}, "name must be a word that can name a folder, not 'a/b'."),
        ({"name": ".."}, "name must be a word that can name a folder, not '..'."),
        ({"name": 3}, "name must be a word that can name a folder, not 3."),
        ({"methods": ["hpg", "gcpg", "hpg"]}, "'hpg' is named twice."),
        ({"batch_sizes": [8, 8]}, "8 is named twice."),
        ({"environments": ["bit-flipping-8", "bit-flipping"]}, "'bit-flipping-8' is named twice."),
        ({"environments": ["bit-flipping-199"]}, "1 to 120 bits, not 199"),
        ({"environments": ["grid:no-such-map.txt"]}, "The map file 'no-such-map.txt' cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes: dict[str, Any], words: str) -> None:
    message = refused(study_text(**changes))
    assert message.startswith("In 'mine.toml': ")
    assert words in message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"search": {"runs": 0}}, "runs must be a whole number of at least 1, not 0."),
        ({"search": {"runs": 2.5}}, "runs must be a whole number of at least 1, not 2.5."),
        ({"definitive": {"batches": "many"}}, "batches must be a whole number of at least 1, not many."),
        ({"definitive": {"evaluate_every": 0}}, "evaluate_every must be a whole number of at least 1, not 0."),
        ({"learning_rates": [0.1, -0.1]}, "learning_rate must be a finite number above zero, not -0.1."),
        ({"hidden_layers": 16}, "hidden_layers must be a sequence of widths, not 16."),
        ({"hidden_layers": [16, 0]}, "each width in hidden_layers must be a whole number of at least 1, not 0."),
        ({"max_active_goals": -1}, "max_active_goals must be a whole number of at least 1, not -1."),
        ({"episodes_end": "gaol"}, "There is no episodes_end 'gaol'. Did you mean 'goal'? Known: goal, horizon."),
        ({"seed": -1}, "seed must lie between 0 and"),
        ({"seed": 0.5}, "seed must be a whole number, not 0.5."),
        ({"seed": LARGEST_SEED + 1}, f"seed must lie between 0 and {LARGEST_SEED}, not {LARGEST_SEED + 1}."),
        ({"definitive": {"runs": 1_000_001}}, "runs must be at most 1000000, not 1000001."),
    ],
)
def test_what_the_settings_refuse_is_said_with_the_cell(changes: dict[str, Any], words: str) -> None:
    message = refused(study_text(**changes))
    assert message.startswith("In 'mine.toml': For hpg on bit-flipping-4 with batch size 8: ")
    assert words in message


def test_the_cell_is_the_one_with_the_wrong_value() -> None:
    text = study_text('[[override]]\nmethods = ["gcpg+b"]\nbaseline_learning_rates = [-1]\n')
    assert "For gcpg+b on bit-flipping-4 with batch size 8: baseline_learning_rate must be" in refused(text)


@pytest.mark.parametrize("text", ["name = ", "[search", 'name = "a"\nname = "b"', "environments = [1, "])
def test_malformed_files_are_refused(text: str) -> None:
    assert refused(text).startswith("'mine.toml' is not valid TOML: ")


def test_sources_that_are_no_study(tmp_path: Path) -> None:
    assert "Did you mean 'paper'?" in refusal(lambda: load_study("papr"))
    assert refusal(lambda: load_study("no.toml")) == "There is no file no.toml."
    (tmp_path / "picture.toml").write_bytes(b"\xff\xfe\x00")
    message = refusal(lambda: load_study(str(tmp_path / "picture.toml")))
    assert message == f"'{tmp_path / 'picture.toml'}' is not a study: it is not text."
    assert "Is a directory" in refusal(lambda: load_study(str(tmp_path)))


def test_a_file_without_a_name_is_named_after_itself(tmp_path: Path) -> None:
    path = tmp_path / "rates.toml"
    path.write_text(study_text(name=None))
    assert load_study(str(path)) == replace(small_study(), name="rates")


def test_a_map_is_part_of_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("maze.txt").write_text("S.\n..\n")
    study = small_study(environments=["grid:maze.txt", "bit-flipping-4"], methods=["hpg"])
    Path("maze.txt").unlink()
    plan = study.plans[0]
    assert plan.environment == "grid:maze.txt"
    assert plan.specification.build().goal_count == 3
    assert study.narrowed(environments=["grid:maze.txt"]).plans == (plan,)
    content = json.loads(json.dumps(plan.to_json()))
    assert Plan.from_json(plan.cell, content) == plan


def test_a_map_that_cannot_be_used_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "maze.txt").write_text("S#.\n##.\n")
    message = refusal(lambda: small_study(environments=[f"grid:{tmp_path / 'maze.txt'}"]))
    assert "cannot be reached from the start" in message


@pytest.mark.parametrize(
    "study",
    [
        load_study("paper"),
        small_study(OVERRIDE),
        small_study(seed=5, max_active_goals=2, episodes_end="horizon", ended="carry"),
    ],
)
def test_json_gives_the_plan_back(study: Study) -> None:
    for plan in study.plans:
        assert Plan.from_json(plan.cell, json.loads(json.dumps(plan.to_json()))) == plan


def test_excluded_cells_are_left_out() -> None:
    text = study_text() + '[[exclude]]\nmethods = ["gcpg"]\n'
    assert {plan.method for plan in parse_study(text, "'mine.toml'", "mine").plans} == {
        plan.method for plan in small_study().plans
    } - {"gcpg"}
    with pytest.raises(HindsightError, match="every cell is excluded"):
        parse_study(study_text() + "[[exclude]]\n", "'mine.toml'", "mine")
    with pytest.raises(HindsightError, match="Did you mean 'methods'"):
        parse_study(study_text() + '[[exclude]]\nmethod = ["gcpg"]\n', "'mine.toml'", "mine")
