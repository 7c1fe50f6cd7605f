"""Whether the functions of an environment that compiles fit together, found without running it."""

from collections.abc import Callable
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp

from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.environments.interface import Environment


def require_shapes(environment: Environment) -> None:
    """Refuse an environment whose functions give other shapes than a learner needs, in a sentence that names one."""
    _require_counts(environment)
    key = jax.random.key(0)
    state = _shape(environment, "reset", environment.reset, key)
    for view in ("observe", "achieved_goal"):
        _require_array(environment, view, _shape(environment, view, getattr(environment, view), state))
    achieved = _shape(environment, "achieved_goal", environment.achieved_goal, state)
    goal = _shape(environment, "sample_goal", environment.sample_goal, key)
    if getattr(goal, "shape", None) != achieved.shape:
        raise _wrong(environment, "sample_goal", f"gives {_said(goal)}, but achieved_goal gives {_said(achieved)}")
    for name, arguments in (
        ("goal_probability", (goal,)),
        ("reached", (achieved, goal)),
        ("reward", (achieved, goal, jax.ShapeDtypeStruct((), jnp.int32))),
    ):
        found = _shape(environment, name, getattr(environment, name), *arguments)
        if getattr(found, "shape", None) != ():
            raise _wrong(environment, name, f"must give one value for a goal, not {_said(found)}")
    action = jax.ShapeDtypeStruct(
        (environment.action_count,) if environment.continuous else (),
        jnp.float32 if environment.continuous else jnp.int32,
    )
    after = _shape(environment, "step", environment.step, state, action, key)
    if _layout(after) != _layout(state) or not all(map(_same_type, jax.tree.leaves(state), jax.tree.leaves(after))):
        raise _wrong(environment, "step", f"gives the state {_said(after)}, but reset gives {_said(state)}")


def _require_counts(environment: Environment) -> None:
    """At least one action to choose among, and one to take: a horizon counts the first state too."""
    for name, least in (("horizon", 2), ("action_count", 1)):
        found = getattr(environment, name)
        if not isinstance(found, Integral) or found < least:
            raise _wrong(environment, name, f"must be a whole number of at least {least}, not {found!r}")


def _shape(environment: Environment, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return jax.eval_shape(function, *arguments)
    except HindsightError:
        raise
    except Exception as error:  # Whatever a stranger's code raises.
        raise _wrong(environment, name, f"fails: {gist(error)}") from error


def _require_array(environment: Environment, name: str, found: Any) -> None:
    if not isinstance(found, jax.ShapeDtypeStruct):
        raise _wrong(environment, name, f"must give one array, not {_said(found)}: join its parts, laid out flat")


def _layout(tree: Any) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    return structure, [leaf.shape for leaf in leaves]


def _same_type(before: Any, after: Any) -> bool:
    """A plain number of Python's takes the type of what follows it."""
    return before.weak_type or before.dtype == after.dtype


def _said(tree: Any) -> str:
    if isinstance(tree, jax.ShapeDtypeStruct):
        return f"{tree.dtype}{list(tree.shape)}"
    return f"a {type(tree).__name__}"


def _wrong(environment: Environment, name: str, what: str) -> HindsightError:
    return HindsightError(f"In the environment {type(environment).__name__}, {name} {what}.")
