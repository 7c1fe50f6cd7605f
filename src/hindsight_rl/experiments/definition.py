"""A training job as data: what its settings file says. Imports nothing heavy, so that help texts appear at once."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.options import names_of
from hindsight_rl.core.plugins import imports_refused, is_reference, require_trusted
from hindsight_rl.core.run import RunSettings, translated
from hindsight_rl.environments.registry import Specification
from hindsight_rl.methods.registry import find_method
from hindsight_rl.records.files import read_json
from hindsight_rl.training.settings import Settings, make_settings

SETTINGS = "settings.json"
FORMAT = 2
"""Version of the settings file; 1 had one flat table of settings."""


@dataclass(frozen=True)
class Job:
    """An environment and the settings to train on it with."""

    environment: Specification
    settings: Settings

    def to_json(self) -> dict[str, Any]:
        """The content of a settings file."""
        return {
            "format": FORMAT,
            "environment": self.environment.to_json(),
            "method": {"name": self.settings.method, "options": self.settings.method_options},
            "run": self.settings.run,
        }

    @classmethod
    def from_json(cls, content: Any, source: Path) -> "Job":
        """The inverse of `to_json`; also reads what earlier versions wrote."""
        try:
            if (found := content.get("format", 1)) not in (1, FORMAT):
                raise HindsightError(f"'{source}' has format {found}, but this hindsight reads 1 and {FORMAT}.")
            if "settings" in content:
                content = _from_first_format(content)
            environment = Specification.from_json(content["environment"])
            method = content["method"]
            settings = {**content["run"], "method": method["name"], **method["options"]}
        except (KeyError, TypeError, AttributeError) as error:
            raise HindsightError(f"'{source}' is not a settings file of this version: {error}.") from None
        try:
            return cls(environment, make_settings(settings))
        except HindsightError as error:
            raise HindsightError(f"In '{source}': {error}") from None


def _from_first_format(content: dict[str, Any]) -> dict[str, Any]:
    """One flat table held the settings of every method; what does not concern the chosen one is dropped."""
    flat = translated(content["settings"])
    known = [one.name for one in find_method(flat["method"]).visible]
    return {
        "environment": content["environment"],
        "method": {"name": flat["method"], "options": {name: flat[name] for name in known if name in flat}},
        "run": {name: flat[name] for name in names_of(RunSettings) if name in flat},
    }


def load_job(folder: Path) -> Job:
    """The job that a folder holds."""
    if not (folder / SETTINGS).exists():
        raise HindsightError(f"'{folder}' holds no run: it has no {SETTINGS}.")
    return Job.from_json(read_json(folder / SETTINGS), folder / SETTINGS)


@contextmanager
def trusting(source: Path, trusted: bool) -> Iterator[None]:
    """Within, a folder or file is read; what it names is not imported unless the user trusts whoever made it.

    A settings file that names modules is refused at once; the file of a checkpoint or policy, when it comes to them.
    """
    with nullcontext() if trusted else imports_refused(str(source)):
        settled = not trusted and (source / SETTINGS).exists()
        if settled and (named := sorted(modules_named(read_json(source / SETTINGS)))):
            require_trusted(*named)
        yield


def modules_named(content: Any, key: str = "") -> set[str]:
    """The references `module:name` in a settings file, and ids of Gymnasium with a module in front."""
    if isinstance(content, dict):
        return {found for name, value in content.items() for found in modules_named(value, name)}
    if isinstance(content, list):
        return {found for value in content for found in modules_named(value)}
    if not isinstance(content, str):
        return set()
    gymnasium = (key == "id" or content.startswith("gym:")) and ":" in content.removeprefix("gym:")
    return {content} if gymnasium or is_reference(content) else set()


def describe_difference(held: Job, wanted: Job) -> str:
    """The first setting in which two jobs differ, or nothing; going on for more batches is no difference."""
    if held.environment != wanted.environment:
        return f"environment {held.environment.id}, not {wanted.environment.id}"
    old, new = held.settings.flat, wanted.settings.flat
    for name in dict.fromkeys(("method", *old, *new)):
        longer = name == "batches" and new[name] > old[name]
        if old.get(name) != new.get(name) and not longer:
            return f"{name} {old.get(name)}, not {new.get(name)}"
    return ""
