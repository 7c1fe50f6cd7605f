"""Numbers as people spell them."""

import pytest

from hindsight_rl.core.numbers import MOST_DIGITS, whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("9" * MOST_DIGITS, 10**MOST_DIGITS - 1), ("9" * 5000, None), ("", None), ("-1", None)],
)
def test_a_whole_number(text: str, number: int | None) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["²", "٣", "1.0", "1e3", " 1", "1_0"])
def test_what_only_looks_like_a_whole_number(text: str) -> None:
    assert whole_number(text) is None
