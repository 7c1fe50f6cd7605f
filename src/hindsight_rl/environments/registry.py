"""Environments by name: `make("bit-flipping", bits=8)`, `make("four-rooms")`, `make("grid:maze.txt")`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hindsight_rl.core.errors import HindsightError, unknown
from hindsight_rl.environments.bit_flipping import BitFlipping
from hindsight_rl.environments.extras import import_ale, import_robotics
from hindsight_rl.environments.grid_world import empty_room, four_rooms, parse_map_file
from hindsight_rl.environments.interface import Environment, Task


@dataclass(frozen=True)
class Entry:
    """A row of the registry."""

    build: Callable[..., Task]
    summary: str
    options: Mapping[str, Any]
    """The options that `make` takes for this environment, each with its default (None where one must be given)."""
    suffix: str | None = None
    """The option that a number behind the name sets: `bit-flipping-8` has 8 bits."""
    hosted: bool = False
    """Played by simulators, which may need optional packages."""


def _ms_pacman() -> Task:
    from hindsight_rl.environments.hosted import HostedEnvironment
    from hindsight_rl.environments.ms_pacman import MsPacmanTask

    import_ale()  # says what is missing before anything is written
    return HostedEnvironment(MsPacmanTask())


def _fetch_push() -> Task:
    from hindsight_rl.environments.fetch_push import FetchPushTask
    from hindsight_rl.environments.hosted import HostedEnvironment

    import_robotics()
    return HostedEnvironment(FetchPushTask())


def _gymnasium(id: str, horizon: int | None, goal_box: bool = False) -> Task:
    from hindsight_rl.environments.gymnasium_task import gymnasium_task
    from hindsight_rl.environments.hosted import HostedEnvironment

    return HostedEnvironment(gymnasium_task(id, horizon, goal_probability="box" if goal_box else None))


ENVIRONMENTS: Mapping[str, Entry] = MappingProxyType(
    {
        "bit-flipping": Entry(
            BitFlipping,
            "Toggle one bit at a time to turn zeros into a given string; bit-flipping-8, bit-flipping-16, ...",
            {"bits": 8},
            suffix="bits",
        ),
        "empty-room": Entry(
            empty_room,
            "Walk from the upper left corner of an 11x11 room to a given cell; empty-room-20, ...",
            {"size": 11},
            suffix="size",
        ),
        "four-rooms": Entry(
            four_rooms,
            "Walk from a random corner through doors to a given cell; one action in five is random.",
            {"slip": 0.2},
        ),
        "grid": Entry(
            parse_map_file,
            "A map of your own from a text file ('#' wall, '.' free, 'S' start): grid:maze.txt.",
            {"text": None},
        ),
        "ms-pacman": Entry(
            _ms_pacman,
            "Walk Ms. Pac-man through her maze to a given cell, seeing the screen (Atari emulator).",
            {},
            hosted=True,
        ),
        "fetch-push": Entry(
            _fetch_push,
            "Push a block over a table to a given place with a robot arm, eight actions (MuJoCo).",
            {},
            hosted=True,
        ),
        "gym": Entry(
            _gymnasium,
            "Any Gymnasium goal environment by its id, discrete or continuous: gym:FetchReach-v4.",
            {"id": None, "horizon": None, "goal_box": False},
            hosted=True,
        ),
    }
)


@dataclass(frozen=True)
class Specification:
    """All that it takes to build an environment again, fit for a settings file."""

    name: str
    options: Mapping[str, Any]

    @property
    def id(self) -> str:
        """A short name, the paper's where the paper has one: `bit-flipping-8`, `empty-room`, `four-rooms`."""
        entry = ENVIRONMENTS[self.name]
        if self.name == "gym":
            return f"gym:{self.options['id']}"
        if entry.suffix is None or (self.name != "bit-flipping" and dict(self.options) == dict(entry.options)):
            return self.name
        return f"{self.name}-{self.options[entry.suffix]}"

    def build(self) -> Task:
        """The environment itself."""
        return ENVIRONMENTS[self.name].build(**self.options)


def specify(name: str, **options: Any) -> Specification:
    """Complete a name and options as `make` takes them; the file of a map is read here."""
    if name.startswith("grid:"):
        if "map" in options:
            raise HindsightError(f"'{name}' already names a map.")
        name, options = "grid", {"map": name.removeprefix("grid:"), **options}
    if name.startswith("gym:"):
        name, options = "gym", {"id": name.removeprefix("gym:"), **options}
    sized = re.fullmatch(r"(?P<base>.*?)-(?P<size>\d+)", name)
    if sized and (entry := ENVIRONMENTS.get(sized["base"])) and entry.suffix:
        if entry.suffix in options:
            raise HindsightError(f"'{name}' already sets {entry.suffix}.")
        name, options = sized["base"], {entry.suffix: int(sized["size"]), **options}
    if name not in ENVIRONMENTS:
        raise unknown("environment", name, ENVIRONMENTS)
    if name == "grid" and "map" in options:
        path = options.pop("map")
        options = {"text": _read_map(path), **options}
    known = ENVIRONMENTS[name].options
    for option in options:
        if option not in known:
            raise unknown(f"option of {name}", option, known)
    complete = {**known, **options}
    if name == "grid" and complete["text"] is None:
        raise HindsightError("The environment 'grid' needs a map file: grid:PATH.")
    if name == "gym" and not complete["id"]:
        raise HindsightError("The environment 'gym' needs the id of a Gymnasium environment: gym:FetchReach-v4.")
    return Specification(name, complete)


def make(name: str, **options: Any) -> Task:
    """Build an environment by name.

    A number behind the name sets the size (`bit-flipping-16`), a path behind `grid:` names the map file.

    >>> make("bit-flipping", bits=8).horizon
    9
    """
    return specify(name, **options).build()


def make_compiled(name: str, **options: Any) -> Environment:
    """As `make`, for what only a compiled environment can do."""
    return require_compiled(make(name, **options), name)


def require_compiled(task: Task, name: str) -> Environment:
    """The environment, unless it is a hosted one."""
    if not isinstance(task, Environment):
        raise HindsightError(f"'{name}' is played by a simulator, but this needs an environment that compiles.")
    return task


def _read_map(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise HindsightError(f"The map file '{path}' cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise HindsightError(f"The map file '{path}' is not text.") from None
