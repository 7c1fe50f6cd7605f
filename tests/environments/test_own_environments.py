"""Users' own environments: named as module:name, or announced by an installed package."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

pytest.importorskip("gymnasium")

from reference.probes import ConstantReward

from hindsight_rl.core import plugins
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.options import described
from hindsight_rl.environments.contract import check_environment
from hindsight_rl.environments.gymnasium.task import GymnasiumTask
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.environments.interface import Environment
from hindsight_rl.environments.registry import (
    ENVIRONMENTS,
    GROUP,
    Specification,
    all_environments,
    find_entry,
    make,
    specify,
)
from hindsight_rl.environments.shapes import require_shapes
from hindsight_rl.rollout.hosted import open_pool

HERE = "environments.own_examples"


def options_of(name: str) -> dict[str, Any]:
    return {one.name: one.default for one in described(find_entry(f"{HERE}:{name}").options)}


@pytest.mark.parametrize(
    ("name", "options", "kind", "horizon", "hosted"),
    [
        ("Hall", {}, "Hall", 5, False),
        ("Hall", {"cells": 9, "side": "right"}, "Hall", 9, False),
        ("Generated", {"cells": 4, "start": 0, "goals": [3], "moves": [1], "horizon": 4}, "Generated", 4, False),
        ("HALL", {}, "Hall", 6, False),
        ("HOSTED", {}, "BitsTask", 4, True),
        ("make_hall", {"cells": 7}, "Hall", 7, False),
        ("make_bits", {"bits": 4}, "BitsTask", 5, True),
        ("make_untold", {"horizon": 8}, "ConstantReward", 8, False),
        ("LimitedLine", {"horizon": 4}, "GymnasiumTask", 4, True),
        ("MADE_LINE", {"horizon": 4}, "GymnasiumTask", 4, True),
        ("make_line", {"horizon": 4, "length": 5}, "GymnasiumTask", 4, True),
        ("make_line_untold", {}, "GymnasiumTask", 10, True),
        ("make_line_untold", {"horizon": 3, "goal_box": True}, "GymnasiumTask", 3, True),
    ],
)
def test_each_kind_is_made_and_survives_a_settings_file(
    name: str, options: dict[str, Any], kind: str, horizon: int, hosted: bool
) -> None:
    reference = f"{HERE}:{name}"
    specification = specify(reference, **options)
    assert specification.id == specification.name == reference
    assert (type(specification.task).__name__, specification.task.horizon) == (kind, horizon)
    assert isinstance(specification.task, HostedTask) == hosted
    assert specification.task is specification.task
    saved = json.loads(json.dumps({"name": specification.name, "options": dict(specification.options)}))
    again = specify(saved["name"], **saved["options"])
    assert again == specification
    assert again.task.horizon == horizon


def test_options_are_those_of_the_signature() -> None:
    assert options_of("Hall") == {"cells": 5, "side": "left"}, "an array is nothing for a settings file"
    assert [(one.name, one.required) for one in described(find_entry(f"{HERE}:make_hall").options)] == [("cells", True)]
    assert options_of("HALL") == {}
    assert options_of("LimitedLine") == {"horizon": None, "goal_box": False, "length": 7}
    assert options_of("make_untold") == {"horizon": 5, "goal_box": False, "length": 3}


def test_rows_say_what_is_known() -> None:
    assert find_entry(f"{HERE}:Hall").summary == "A corridor of one's own."
    assert find_entry(f"{HERE}:make_line").summary == "An environment of your own."
    hosted = {name: find_entry(f"{HERE}:{name}").hosted for name in ("Hall", "make_bits", "make_line", "HOSTED")}
    assert hosted == {"Hall": False, "make_bits": True, "make_line": True, "HOSTED": True}
    assert specify(f"{HERE}:Hall").options_type.__name__ == "HallOptions"


def test_a_horizon_of_its_own_stays_its_own() -> None:
    """Where the maker has a parameter of that name, it is meant."""
    assert make(f"{HERE}:make_untold", horizon=9).horizon == 9


def test_gymnasium_options_reach_the_maker_and_other_processes_can_make_it() -> None:
    task = make(f"{HERE}:LimitedLine", length=5, horizon=4)
    assert isinstance(task, GymnasiumTask)
    assert task.portable
    with open_pool(task, 2, 1) as pool:
        pool.begin([0, 1], [[1, 1], [2, 2]])
        assert pool.slots.goals.shape == (2, 1)
    built: Any = task.source().build()
    assert built.environment.length == 5


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("Hall", {"cells": "five"}, r"^cells must be a whole number of at least 1, not five\.$"),
        ("Hall", {"cells": 0}, r"^cells must be a whole number of at least 1, not 0\.$"),
        ("Hall", {"side": "lefft"}, r"^There is no side 'lefft'\. Did you mean 'left'\?"),
        ("Hall", {"cell": 5}, r"^There is no option 'cell' of environments.own_examples:Hall\. Did you mean 'cells'"),
        ("make_hall", {}, r"^environments.own_examples:make_hall needs the option cells\.$"),
        ("HALL", {"cells": 5}, r"no option 'cells' of environments.own_examples:HALL\. There is none at all\.$"),
        ("Hall", {"cells": 13}, r"^The environment '.*:Hall' cannot be made: ArithmeticError: no corridor\.$"),
        ("Hall", {"cells": 14}, r"^Fourteen cells are one too many\.$"),
        ("Unfinished", {}, r"'.*:Unfinished' cannot be made: TypeError: Can't instantiate abstract class"),
        ("Neither", {}, r"^'.*:Neither' is the class Neither, but an environment is a subclass or an instance of Task"),
        ("NUMBER", {}, r"^'.*:NUMBER' is an object of the type int, but an environment is"),
        ("make_nothing", {}, r"^'.*:make_nothing' made an object of the type list, but an environment is"),
        ("make_lie", {}, r"^'.*:make_lie' made an object of the type list, but an environment is"),
        ("make_task_untold", {"goal_box": True}, r"makes a task, which takes no goal_box: only Gymnasium environments"),
        ("MADE_LINE", {}, r"^The environment 'Line' sets no limit of steps: give a horizon"),
        ("Hal", {}, r"^There is no environment 'Hal' in 'environments.own_examples'\. Did you mean 'Hall'\?"),
    ],
)
def test_what_is_wrong_is_one_sentence(name: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(HindsightError, match=sentence) as caught:
        make(f"{HERE}:{name}", **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("some/thing.py:Thing", "The environment 'some/thing.py:Thing' names a file: write some.thing:Thing, as Py"),
        ("thing.py:Thing", "The environment 'thing.py:Thing' names a file: write thing:Thing, as Python imports it."),
        ("no_such_module:Thing", "There is no module 'no_such_module' for the environment 'no_such_module:Thing'"),
        ("my-module:Thing", "There is no environment 'my-module:Thing'"),
    ],
)
def test_a_module_that_is_not_there(name: str, sentence: str) -> None:
    with pytest.raises(HindsightError, match=sentence):
        specify(name)


def test_a_module_in_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in_this_folder.py").write_text(
        "from reference.probes import ConstantReward\nSTAY = ConstantReward(3)\n"
    )
    (tmp_path / "broken_module.py").write_text("import math\nmath.nonsense\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert make("in_this_folder:STAY").horizon == 3
    with pytest.raises(HindsightError, match="'broken_module:X' cannot be loaded: AttributeError: module 'math'"):
        make("broken_module:X")


def test_gym_and_grid_keep_their_meaning(tmp_path: Path) -> None:
    assert specify("gym:environments.registered_lines:MoodyLine-v0").options["id"].endswith(":MoodyLine-v0")
    assert specify("gym:FetchReach-v4").name == "gym"
    with pytest.raises(HindsightError, match="The map file 'maze' cannot be read"):
        specify("grid:maze")


@pytest.fixture
def announce(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Lets packages that are not there announce environments."""

    def announced(**values: str) -> None:
        entries = [EntryPoint(name.split("__")[0], value, GROUP) for name, value in values.items()]
        monkeypatch.setattr(plugins, "entry_points", lambda group: entries if group == GROUP else [])
        plugins.installed.cache_clear()

    yield announced
    plugins.installed.cache_clear()


def test_an_installed_environment_has_a_name(announce: Any) -> None:
    announce(hall=f"{HERE}:Hall", still=f"{HERE}:make_untold")
    assert list(all_environments()) == [*ENVIRONMENTS, "hall", "still"]
    specification = specify("hall", cells=7)
    assert (specification.id, specification.task.horizon) == ("hall", 7)
    assert Specification("hall", dict(specification.options)) == specification
    assert isinstance(make("still"), ConstantReward)
    with pytest.raises(HindsightError, match=r"no environment 'hal'\. Did you mean 'hall'\?.*four-rooms.*still"):
        specify("hal")


def test_two_packages_that_announce_the_same_name(announce: Any) -> None:
    announce(hall=f"{HERE}:Hall", hall__again=f"{HERE}:HALL")
    with pytest.raises(HindsightError, match=rf"^Two installed packages announce 'hall' in {GROUP}"):
        specify("hall")
    assert specify("bit-flipping-4").task.horizon == 5


def test_a_package_that_announces_a_name_of_ours(announce: Any) -> None:
    announce(grid=f"{HERE}:Hall")
    with pytest.raises(HindsightError, match="announces the environment 'grid', but that name is taken"):
        all_environments()


def test_a_specification_can_be_checked_whole() -> None:
    findings = list(check_environment(specify(f"{HERE}:Hall")))
    assert [one for one in findings if not one.passed] == []
    failed = list(check_environment(specify(f"{HERE}:Hall", cells=13)))
    assert [(one.check, one.passed) for one in failed] == [("can be made", False)]
    assert "no corridor" in failed[0].sentence


def test_the_registry_imports_nothing_heavy() -> None:
    code = "import sys; import hindsight_rl.environments.registry; print('jax' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


class Ring(Environment):
    """Steps to either side; it draws no picture."""

    horizon: int = 6
    action_count: int = 2
    goal_count = 5
    state_limit = None

    def reset(self, key: Any) -> Any:
        return jnp.zeros(1)

    def step(self, state: Any, action: Any, key: Any) -> Any:
        return state + 2 * action - 1

    def observe(self, state: Any) -> Any:
        return state

    def achieved_goal(self, state: Any) -> Any:
        return state

    def sample_goal(self, key: Any) -> Any:
        return jax.random.randint(key, (1,), -2, 3).astype(jnp.float32)

    def goal_probability(self, goal: Any) -> Any:
        return jnp.float32(0.2)

    def reached(self, achieved: Any, goal: Any) -> Any:
        return jnp.all(achieved == goal)

    def reward(self, achieved: Any, goal: Any, time: Any) -> Any:
        return self.reached(achieved, goal).astype(jnp.float32)


def test_an_environment_need_not_draw() -> None:
    require_shapes(Ring())
    assert Ring().render(jnp.zeros(1), jnp.ones(1)) == "achieved [0.], goal [1.]"


@pytest.mark.parametrize(
    ("name", "function", "words"),
    [
        ("observe", lambda self, state: {"place": state}, "observe must give one array, not a dict"),
        ("sample_goal", lambda self, key: jnp.zeros(3), "sample_goal gives float32[3], but achieved_goal gives"),
        ("reached", lambda self, achieved, goal: achieved == goal, "reached must give one value for a goal, not"),
        ("step", lambda self, state, action, key: (state, state), "step gives the state a tuple, but reset gives"),
        ("step", lambda self, state, action, key: jnp.int32(state), "step gives the state int32[1], but reset gives"),
        ("reward", lambda self, achieved, goal, time: 1 / 0, "reward fails: ZeroDivisionError: division by zero"),
    ],
)
def test_functions_that_do_not_fit_together_are_named(name: str, function: Any, words: str) -> None:
    odd = type("Odd", (Ring,), {name: function})
    with pytest.raises(HindsightError) as refused:
        require_shapes(odd())
    assert str(refused.value).startswith(f"In the environment Odd, {words}")


@pytest.mark.parametrize(
    ("count", "words"),
    [
        ({"horizon": 1}, "horizon must be a whole number of at least 2, not 1."),
        ({"action_count": None}, "action_count must be a whole number of at least 1, not None."),
    ],
)
def test_an_episode_has_an_action_to_choose(count: dict[str, Any], words: str) -> None:
    with pytest.raises(HindsightError) as refused:
        require_shapes(type("Odd", (Ring,), {"__annotations__": dict.fromkeys(count, int), **count})())
    assert str(refused.value) == f"In the environment Odd, {words}"
