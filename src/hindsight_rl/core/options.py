"""Options as fields of frozen dataclasses: each is defined, documented and checked once, in its own place.

A field has a type, a default and, as a string below it, a sentence of help. Command line, TOML, JSON and Python all
derive from these. Imports nothing heavy, so that help texts appear at once.
"""

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin, get_type_hints

from hindsight_rl.core.errors import HindsightError, unknown
from hindsight_rl.core.numbers import is_integer, is_number


@dataclass(frozen=True)
class Rule:
    """What a value must be, beyond its type."""

    sentence: str
    """Goes on from 'epsilon must be ...'."""
    holds: Callable[[Any], bool]
    each: str = "value"
    """What one of a sequence is called."""


Count = Annotated[int, Rule("a whole number of at least 1", lambda value: value >= 1)]
Rate = Annotated[float, Rule("a finite number above zero", lambda value: math.isfinite(value) and value > 0)]
Number = Annotated[float, Rule("a finite number", math.isfinite)]
Amount = Annotated[float, Rule("a finite number of at least zero", lambda value: math.isfinite(value) and value >= 0)]
Share = Annotated[float, Rule("a number from 0 to 1", lambda value: 0 <= value <= 1)]
PositiveShare = Annotated[float, Rule("a number above 0 and at most 1", lambda value: 0 < value <= 1)]
Widths = Annotated[tuple[Count, ...], Rule("a sequence of widths", lambda value: True, "width")]

_PLAIN: Mapping[Any, tuple[str, Callable[[Any], bool]]] = {
    int: ("a whole number", is_integer),
    float: ("a number", is_number),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    str: ("text", lambda value: isinstance(value, str)),
}


class Options:
    """A group of options. Subclasses are frozen dataclasses; their values are checked when one is made."""

    def __post_init__(self) -> None:
        for one in described(type(self)):
            one.check(getattr(self, one.name))

    @classmethod
    def read(cls, values: Mapping[str, Any], whose: str) -> Self:
        """Options from names and values, as TOML or JSON hold them; `whose` they are is said of an unknown name."""
        known = {one.name: one for one in described(cls)}
        for name in values:
            if name not in known:
                raise unknown(f"option of {whose}", name, known)
        missing = [one.name for one in known.values() if one.required and one.name not in values]
        if missing:
            raise HindsightError(f"{whose} needs the option {missing[0]}.")
        return cls(**{name: known[name].read(value) for name, value in values.items()})


@dataclass(frozen=True)
class Option:
    """What is known of a field."""

    name: str
    kind: Any
    """Its type, with rules and all."""
    default: Any
    required: bool
    help: str

    @property
    def bare(self) -> Any:
        """Its type without rules, and without None."""
        kind = get_args(self.kind)[0] if get_origin(self.kind) is Annotated else self.kind
        if get_origin(kind) in (Union, UnionType):
            kinds = [one for one in get_args(kind) if one is not NoneType]
            kind = kinds[0] if len(kinds) == 1 else kind
            return get_args(kind)[0] if get_origin(kind) is Annotated else kind
        return kind

    @property
    def may_be_none(self) -> bool:
        """Whether None is a value of it."""
        kind = get_args(self.kind)[0] if get_origin(self.kind) is Annotated else self.kind
        return NoneType in get_args(kind)

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers, so that a study can search among them."""
        return self.bare in (int, float)

    @property
    def flag(self) -> str:
        """Its spelling on the command line."""
        return f"--{self.name.replace('_', '-')}"

    def read(self, value: Any) -> Any:
        """The value as Python has it: a list of TOML or JSON is a tuple here."""
        return tuple(value) if isinstance(value, list) and get_origin(self.bare) is tuple else value

    def allows(self, value: Any) -> bool:
        """Whether a value passes the check."""
        try:
            self.check(value)
        except HindsightError:
            return False
        return True

    def check(self, value: Any) -> None:
        """Refuse a value of the wrong type, or one against a rule, in a sentence."""
        _check(self.name, value, self.kind)


def described(cls: type) -> tuple[Option, ...]:
    """The options of a dataclass, in order."""
    return _described(cls)


@cache
def _described(cls: Any) -> tuple[Option, ...]:
    hints, help_texts = get_type_hints(cls, include_extras=True), _documentation(cls)
    return tuple(
        Option(one.name, hints[one.name], *_default(one), help_texts.get(one.name, ""))
        for one in fields(cls)
        if one.init
    )


def find_option(cls: type, name: str) -> Option | None:
    """The option of that name, if there is one."""
    return next((one for one in described(cls) if one.name == name), None)


def names_of(cls: type) -> tuple[str, ...]:
    """The names of a dataclass' options."""
    return tuple(one.name for one in described(cls))


def _default(one: Field[Any]) -> tuple[Any, bool]:
    if one.default is not MISSING:
        return one.default, False
    return (one.default_factory(), False) if one.default_factory is not MISSING else (None, True)


def _check(name: str, value: Any, kind: Any) -> None:
    rules: Sequence[Rule] = ()
    if get_origin(kind) is Annotated:
        rules = [one for one in get_args(kind)[1:] if isinstance(one, Rule)]
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        if value is None and NoneType in get_args(kind):
            return
        kinds = [one for one in get_args(kind) if one is not NoneType]
        if len(kinds) != 1:
            return
        return _check(name, value, kinds[0])
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise unknown(name, str(value), get_args(kind))
        return
    sentence, fits = _PLAIN.get(kind, ("", lambda value: True))
    if get_origin(kind) is tuple:
        sentence, fits = "a sequence", lambda value: isinstance(value, tuple)
    broken = [rule for rule in rules if not fits(value) or not rule.holds(value)]
    if broken or not fits(value):
        raise HindsightError(f"{name} must be {broken[0].sentence if broken else sentence}, not {value}.")
    if get_origin(kind) is tuple:
        each = rules[-1].each if rules else "value"
        for item in value:
            _check(f"each {each} in {name}", item, get_args(kind)[0])


def _documentation(cls: type) -> dict[str, str]:
    """The string below each field, for the class and those that it inherits from."""
    found: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
        except (OSError, TypeError, SyntaxError, IndexError):  # builtins, and classes that were made at run time
            continue
        if not isinstance(body, ast.ClassDef):
            continue
        for field, text in zip(body.body, body.body[1:], strict=False):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(sentence))):
                    found[name] = " ".join(sentence.split())
    return found
