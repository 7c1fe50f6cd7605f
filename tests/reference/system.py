"""What some tests need beyond Python packages. Where it is missing they are skipped, with `CI=true` they fail."""

import ctypes
import functools
import os
import shutil
import subprocess
import sys
from typing import NoReturn

import pytest

_DRAW = """
from hindsight_rl.environments.extras import choose_renderer
choose_renderer()
import mujoco
mujoco.GLContext(16, 16).make_current()
"""


def need_browser() -> str:
    """The path of chromium."""
    program = shutil.which("chromium")
    if program is None:
        _miss("There is no chromium to open reports in")
    return program


def need_drawing() -> None:
    """That MuJoCo can draw."""
    if not _draws():
        _miss("MuJoCo cannot draw here, without EGL or a display")


def do_without_egl() -> None:
    """Let MuJoCo simulate where the library is missing with which it would draw: loading it would fail."""
    headless = not any(os.environ.get(name) for name in ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"))
    if sys.platform.startswith("linux") and headless and not _loads("libEGL.so.1"):
        os.environ["MUJOCO_GL"] = "disable"


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


@functools.cache
def _draws() -> bool:
    """In a process of its own, as some failures to draw end it."""
    return subprocess.run([sys.executable, "-c", _DRAW], capture_output=True, check=False).returncode == 0


def _miss(what: str) -> NoReturn:
    message = f"{what}: run `make system-packages`, which installs it where it has the rights."
    if os.environ.get("CI", "").lower() in ("", "0", "false"):
        pytest.skip(message)
    pytest.fail(message)
