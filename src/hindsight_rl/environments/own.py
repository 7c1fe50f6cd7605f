"""Users' own environments: the rows of objects that are named as `module:name` or announced by installed packages.

Such an object is a subclass or an instance of `Task`, a Gymnasium goal environment or its class, or a function that
makes either.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import field, make_dataclass
from functools import partial
from typing import Any, Literal, get_origin, get_type_hints

from hindsight_rl.core.errors import HindsightError, gist
from hindsight_rl.core.options import Option, Options
from hindsight_rl.environments.gymnasium.task import gymnasium_task
from hindsight_rl.environments.hosted import HostedTask
from hindsight_rl.environments.interface import Task
from hindsight_rl.environments.options import MadeGymnasiumOptions
from hindsight_rl.environments.registry import Entry

WANTED = (
    "an environment is a subclass or an instance of Task, a Gymnasium goal environment or its class, or a function "
    "that makes one of these"
)


def own_entry(found: Any, reference: str) -> Entry:
    """The registry's row for an object."""
    summary = (inspect.getdoc(found) or "An environment of your own.").strip().splitlines()[0]
    if isinstance(found, Task):
        return Entry(lambda: found, summary, _options(None), hosted=isinstance(found, HostedTask))
    if _is_gymnasium(found):
        options = _options(found if isinstance(found, type) else None, MadeGymnasiumOptions)
        return Entry(partial(_gymnasium, found), summary, options, hosted=True)
    returned = found if isinstance(found, type) else _hints(found).get("return")
    if isinstance(returned, type) and issubclass(returned, Task):
        hosted = issubclass(returned, HostedTask)
        return Entry(partial(_task, found, reference), summary, _options(found), hosted=hosted)
    if isinstance(found, type) or not callable(found):
        raise HindsightError(f"'{reference}' is {_kind(found)}, but {WANTED}.")
    options = _options(found, MadeGymnasiumOptions)
    return Entry(partial(_either, found, reference), summary, options, hosted=_is_gymnasium(returned))


def _called(maker: Callable[..., Any], reference: str, options: Mapping[str, Any]) -> Any:
    try:
        return maker(**options)
    except HindsightError:
        raise
    except Exception as error:  # Whatever a stranger's code raises.
        raise HindsightError(f"The environment '{reference}' cannot be made: {gist(error)}.") from error


def _checked(made: Any, reference: str) -> Task:
    if not isinstance(made, Task):
        raise HindsightError(f"'{reference}' made {_kind(made)}, but {WANTED}.")
    return made


def _task(maker: Callable[..., Any], reference: str, **options: Any) -> Task:
    """The task that a class or a function makes."""
    return _checked(_called(maker, reference, options), reference)


def _gymnasium(wanted: Any, **options: Any) -> Task:
    """The task of a Gymnasium environment; `horizon` and `goal_box` are for its maker only if that takes them."""
    own, ours = _divide(wanted, options)
    box: Literal["box"] | None = "box" if ours.get("goal_box") else None
    return gymnasium_task(wanted, ours.get("horizon"), own, goal_probability=box)


def _either(maker: Callable[..., Any], reference: str, **options: Any) -> Task:
    """What a function makes that does not say so: a task, or a Gymnasium environment."""
    own, ours = _divide(maker, options)
    made = _called(maker, reference, own)
    if _is_gymnasium(made):
        made.close()
        return _gymnasium(maker, **options)
    for name, value in ours.items():
        if value:
            raise HindsightError(f"'{reference}' makes a task, which takes no {name}: only Gymnasium environments do.")
    return _checked(made, reference)


def _divide(maker: Any, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options that a maker takes, and those that are for us."""
    known = _parameters(maker)
    own = {name: value for name, value in options.items() if name in known}
    return own, {name: value for name, value in options.items() if name not in known}


def _options(maker: Callable[..., Any] | None, base: type[Options] = Options) -> type[Options]:
    """Options as a maker's signature has them, on top of others."""
    rows = [
        (name, kind, field() if default is inspect.Parameter.empty else field(default=default))
        for name, (kind, default) in _parameters(maker).items()
    ]
    return make_dataclass(f"{getattr(maker, '__name__', 'No')}Options", rows, bases=(base,), frozen=True, kw_only=True)


def _parameters(maker: Any) -> dict[str, tuple[Any, Any]]:
    """Type and default of what can be chosen by name: what has to be, and what is plain enough for a settings file.

    `render_mode` is left to whoever wants pictures.
    """
    function = maker.__init__ if isinstance(maker, type) else maker  # type: ignore[misc]
    try:
        parameters = list(inspect.signature(function).parameters.values())[isinstance(maker, type) :]
    except (TypeError, ValueError):  # Nothing to call, or a builtin that does not tell.
        return {}
    hints = _hints(function)
    found = {}
    for one in parameters:
        named = one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY) and one.name != "render_mode"
        untold = Any if one.default is one.empty or one.default is None else type(one.default)
        kind = hints.get(one.name, untold)
        if named and (one.default is one.empty or _is_plain(one.name, kind, one.default)):
            found[one.name] = kind, one.default
    return found


def _is_plain(name: str, kind: Any, default: Any) -> bool:
    bare = Option(name, kind, default, False, "").bare
    if bare not in (int, float, bool, str, Any) and get_origin(bare) not in (Literal, tuple):
        return False
    values = default if isinstance(default, tuple) else (default,)
    return all(value is None or isinstance(value, bool | int | float | str) for value in values)


def _hints(maker: Any) -> dict[str, Any]:
    try:
        return get_type_hints(maker, include_extras=True)
    except Exception:  # An annotation may be text that means something to another tool alone.
        return {}


def _is_gymnasium(thing: Any) -> bool:
    """Whether it is a Gymnasium environment or a class of them; there is none unless Gymnasium is loaded."""
    environment = getattr(sys.modules.get("gymnasium"), "Env", None)
    if environment is None:
        return False
    return issubclass(thing, environment) if isinstance(thing, type) else isinstance(thing, environment)


def _kind(thing: Any) -> str:
    return f"the class {thing.__name__}" if isinstance(thing, type) else f"an object of the type {type(thing).__name__}"
