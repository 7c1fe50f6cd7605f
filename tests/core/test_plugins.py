"""Objects named as `module:name`, and those that installed packages announce."""

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from small_results import refusal

from hindsight_rl.core import plugins
from hindsight_rl.core.plugins import installed, is_reference, load_installed, load_object, require_free
from hindsight_rl.environments.registry import find_entry
from hindsight_rl.estimators.table import find_estimator
from hindsight_rl.methods.registry import find_method

MODULE = """
import sys
from json import dumps
class Things:
    first = 1
    second = 2
ANSWER = 42
_SECRET = 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a module of the user's; what it adds to the path and imports is undone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    (tmp_path / "things_of_mine.py").write_text(MODULE)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("module:name", True),
        ("package.module:name", True),
        ("package.module:Class.attribute", True),
        ("_a1:_b2", True),
        ("module", False),
        ("module:", False),
        (":name", False),
        ("", False),
        ("grid:maps/maze.txt", False),
        ("gym:FetchReach-v4", False),
        ("package..module:name", False),
        ("module:name:more", False),
        ("bit-flipping:8", False),
        ("module: name", False),
    ],
)
def test_what_is_a_reference(name: str, expected: bool) -> None:
    assert is_reference(name) is expected


def test_objects_of_the_current_folder_are_found(here: Path) -> None:
    assert load_object("things_of_mine:ANSWER", "method") == 42
    assert load_object("things_of_mine:Things.second", "method") == 2
    assert load_object("json:dumps", "method")(3) == "3"
    assert sys.path.count(str(here)) == 1


def test_a_module_that_is_not_there(here: Path) -> None:
    assert refusal(lambda: load_object("nowhere_at_all:thing", "method")) == (
        "There is no module 'nowhere_at_all' for the method 'nowhere_at_all:thing': it is neither in this folder nor "
        "installed."
    )
    assert refusal(lambda: load_object("json.nowhere:thing", "environment")) == (
        "There is no module 'json.nowhere' for the environment 'json.nowhere:thing': it is neither in this folder nor "
        "installed."
    )


def test_an_object_that_is_not_in_its_module_gets_the_nearest_match(here: Path) -> None:
    assert refusal(lambda: load_object("things_of_mine:ANSWR", "estimator")) == (
        "There is no estimator 'ANSWR' in 'things_of_mine'. Did you mean 'ANSWER'? Known: Things, ANSWER."
    )
    assert refusal(lambda: load_object("things_of_mine:Things.thrid", "estimator")).endswith(" Known: first, second.")


@pytest.mark.parametrize("name", ["things_of_mine", "things_of_mine.py", "./things_of_mine.py"])
@pytest.mark.parametrize(
    ("find", "kind"), [(find_entry, "environment"), (find_method, "method"), (find_estimator, "estimator")]
)
def test_a_module_without_a_name_in_it(here: Path, find: Callable[[str], object], kind: str, name: str) -> None:
    assert refusal(lambda: find(name)) == (
        f"The {kind} '{name}' names a file: write things_of_mine:NAME, as Python imports it."
    )


@pytest.mark.parametrize(
    ("content", "gist"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("from json import nothing_there", "ImportError: cannot import name 'nothing_there' from 'json'"),
        ("raise RuntimeError", "RuntimeError: no message"),
        ("raise RuntimeError('two\\nlines')", "RuntimeError: two"),
        ("def broken(:", "SyntaxError: "),
    ],
)
def test_a_module_that_raises_is_quoted_in_one_line(here: Path, content: str, gist: str) -> None:
    (here / "broken_of_mine.py").write_text(content + "\n")
    message = refusal(lambda: load_object("broken_of_mine:thing", "method"))
    assert message.startswith(f"The method 'broken_of_mine:thing' cannot be loaded: {gist}")
    assert message.endswith(".")
    assert "\n" not in message


def test_a_module_that_exits_does_not_end_the_program(here: Path) -> None:
    (here / "leaving_of_mine.py").write_text("import sys\nsys.exit(3)\n")
    message = refusal(lambda: load_object("leaving_of_mine:thing", "method"))
    assert message == "The method 'leaving_of_mine:thing' cannot be loaded: SystemExit: 3."


def announce(monkeypatch: pytest.MonkeyPatch, *announced: tuple[str, str]) -> None:
    entries = [EntryPoint(name, value, "pieces") for name, value in announced]
    monkeypatch.setattr(plugins, "entry_points", lambda group: entries if group == "pieces" else [])
    monkeypatch.setattr(plugins, "installed", installed.__wrapped__)  # remembers nothing


def test_installed_pieces_are_loaded_when_asked_for(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    announce(monkeypatch, ("mine", "things_of_mine:ANSWER"), ("other", "never_imported:thing"))
    assert list(plugins.installed("pieces")) == ["mine", "other"]
    assert load_installed("pieces", "mine", "method") == 42
    assert "There is no module 'never_imported'" in refusal(lambda: load_installed("pieces", "other", "method"))


def test_two_packages_cannot_announce_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    announce(monkeypatch, ("mine", "a:thing"), ("mine", "a:thing"))
    assert list(plugins.installed("pieces")) == ["mine"]
    announce(monkeypatch, ("mine", "a:thing"), ("mine", "b:thing"))
    assert refusal(lambda: plugins.installed("pieces")) == (
        "Two installed packages announce 'mine' in pieces: 'a:thing' and 'b:thing'; uninstall one of them, or name the "
        "one you want as module:name."
    )


def test_our_own_names_are_taken() -> None:
    require_free(["mine"], ["hpg"], "method")
    assert refusal(lambda: require_free(["mine", "hpg"], ["hpg"], "method")) == (
        "An installed package announces the method 'hpg', but that name is taken: use module:name for it."
    )
