"""What a result was made with, so that it can be made again."""

import hashlib
import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("hindsight-rl", "jax", "jaxlib", "numpy", "equinox", "optax")


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


@cache
def code_version() -> str:
    """A short digest of this package's source files, which tells apart what a version number does not."""
    digest = hashlib.sha256()
    root = Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _installed_version(package: str) -> str:
    # The metadata answers without importing the package, which for jax would take seconds.
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
