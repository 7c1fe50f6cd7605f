"""Whether a value that a user gave is the kind of number that is asked for. To Python, True is a number too."""

from typing import TypeGuard

from hindsight_rl.core.errors import HindsightError

MOST_DIGITS = 100
"""Python itself refuses to read numbers of more than some thousand digits, with an error of its own."""


def is_integer(value: object) -> TypeGuard[int]:
    """Whether it is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is any number, not a number included."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_positive_integer(value: object) -> TypeGuard[int]:
    """Whether it is a whole number of at least 1."""
    return is_integer(value) and value >= 1


def whole_number(text: str) -> int | None:
    """The number that decimal digits spell; None for another text, and for more digits than any count has."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else None


def require_positive_integer(name: str, value: object) -> None:
    """Refuse anything but a whole number of at least 1."""
    if not is_positive_integer(value):
        raise HindsightError(f"{name} must be a whole number of at least 1, not {value}.")
