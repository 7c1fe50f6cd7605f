"""Annotated shapes are checked at every call while tests run: by jaxtyping's import hook, with beartype.

Only annotations of arrays count, and jaxtyping's `Array` stands for NumPy's arrays too: JAX takes them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jaxtyping
import numpy as np
from beartype import BeartypeConf, beartype

SPEAKERS = "hindsight_rl.estimators"
"""A package whose functions say in a sentence which argument has the wrong shape."""

_checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check_shapes(packages: Sequence[str]) -> None:
    """Check these packages from now on; none of ours may have been imported before."""
    jaxtyping.Array = jax.Array | np.ndarray  # type: ignore[assignment, misc]
    jaxtyping.install_import_hook(packages, f"{__name__}.checker")


def checker(function: Callable[..., Any]) -> Callable[..., Any]:
    """The type checker for jaxtyping, which passes functions that only have the signature of the real one.

    It checks arguments twice: before a call, when the result may be anything, and again together with the result.
    Functions that speak for themselves are spared the first check, so that their sentences are seen.
    """
    hints = function.__annotations__
    if function.__module__.startswith(SPEAKERS) and hints.get("return") is Any:
        return function
    function.__annotations__ = {name: hint if "jaxtyping" in repr(hint) else Any for name, hint in hints.items()}
    return _checked(function)
