"""Users' own environments, methods and estimators, from a file outside of the package: trained, studied, reported."""

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars
import pytest
from small_jobs import sentence
from tensorboardX.proto.event_pb2 import Event

from hindsight_rl.cli import main
from hindsight_rl.experiments.study.files import load_study

pytestmark = pytest.mark.usefixtures("compiled_programs", "quick_compilation")

PIECES = '''
"""An environment, a method and an estimator of somebody's own."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

import hindsight_rl
from hindsight_rl.core.options import Rate, Share
from hindsight_rl.environments.interface import remaining_time_reward


class Line(hindsight_rl.Environment):
    """Step left or right on a line to a given spot."""

    spots: int
    horizon: int
    action_count: int = 2

    def __init__(self, spots: int = 5):
        self.spots, self.horizon = spots, spots + 1

    @property
    def goal_count(self):
        return self.spots

    @property
    def state_limit(self):
        return self.spots

    def reset(self, key):
        return jnp.int32(0)

    def step(self, state, action, key):
        return jnp.clip(state + 2 * action - 1, 0, self.spots - 1)

    def observe(self, state):
        return jax.nn.one_hot(state, self.spots)

    def achieved_goal(self, state):
        return jax.nn.one_hot(state, self.spots)

    def sample_goal(self, key):
        return jax.nn.one_hot(jax.random.randint(key, (), 0, self.spots), self.spots)

    def goal_probability(self, goal):
        return jnp.float32(1 / self.spots)

    def reached(self, achieved, goal):
        return jnp.all(achieved == goal)

    def reward(self, achieved, goal, time):
        return remaining_time_reward(self.reached(achieved, goal), time, self.horizon)

    def render(self, state, goal):
        return "".join("A" if spot == state else "." for spot in range(self.spots))


class Impure(Line):
    """Forgets that the same key must give the same state."""

    def reset(self, key):
        import random

        return jnp.int32(random.randrange(self.spots))


@dataclass(frozen=True)
class TableOptions(hindsight_rl.Options):
    """A table of preferences."""

    learning_rate: Rate = 0.5
    """Step size of the preferences."""
    boldness: Share = 0.5
    """How much of the greedy action there is in exploration."""


def make_table(task, options):
    """Prefers actions that led to the goal, whatever the state: enough for a line."""

    def init(key):
        return jnp.zeros((task.goal_count, task.action_count))

    def values(state, goals):
        return goals @ state

    def explore(state, observations, goals, time, key):
        greedy = jax.nn.one_hot(jnp.argmax(values(state, goals), axis=1), task.action_count)
        chances = options.boldness * greedy + (1 - options.boldness) / task.action_count
        actions = jax.random.categorical(key, jnp.log(chances))
        return actions, jnp.log(jnp.take_along_axis(chances, actions[:, None], axis=1)[:, 0])

    def exploit(state, observations, goals, time):
        return jnp.argmax(values(state, goals), axis=1)

    def update(state, episodes, rates, key):
        reached = jax.vmap(task.reached)(episodes.achieved_goals[:, -1], episodes.pursued_goals)
        taken = jnp.mean(jax.nn.one_hot(episodes.actions, task.action_count), axis=1)
        credit = jnp.where(reached[:, None], taken, 0)
        change = jnp.einsum("eg,ea->ga", episodes.pursued_goals, credit)
        after = state + rates["learning_rate"] * change
        return hindsight_rl.Update(after, jnp.int32(0), {"preference": jnp.max(after), "surprise": jnp.float32(2)})

    class Greedy:
        def __init__(self, state):
            self.state = state

        def act(self, observation, goal, time=0):
            return exploit(self.state, observation[None], goal[None], time)[0]

    jax.tree_util.register_pytree_node(Greedy, lambda one: ((one.state,), None), lambda _, parts: Greedy(*parts))
    return hindsight_rl.Agent(init, explore, exploit, update, Greedy)


table = hindsight_rl.Method("A table of preferences.", TableOptions, make_table)


def fails(task, options):
    raise RuntimeError("no luck today")


unlucky = hindsight_rl.Method("Raises when it is made.", TableOptions, fails)
misnamed = hindsight_rl.Method("Names a rate that it has not.", TableOptions, make_table, rates=("speed",))


@dataclass(frozen=True)
class SeedOptions(hindsight_rl.Options):
    seed: int = 3


clash = hindsight_rl.Method("Has an option of the run's.", SeedOptions, make_table, rates=())


def sum_of_rewards(given):
    return given.rewards / given.rewards.shape[0]


immediate = hindsight_rl.Estimator("only the next reward", "pursued", sum_of_rewards)
'''

SMALL = ["--batch-size", "4", "--batches", "8", "--evaluate-every", "4", "--evaluation-episodes", "16"]

STUDY = """
environments = ["pieces:Line"]
methods = ["pieces:table", "hpg"]
batch_sizes = [4]
spots = 4
hidden_layers = [8]
learning_rates = [0.5]
definitive = { runs = 2, batches = 4, evaluate_every = 2, evaluation_episodes = 16 }

[search]
strategy = "grid"
runs = 1
batches = 4
evaluate_every = 2
evaluation_episodes = 16
options.boldness = [0.25, 0.75]
"""


@pytest.fixture(autouse=True)
def pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the file, in which the commands run; its module is forgotten afterwards."""
    (tmp_path / "pieces.py").write_text(PIECES)
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield tmp_path
    sys.modules.pop("pieces", None)
    sys.path[:] = path


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    return sentence(capsys.readouterr().err)


def table_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def event_tags(folder: Path) -> set[str]:
    tags = set()
    for path in folder.rglob("events*"):
        content = path.read_bytes()
        while content:
            length = int.from_bytes(content[:8], "little")
            event = Event.FromString(content[12 : 12 + length])
            tags |= {value.tag for value in event.summary.value}
            content = content[16 + length :]
    return tags


def test_own_environment_and_method_on_the_command_line(pieces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["pieces:Line", "--method", "pieces:table", "--spots", "4", "--boldness", "0.25"]
    main(["train", *chosen, *SMALL, "--tensorboard", "--output", "run"])
    settings = json.loads((pieces / "run" / "settings.json").read_text())
    assert settings["environment"] == {"name": "pieces:Line", "options": {"spots": 4}}
    assert settings["method"] == {"name": "pieces:table", "options": {"learning_rate": 0.5, "boldness": 0.25}}
    rows = table_of(pieces / "run" / "evaluations.csv")
    assert [row["surprise"] for row in rows] == ["", "2.0", "2.0"]
    assert {"return", "success_rate", "steps", "preference", "surprise"} <= event_tags(pieces / "run" / "tensorboard")
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["evaluate", "run", "--episodes", "8", "--json"])
    refused = "'run' names code that would be imported and run (pieces:Line, pieces:table): "
    assert refused + "add --trust if you trust whoever made this folder." in capsys.readouterr().err
    main(["evaluate", "run", "--episodes", "8", "--json", "--trust"])
    assert json.loads(capsys.readouterr().out)["environment"] == "pieces:Line"
    main(["render", "run", "--episodes", "1", "--trust"])
    assert (pieces / "run" / "policy.gif").exists()
    main(["train", *chosen, *SMALL, "--batches", "12", "--resume", "--output", "run"])
    assert [row["batch"] for row in table_of(pieces / "run" / "evaluations.csv")] == ["0", "4", "8", "12"]


def test_own_estimator_is_trained_with_and_measured(pieces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    estimator = ["--method", "policy-gradient", "--estimator", "pieces:immediate", "--hidden-layers", "8"]
    main(["train", "bit-flipping-3", *estimator, *SMALL, "--output", "run"])
    assert json.loads((pieces / "run" / "summary.json").read_text())["settings"]["estimator"] == "pieces:immediate"
    capsys.readouterr()
    few = ["--batch-sizes", "2", "--samples", "4", "--hidden-layers", "4", "--episodes-end", "goal", "--json"]
    main(["gradients", "bit-flipping-3", "--estimators", "pieces:immediate", "gcpg", *few])
    found = json.loads(capsys.readouterr().out)["measurements"]
    assert [one["setup"]["estimator"] for one in found] == ["pieces:immediate", "gcpg"]


def test_a_study_searches_an_option_of_their_own_and_reports_their_metrics(pieces: Path) -> None:
    (pieces / "study.toml").write_text(STUDY)
    main(["study", "run", "study.toml", "--output", "study", "--tensorboard"])
    main(["study", "export", "study", "--output", "tidy.csv"])
    main(["study", "export", "study", "--output", "tidy.parquet"])
    rows = [row for row in table_of(pieces / "tidy.csv") if row["method"] == "pieces:table"]
    assert {row["boldness"] for row in rows if row["stage"] == "search"} == {"0.25", "0.75"}
    assert len({row["boldness"] for row in rows if row["stage"] == "definitive"}) == 1
    assert {row["surprise"] for row in rows} == {"", "2.0"}
    table = polars.read_parquet(pieces / "tidy.parquet")
    assert {"boldness", "preference", "surprise", "steps"} <= set(table.columns)
    assert table.filter(polars.col("method") == "hpg")["surprise"].is_null().all()
    assert {"preference", "surprise"} <= event_tags(pieces / "study" / "tensorboard")
    main(["study", "report", "study"])
    page = (pieces / "study" / "report" / "report.html").read_text()
    assert "surprise" in page
    assert "boldness" in page
    figures = [path.name for path in (pieces / "study" / "report" / "figures").glob("metric-*.png")]
    assert any("preference" in name for name in figures)


def test_check_of_an_own_environment(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "pieces:Line"])
    assert "checks passed" in capsys.readouterr().out
    assert refusal(capsys, "check", "pieces:Impure").startswith("pieces:Impure breaks its contract: ")


def test_what_a_maker_must_be_told_is_a_flag_of_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hall = "environments.own_examples:make_hall"
    assert refusal(capsys, "check", hall) == f"{hall} needs the option cells."
    assert refusal(capsys, "train", hall) == f"{hall} needs the option cells."
    assert "Did you mean '--cells'?" in refusal(capsys, "check", hall, "--cell", "7")
    main(["check", hall, "--cells", "7"])
    assert "A horizon of 7 states" in capsys.readouterr().out
    main(["train", hall, "--cells", "7", "--method", "hpg", "--print-config"])
    Path("hall.toml").write_text(capsys.readouterr().out)
    main(["train", "--config", "hall.toml", "--print-config"])
    assert capsys.readouterr().out == Path("hall.toml").read_text()
    Path("study.toml").write_text(f'environments = ["{hall}"]\nmethods = ["hpg"]\nbatch_sizes = [2]\ncells = 7\n')
    (plan,) = load_study("study.toml").plans
    assert (plan.environment, dict(plan.specification.options)) == (hall, {"cells": 7})


def test_check_takes_the_options_of_our_environments_too(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "four-rooms", "--slip", "0.5", "--seed", "1"])
    assert "checks passed" in capsys.readouterr().out
    assert "slip" in refusal(capsys, "check", "four-rooms", "--slip", "2")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pieces:Lime"], "There is no environment 'Lime' in 'pieces'. Did you mean 'Line'?"),
        (["no_pieces:Line"], "There is no module 'no_pieces'"),
        (["pieces:PIECE"], "There is no environment 'PIECE' in 'pieces'."),
        (["pieces:Line", "--spots", "many"], "--spots"),
        (["pieces:Line", "--boldness", "0.5"], "There is no setting '--boldness' of hppo on pieces:Line."),
        (
            ["bit-flipping-3", "--method", "pieces:tabel"],
            "no method 'tabel' in 'pieces'. Did you mean 'table'?",
        ),
        (["bit-flipping-3", "--method", "pieces:Line"], "'pieces:Line' is no method"),
        (
            ["bit-flipping-3", "--method", "pieces:table", "--boldness", "2"],
            "boldness must be a number from 0 to 1",
        ),
        (
            ["bit-flipping-3", "--method", "pieces:unlucky"],
            "cannot be made for this environment: RuntimeError",
        ),
        (["bit-flipping-3", "--method", "pieces:misnamed"], "'pieces:misnamed' names 'speed' as a rate or choice"),
        (["bit-flipping-3", "--method", "pieces:clash"], "has an option 'seed', which is a setting of every run."),
        (
            ["bit-flipping-3", "--method", "policy-gradient", "--estimator", "pieces:table"],
            "pieces:table",
        ),
        (["bit-flipping-3", "--method", "policy-gradient", "--estimator", "wieghted"], "Did you mean 'weighted'?"),
        (
            ["bit-flipping-3", "--method", "policy-gradient", "--estimator", "gcpg", "--normaliser-floor", "0.1"],
            "The estimator 'gcpg' normalises no ratios, so that normaliser_floor means nothing to it",
        ),
    ],
)
def test_mistakes_are_sentences(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    message = refusal(capsys, "train", *arguments, *SMALL, "--output", "run")
    assert words in message
    assert not Path("run").exists()


def test_two_methods_with_one_name(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed packages are stood in for by their entry points alone, which is all that is read of them."""
    from importlib.metadata import EntryPoint

    from hindsight_rl.core import plugins

    group = "hindsight.methods"
    ours, theirs = (EntryPoint("mine", value, group) for value in ("pieces:table", "pieces:unlucky"))
    monkeypatch.setattr(plugins, "entry_points", lambda group: [ours, theirs] if group == "hindsight.methods" else [])
    plugins.installed.cache_clear()
    message = refusal(capsys, "train", "bit-flipping-3", "--method", "mine")
    assert "Two installed packages announce 'mine'" in message
    monkeypatch.setattr(plugins, "entry_points", lambda group: [ours] if group == "hindsight.methods" else [])
    plugins.installed.cache_clear()
    main(["train", "pieces:Line", "--method", "mine", *SMALL, "--output", "run"])
    main(["methods"])
    assert "mine" in capsys.readouterr().out
    taken = EntryPoint("hpg", "pieces:table", group)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [taken] if group == "hindsight.methods" else [])
    plugins.installed.cache_clear()
    assert "announces the method 'hpg', but that name is taken" in refusal(capsys, "methods")
    monkeypatch.undo()
    plugins.installed.cache_clear()


def test_settings_from_a_file(pieces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["pieces:Line", "--method", "pieces:table", "--spots", "4", *SMALL]
    main(["train", *arguments, "--print-config"])
    text = capsys.readouterr().out
    (pieces / "job.toml").write_text(text)
    main(["train", "--config", "job.toml", "--print-config"])
    assert capsys.readouterr().out == text
    main(["train", *arguments, "--output", "flags"])
    main(["train", "--config", "job.toml", "--output", "file"])
    flags, file = (
        np.loadtxt(pieces / name / "evaluations.csv", delimiter=",", skiprows=2) for name in ("flags", "file")
    )
    np.testing.assert_array_equal(flags, file)
    main(["train", "--config", "job.toml", "--boldness", "0.9", "--print-config"])
    assert "boldness = 0.9" in capsys.readouterr().out
    (pieces / "job.toml").write_text(text.replace("boldness", "coldness"))
    assert "'coldness'" in refusal(capsys, "train", "--config", "job.toml", "--output", "run")
