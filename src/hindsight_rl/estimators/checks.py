"""Checks at the border of the public functions: one sentence that names the argument.

Shapes are known even while JAX traces a function; values are looked at only where there are any, so that a compiled
training loop pays nothing.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hindsight_rl.core.errors import HindsightError


def require_shapes(**arguments: tuple[Any, str]) -> None:
    """Every axis has one size: `require_shapes(rewards=(rewards, "goal episode time"), ...)`."""
    sizes: dict[str, tuple[int, str]] = {}
    for name, (array, axes) in arguments.items():
        shape, names = jnp.shape(array), axes.split()
        if len(shape) != len(names):
            raise HindsightError(f"{name} must have the axes [{', '.join(names)}], but its shape is {shape}.")
        for size, axis in zip(shape, names, strict=True):
            known, source = sizes.setdefault(axis, (size, name))
            if size != known:
                raise HindsightError(f"{name} has {size} along '{axis}', but {source} has {known}: shape {shape}.")


def require_log_probabilities(**arguments: Any) -> None:
    """No logarithm of a probability is above zero or undefined."""
    for name, array in arguments.items():
        # Rounding may lift the logarithm of a sure thing a little above zero.
        if (values := _values(array)) is not None and not np.all(values <= 1e-5):
            raise HindsightError(f"{name} must hold logarithms of probabilities, but {_worst(values)} is above zero.")


def require_goal_probabilities(**arguments: Any) -> None:
    """Probabilities of some or all goals: none negative, together at most one."""
    for name, array in arguments.items():
        if (values := _values(array)) is None:
            continue
        if not np.all(values >= 0):
            raise HindsightError(f"{name} must not be negative, but holds {np.nanmin(values):g}.")
        if values.sum() > 1 + 1e-4:
            raise HindsightError(f"{name} must sum to at most one, but the sum is {values.sum():g}.")


def require_distribution(axis: int = -1, **arguments: Any) -> None:
    """Probabilities that sum to one along an axis."""
    for name, array in arguments.items():
        if (values := _values(array)) is None:
            continue
        if not np.all(values >= 0):
            raise HindsightError(f"{name} must not be negative, but holds {np.nanmin(values):g}.")
        sums = values.sum(axis=axis)
        if not np.allclose(sums, 1, atol=1e-5):
            raise HindsightError(f"{name} must sum to one, but a sum is {sums.flat[np.argmax(np.abs(sums - 1))]:g}.")


def require_prefixes(**arguments: Any) -> None:
    """Masks over time without holes: once false, false to the end."""
    for name, array in arguments.items():
        values = _values(array)
        if values is not None and np.any(~values[..., :-1] & values[..., 1:]):
            episode = int(np.argwhere(~values[..., :-1] & values[..., 1:])[0][0])
            raise HindsightError(f"{name} has a hole: episode {episode} takes an action after one it did not take.")


def require_runs(**arguments: Any) -> None:
    """Masks over time that are true in one unbroken run, wherever it begins."""
    for name, array in arguments.items():
        values = _values(array)
        if values is None:
            continue
        begins = np.diff(values.astype(np.int8), axis=-1, prepend=0) > 0
        if np.any(begins.sum(axis=-1) > 1):
            pair = int(np.argwhere(begins.sum(axis=-1) > 1)[0][0])
            raise HindsightError(f"{name} has a hole: pair {pair} decides again after an action that is no decision.")


def _values(array: Any) -> np.ndarray | None:
    return None if isinstance(array, jax.core.Tracer) else np.asarray(array)


def _worst(values: np.ndarray) -> str:
    return "not-a-number" if np.isnan(values).any() else f"{values.max():g}"
