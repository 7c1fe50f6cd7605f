"""What a result was made with, so that it can be made again."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("hindsight", "jax", "jaxlib", "numpy", "equinox", "optax")


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that decide the numbers, and the machine."""
    return {
        "python": platform.python_version(),
        **{package: _installed_version(package) for package in _PACKAGES},
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu_count": str(os.cpu_count()),
    }


def _installed_version(package: str) -> str:
    # The metadata answers without importing the package, which for jax would take seconds.
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
