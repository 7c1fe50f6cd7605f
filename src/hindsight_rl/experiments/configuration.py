"""One tree of settings: the run's, the environment's, the method's. Names in, a job out; and a job as TOML.

Command line, TOML files, studies and Python all come through here, so that a name means the same everywhere.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from hindsight_rl.core.errors import HindsightError, unknown
from hindsight_rl.core.memory import MOST_BYTES_OF_TEXT
from hindsight_rl.core.numbers import is_positive_integer
from hindsight_rl.core.options import Option, described, names_of
from hindsight_rl.core.plugins import is_reference
from hindsight_rl.core.run import RunSettings, translated
from hindsight_rl.environments.registry import (
    ENVIRONMENTS,
    Specification,
    all_environments,
    find_entry,
    parted,
    specify,
)
from hindsight_rl.experiments.definition import Job
from hindsight_rl.experiments.paper import default_values
from hindsight_rl.methods.registry import all_methods, find_method
from hindsight_rl.records.files import read_bytes, read_toml
from hindsight_rl.training.settings import DEFAULT_METHOD, Settings, make_settings, methods_with

SECTIONS = ("environment", "method", "run")
MAP = Option("map", str | None, None, False, "The map file: lines of '#' (wall), '.' (free) and 'S' (start).")
"""Stands for the text of a grid's map, which is what its specification holds."""


class Names(NamedTuple):
    """Where each setting of an environment and a method belongs."""

    run: tuple[Option, ...]
    environment: tuple[Option, ...]
    method: tuple[Option, ...]

    @property
    def all(self) -> list[str]:
        """Every name."""
        return [one.name for group in self for one in group]


def names(environment: str, method: str) -> Names:
    """The settings that an environment and a method have."""
    known = Names(described(RunSettings), settable(environment), find_method(method).visible)
    elsewhere = {one.name for group in (known.run, known.method) for one in group}
    for one in known.environment:
        if one.name in elsewhere:
            raise HindsightError(
                f"The environment '{environment}' has an option '{one.name}', which is also a setting of the run or of "
                f"{method}: rename it."
            )
    return known


def settable(environment: str) -> tuple[Option, ...]:
    """An environment's options but for those that its name sets."""
    name, said = parted(environment)
    options = (*described(find_entry(name).options), *([MAP] if name == "grid" else []))
    by_name = [one.name for one in options if one.required and name in ENVIRONMENTS]
    return tuple(one for one in options if one.name not in (*by_name, *said))


def resolve(environment: str, given: Mapping[str, Any], notice: Callable[[str], None] = lambda line: None) -> Job:
    """The job that a user means: what is not given has the paper's value, or else its default."""
    given = translated(given, notice)
    method = given.get("method", DEFAULT_METHOD)
    if not isinstance(method, str):
        raise HindsightError(f"method must be a name, not {method!r}.")
    known = names(environment, method)
    own = {*names_of(find_entry(parted(environment)[0]).options), *(one.name for one in known.environment)}
    own |= {"label"} if parted(environment)[0] == "grid" else set()
    specification = specify(environment, **{name: value for name, value in given.items() if name in own})
    settings = {name: value for name, value in given.items() if name not in own}
    for name in settings:
        if name != "method" and name not in known.all:
            raise refused(name, environment, method, known)
    return Job(specification, complete(specification.id, settings))


def complete(environment: str, given: Mapping[str, Any]) -> Settings:
    """Settings in which what is not given has the paper's value for an environment, or else its default."""
    method = given.get("method", DEFAULT_METHOD)
    size, batches = given.get("batch_size", RunSettings().batch_size), given.get("batches")
    if not isinstance(method, str) or not is_positive_integer(size):
        return make_settings(given)  # says what is wrong with it
    defaults = default_values(environment, method, size, batches if is_positive_integer(batches) else None)
    return make_settings({**defaults, **given, "method": method})


def refused(name: str, environment: str, method: str, known: Names, spelled: str | None = None) -> HindsightError:
    """The error for a setting that neither the method nor the environment has: who has it, or the nearest match.

    `spelled` is how the user wrote it, if not so.
    """
    spell = (lambda one: f"--{one.replace('_', '-')}") if spelled else (lambda one: one)
    meant = name if owners(name) else next(iter(get_close_matches(name, [*known.all, *_elsewhere()], 1, 0.8)), "")
    if not meant or meant in known.all:
        return unknown(f"setting of {method} on {environment}", spell(name), map(spell, known.all))
    whose = method if methods_with(meant) else environment
    found = ", ".join(owners(meant)) + (" has" if len(owners(meant)) == 1 else " have")
    if meant == name:
        return HindsightError(f"{whose} has no option '{spell(name)}'; {found} it.")
    return HindsightError(f"{whose} has no option '{spell(name)}'. Did you mean '{spell(meant)}', which {found}?")


def owners(option: str) -> list[str]:
    """The methods that have an option, or else the environments."""
    environments = [one for one, entry in all_environments().items() if option in names_of(entry.options)]
    return methods_with(option) or environments


def _elsewhere() -> list[str]:
    """The options of all methods and environments."""
    methods = [one.name for row in all_methods().values() for one in row.visible]
    return methods + [name for entry in all_environments().values() for name in names_of(entry.options)]


def read_configuration(path: Path) -> dict[str, Any]:
    """The settings in a TOML file by name, `environment` among them."""
    try:
        text = read_bytes(path, MOST_BYTES_OF_TEXT).decode()
    except UnicodeDecodeError as error:
        raise HindsightError(f"'{path}' is not valid TOML: {error}.") from None
    content = read_toml(text, f"'{path}'")
    found: dict[str, Any] = {}
    for name, value in content.items():
        section = value if isinstance(value, dict) else {name: value}
        if isinstance(value, dict) and name not in SECTIONS:
            raise unknown(f"section in '{path}'", name, SECTIONS)
        for key, inner in section.items():
            key = name if key == "name" and isinstance(value, dict) else key
            if key in found:
                raise HindsightError(f"'{path}' sets '{key}' twice.")
            found[key] = inner
    for key in ("environment", "method"):
        if not isinstance(found.get(key, ""), str):
            raise HindsightError(f"'{path}': {key} must be a name, not {found[key]}.")
    return found


def to_toml(job: Job) -> str:
    """A job as a file that `read_configuration` reads."""
    sections = {
        "environment": {"name": _spelled(job.environment), **_free_options(job.environment)},
        "method": {"name": job.settings.method, **job.settings.method_options},
        "run": job.settings.run,
    }
    lines: list[str] = []
    for title, values in sections.items():
        lines += [f"[{title}]", *_assignments(values), ""]
    return "\n".join(lines)


def _assignments(values: Mapping[str, Any]) -> Iterable[str]:
    return [f"{name} = {toml_value(value)}" for name, value in values.items() if value is not None]


def toml_value(value: Any) -> str:
    """A value as TOML spells it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        escaped = escaped.replace("\n", "\\n")
        return '"' + "".join(one if one >= " " else f"\\u{ord(one):04x}" for one in escaped) + '"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return repr(value)


def _spelled(environment: Specification) -> str:
    """The name with which the environment can be asked for again."""
    return environment.name if environment.name == "grid" else environment.id


def _free_options(environment: Specification) -> dict[str, Any]:
    """The options that the name does not say."""
    own = environment.name == "grid" or is_reference(environment.name)
    said = {} if own else dict(specify(_spelled(environment)).options)
    label = {"label": environment.label} if environment.label else {}
    return {name: value for name, value in environment.options.items() if said.get(name) != value} | label
