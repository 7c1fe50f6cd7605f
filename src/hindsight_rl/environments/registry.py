"""Environments by name: `make("bit-flipping", bits=8)`, `make("grid:maze.txt")`, `make("my_module:MyEnvironment")`.

Imports nothing heavy: environments are imported when they are built, and users' own when they are named.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hindsight_rl.core.errors import HindsightError, unknown
from hindsight_rl.core.memory import MOST_BYTES_OF_TEXT
from hindsight_rl.core.numbers import whole_number
from hindsight_rl.core.options import Options, names_of
from hindsight_rl.core.plugins import installed, is_reference, load_installed, load_object, refuse_path, require_free
from hindsight_rl.environments.options import (
    BitFlippingOptions,
    EmptyRoomOptions,
    FetchPushOptions,
    FourRoomsOptions,
    GridOptions,
    GymnasiumOptions,
    MsPacmanOptions,
)

if TYPE_CHECKING:
    from hindsight_rl.environments.interface import Environment, Task

GROUP = "hindsight.environments"
"""The entry points by which installed packages announce environments."""


@dataclass(frozen=True)
class Entry:
    """A row of the registry."""

    build: Callable[..., "Task"]
    summary: str
    options: type[Options]
    suffix: str | None = None
    """The option that a number behind the name sets: `bit-flipping-8` has 8 bits."""
    hosted: bool = False
    """Played by simulators, which may need optional packages. Of a function that does not say what it returns, only the
    task itself tells."""


def _when_called(module: str, function: str) -> Callable[..., "Task"]:
    """A function of this package that is imported when it is called."""
    return lambda **options: getattr(import_module(f"hindsight_rl.environments.{module}"), function)(**options)


ENVIRONMENTS: Mapping[str, Entry] = MappingProxyType(
    {
        "bit-flipping": Entry(
            _when_called("bit_flipping", "BitFlipping"),
            "Toggle one bit at a time to turn zeros into a given string; bit-flipping-8, bit-flipping-16, ...",
            BitFlippingOptions,
            suffix="bits",
        ),
        "empty-room": Entry(
            _when_called("grid_world", "empty_room"),
            "Walk from the upper left corner of an 11x11 room to a given cell; empty-room-20, ...",
            EmptyRoomOptions,
            suffix="size",
        ),
        "four-rooms": Entry(
            _when_called("grid_world", "four_rooms"),
            "Walk from a random corner through doors to a given cell; one action in five is random.",
            FourRoomsOptions,
        ),
        "grid": Entry(
            _when_called("grid_world", "parse_map_file"),
            "A map of your own from a text file ('#' wall, '.' free, 'S' start): grid:maze.txt.",
            GridOptions,
        ),
        "ms-pacman": Entry(
            _when_called("ms_pacman.game", "ms_pacman"),
            "Walk Ms. Pac-man through her maze to a given cell, seeing the screen (Atari emulator).",
            MsPacmanOptions,
            hosted=True,
        ),
        "fetch-push": Entry(
            _when_called("fetch_push", "fetch_push"),
            "Push a block over a table to a given place with a robot arm, eight actions (MuJoCo).",
            FetchPushOptions,
            hosted=True,
        ),
        "gym": Entry(
            _when_called("gymnasium.task", "gymnasium_by_id"),
            "Any Gymnasium goal environment by its id, discrete or continuous: gym:FetchReach-v4.",
            GymnasiumOptions,
            hosted=True,
        ),
    }
)


def find_entry(name: str) -> Entry:
    """The row of an environment: one of the package's own, an installed one, or that of an object `module:name`."""
    if name in ENVIRONMENTS:
        return ENVIRONMENTS[name]
    if is_reference(name):
        return _entry_of(load_object(name, "environment"), name)
    announced = _announced()
    if name not in announced:
        refuse_path(name, "environment")
        if re.search(r"-v\d+$", name):
            raise HindsightError(f"There is no environment '{name}'. Gymnasium's have gym: before them: gym:{name}.")
        raise unknown("environment", name, [*ENVIRONMENTS, *announced])
    return _entry_of(load_installed(GROUP, name, "environment"), name)


def all_environments() -> Mapping[str, Entry]:
    """The package's own environments and the installed ones, by name."""
    return {**ENVIRONMENTS, **{name: find_entry(name) for name in _announced()}}


def _announced() -> list[str]:
    names = list(installed(GROUP))
    require_free(names, ENVIRONMENTS, "environment")
    return names


def _entry_of(found: Any, name: str) -> Entry:
    from hindsight_rl.environments.own import own_entry  # which needs JAX

    return own_entry(found, name)


@dataclass(frozen=True)
class Specification:
    """All that it takes to build an environment again, fit for a settings file."""

    name: str
    options: Mapping[str, Any]
    label: str = field(default="", compare=False)
    """What a map is called: as its file was, which may be called otherwise by now."""

    @property
    def id(self) -> str:
        """A short name, the paper's where the paper has one: `bit-flipping-8`, `empty-room`, `four-rooms`."""
        if self.name == "gym":
            return f"gym:{self.options['id']}"
        if self.label:
            return f"{self.name}:{self.label}"
        suffix = ENVIRONMENTS[self.name].suffix if self.name in ENVIRONMENTS else None
        if suffix is None or (self.name != "bit-flipping" and dict(self.options) == _values(self.options_type())):
            return self.name
        return f"{self.name}-{self.options[suffix]}"

    def to_json(self) -> dict[str, Any]:
        """Fit for a file."""
        label = {"label": self.label} if self.label else {}
        return {"name": self.name, "options": dict(self.options), **label}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Specification":
        """The inverse of `to_json`."""
        label = {"label": content["label"]} if content.get("label") else {}
        return specify(content["name"], **content["options"], **label)

    @property
    def options_type(self) -> type[Options]:
        """What can be chosen of it."""
        return find_entry(self.name).options

    @cached_property
    def task(self) -> "Task":
        """The environment itself, built when it is first asked for."""
        return self.build()

    def build(self) -> "Task":
        """The environment anew."""
        return find_entry(self.name).build(**self.options)


def parted(name: str) -> tuple[str, dict[str, Any]]:
    """The entry that a name means, and the options that it sets: `grid:PATH`, `gym:ID` and `bit-flipping-8` set one."""
    for prefix, option in (("grid", "map"), ("gym", "id")):
        if name.startswith(f"{prefix}:"):
            return prefix, {option: name.removeprefix(f"{prefix}:")}
    sized = re.fullmatch(r"(?P<base>.*?)-(?P<size>\d+)", name)
    size = whole_number(sized["size"]) if sized else None
    if sized and size is not None and (entry := ENVIRONMENTS.get(sized["base"])) and entry.suffix:
        return sized["base"], {entry.suffix: size}
    return name, {}


def map_label(path: str) -> str:
    """What the map in a file is called: by the file's name, in characters that any name may have."""
    return re.sub(r"[^\w.+-]+", "-", Path(path).stem)[:60]


def specify(name: str, **options: Any) -> Specification:
    """Complete a name and options as `make` takes them; the file of a map is read here."""
    whole, (name, said) = name, parted(name)
    for option in said.keys() & options.keys():
        raise HindsightError(f"'{whole}' already {'names a map' if option == 'map' else f'sets {option}'}.")
    options = {**said, **options}
    kind = find_entry(name).options
    label = ""
    if name == "grid":
        label = map_label(str(options.pop("label", "")))
        if "map" in options:
            path = options.pop("map")
            options, label = {"text": _read_map(path), **options}, label or map_label(path)
    if name == "grid" and options.get("text") is None:
        raise HindsightError("The environment 'grid' needs a map file: grid:PATH.")
    if name == "gym" and not options.get("id"):
        raise HindsightError("The environment 'gym' needs the id of a Gymnasium environment: gym:FetchReach-v4.")
    return Specification(name, _values(kind.read(options, name)), label)


def _values(options: Options) -> dict[str, Any]:
    return {name: getattr(options, name) for name in names_of(type(options))}


def make(name: str, **options: Any) -> "Task":
    """Build an environment by name.

    A number behind the name sets the size (`bit-flipping-16`), a path behind `grid:` names the map file, and
    `module:name` an environment of your own.

    >>> make("bit-flipping", bits=8).horizon
    9
    """
    return specify(name, **options).build()


def make_compiled(name: str, **options: Any) -> "Environment":
    """As `make`, for what only a compiled environment can do."""
    return require_compiled(make(name, **options), name)


def require_compiled(task: "Task", name: str) -> "Environment":
    """The environment, unless it is a hosted one."""
    from hindsight_rl.environments.interface import Environment

    if not isinstance(task, Environment):
        raise HindsightError(f"'{name}' is played by a simulator, but this needs an environment that compiles.")
    return task


def _read_map(path: str) -> str:
    try:
        if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):
            raise HindsightError(f"The map file '{path}' is not a regular file.")  # a pipe or device may never end
        if (size := Path(path).stat().st_size) > MOST_BYTES_OF_TEXT:
            raise HindsightError(f"The map file '{path}' has {size:,} bytes, and no map has so many.")
        return Path(path).read_text()
    except OSError as error:
        raise HindsightError(f"The map file '{path}' cannot be read: {error.strerror}.") from None
    except HindsightError:
        raise
    except ValueError:  # nor is a path that holds a zero
        raise HindsightError(f"The map file '{path}' is not text.") from None
