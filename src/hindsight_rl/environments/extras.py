"""Packages that only hosted environments need, imported when one is made; what is missing is said in a sentence."""

import contextlib
import io
import os
import sys
from importlib import import_module
from types import ModuleType

from hindsight_rl.core.errors import HindsightError


def import_ale() -> ModuleType:
    """The Arcade Learning Environment."""
    found = _import("ale_py", "Ms. Pac-man needs ale-py: pip install 'hindsight-rl[atari]'.")
    import_module("ale_py.roms")  # which it imports itself only where Gymnasium is installed
    return found


def import_gymnasium() -> ModuleType:
    """Gymnasium, the interface of most environments."""
    return _import("gymnasium", "Gymnasium environments need gymnasium: pip install 'hindsight-rl[gymnasium]'.")


def import_robotics() -> ModuleType:
    """Gymnasium's robots and mazes on MuJoCo; importing them registers their names with Gymnasium."""
    choose_renderer()
    missing = "FetchPush needs gymnasium-robotics and mujoco: pip install 'hindsight-rl[robotics]'."
    try:
        _import("mujoco", missing)
    except (AttributeError, RuntimeError) as error:  # It loads the renderer that MUJOCO_GL names.
        chosen = os.environ.get("MUJOCO_GL", "")
        raise HindsightError(
            f"MuJoCo cannot be loaded with MUJOCO_GL={chosen} ({error}): try egl, osmesa or glfw."
        ) from error
    # It prints news about other environments when imported.
    with contextlib.redirect_stderr(io.StringIO()):
        return _import("gymnasium_robotics", missing)


def choose_renderer() -> None:
    """Let MuJoCo draw without a display; it reads this setting once, when it is imported."""
    if os.environ.get("MUJOCO_GL"):
        return
    # MuJoCo takes an empty value for a wrong one.
    os.environ.pop("MUJOCO_GL", None)
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ["MUJOCO_GL"] = "egl"


def _import(name: str, missing: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != name:
            raise
        raise HindsightError(missing) from None
