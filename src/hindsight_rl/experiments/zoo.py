"""Trained policies that come with the package: `zoo:four-rooms`. Imports nothing heavy."""

from importlib.resources import files
from pathlib import Path

from hindsight_rl.core.errors import unknown

PREFIX = "zoo:"
_FOLDER = "zoo_policies"


def zoo_folder() -> Path:
    """Where they are."""
    return Path(str(files("hindsight_rl.experiments") / _FOLDER))


def zoo_names() -> list[str]:
    """Every policy of the zoo."""
    return sorted(path.stem for path in zoo_folder().glob("*.npz"))


def zoo_path(source: str) -> Path:
    """The file of a policy, by its name with the prefix."""
    name = source.removeprefix(PREFIX)
    if name not in zoo_names():
        raise unknown("policy in the zoo", name, zoo_names())
    return zoo_folder() / f"{name}.npz"
