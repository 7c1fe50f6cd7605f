"""Users' own pieces: objects named as `module:name`, and those that installed packages announce as entry points."""

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from hindsight_rl.core.errors import HindsightError, gist, unknown

_untrusted: ContextVar[str] = ContextVar("untrusted", default="")
"""What is being read now, if nothing that it names may be imported."""


@contextmanager
def imports_refused(source: str) -> Iterator[None]:
    """Within, nothing is imported that `source` names: files, settings and checkpoints of a stranger may name code."""
    token = _untrusted.set(source)
    try:
        yield
    finally:
        _untrusted.reset(token)


def require_trusted(*references: str) -> None:
    """Refuse to import what somebody named who is not trusted."""
    if source := _untrusted.get():
        raise HindsightError(
            f"'{source}' names code that would be imported and run ({', '.join(references)}): "
            "add --trust if you trust whoever made this folder."
        )


def is_reference(name: str) -> bool:
    """Whether a name has the form `module:name`."""
    module, colon, attribute = name.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *attribute.split(".")))


def refuse_path(name: str, kind: str) -> None:
    """A file where `module:name` belongs, or a module alone: say how Python would import it."""
    path, _, attribute = name.partition(":")
    if path.endswith(".py") or (path == name and path.isidentifier() and Path(f"{path}.py").is_file()):
        module = re.sub(r"[/\\]+", ".", path.removesuffix(".py").removeprefix("./")).strip(".")
        wanted = f"write {module}:{attribute or 'NAME'}, as Python imports it"
        raise HindsightError(f"The {kind} '{name}' names a file: {wanted}.")


def load_object(reference: str, kind: str) -> Any:
    """The object that `module:name` names; its module is looked for in the current folder too.

    `kind` is what a sentence calls it: "method", "environment", "estimator".
    """
    require_trusted(reference)
    refuse_path(reference, kind)
    module_name, _, path = reference.partition(":")
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and module_name.startswith(error.name):
            raise HindsightError(
                f"There is no module '{error.name}' for the {kind} '{reference}': it is neither in this folder nor "
                "installed."
            ) from None
        raise HindsightError(f"The {kind} '{reference}' cannot be loaded: {gist(error)}.") from error
    except (Exception, SystemExit) as error:  # a script may end the program as it is imported
        raise HindsightError(f"The {kind} '{reference}' cannot be loaded: {gist(error)}.") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise unknown(f"{kind} in '{module_name}'", part, _names_in(found, module_name.partition(".")[0]))
        found = getattr(found, part)
    return found


def _names_in(holder: Any, package: str) -> list[str]:
    """What a module or class has of its own package: not the modules, classes and functions that it imported."""

    def imported(one: Any) -> bool:
        elsewhere = getattr(one, "__module__", "").partition(".")[0] != package
        return isinstance(one, ModuleType) or (isinstance(one, type | FunctionType) and elsewhere)

    return [name for name, one in vars(holder).items() if not name.startswith("_") and not imported(one)]


@cache
def installed(group: str) -> Mapping[str, EntryPoint]:
    """What installed packages announce in a group of entry points, by name; nothing is imported yet."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        if entry.name in found and found[entry.name].value != entry.value:
            raise HindsightError(
                f"Two installed packages announce '{entry.name}' in {group}: '{found[entry.name].value}' and "
                f"'{entry.value}'; uninstall one of them, or name the one you want as module:name."
            )
        found[entry.name] = entry
    return found


def require_free(names: Collection[str], taken: Collection[str], kind: str) -> None:
    """Refuse a name of an installed piece that one of our own has."""
    for name in names:
        if name in taken:
            raise HindsightError(
                f"An installed package announces the {kind} '{name}', but that name is taken: use module:name for it."
            )


def load_installed(group: str, name: str, kind: str) -> Any:
    """The object behind an entry point."""
    # What is installed under a name of its own was chosen by whoever installed it.
    with imports_refused(""):
        return load_object(installed(group)[name].value, kind)
