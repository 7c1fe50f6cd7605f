"""What a result was made with, so that it can be made again."""

import hashlib
import os
import platform
from collections.abc import Container, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("hindsight-rl", "jax", "jaxlib", "numpy", "equinox", "optax")
MISSING = "not installed"
DECIDE_NUMBERS = ("python", "hindsight-rl", "code", "jax", "jaxlib", "numpy", "equinox", "optax")
"""What must be the same on all machines of a cluster, since the numbers depend on it."""
SIMULATORS = {
    "gymnasium": "gymnasium",
    "gymnasium-robotics": "gymnasium_robotics",
    "mujoco": "mujoco",
    "ale-py": "ale_py",
}
"""Packages on which episodes of hosted environments depend, by their names, and how they are imported."""


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that decide the numbers, and the machine."""
    return {
        "python": platform.python_version(),
        **{package: _installed_version(package) for package in _PACKAGES},
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu_count": str(os.cpu_count()),
        "code": code_version(),
    }


def deciding(known: Mapping[str, str]) -> dict[str, str]:
    """Those versions on which the numbers depend."""
    return {name: known[name] for name in DECIDE_NUMBERS}


def simulator_versions(loaded: Container[str] | None = None) -> dict[str, str]:
    """The versions of the simulators' packages that are installed; only of those that are `loaded`, if given."""
    names = [name for name, module in SIMULATORS.items() if loaded is None or module in loaded]
    return {name: found for name in names if (found := _installed_version(name)) != MISSING}


def difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """How versions elsewhere differ from those here, for all that are known there; empty where they do not."""
    found = [
        f"{name} {version} there, {ours.get(name, MISSING)} here"
        for name, version in theirs.items()
        if ours.get(name) != version
    ]
    return "; ".join(found)


@cache
def code_version() -> str:
    """A short digest of this package's source files, which tells apart what a version number does not."""
    digest = hashlib.sha256()
    root = Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@cache
def _installed_version(package: str) -> str:
    # The metadata answers without importing the package, which for jax would take seconds.
    try:
        return version(package)
    except PackageNotFoundError:
        return MISSING
