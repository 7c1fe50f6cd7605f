"""Options of frozen dataclasses: what is known of each, what is refused, and with which sentence."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pytest
from small_results import refusal

from hindsight_rl.core.options import (
    Amount,
    Count,
    Number,
    Options,
    PositiveShare,
    Rate,
    Share,
    Widths,
    described,
    find_option,
    names_of,
)
from hindsight_rl.core.run import RunSettings


@dataclass(frozen=True)
class Plain(Options):
    """The types without rules."""

    whole: int = 1
    """A whole
    number, over two lines."""
    number: float = 0.5
    switch: bool = False
    """On or off."""
    text: str = "a"
    kind: Literal["warm", "cold"] = "warm"
    """How it feels."""
    most: Count | None = None
    """A limit."""
    factory: tuple[int, ...] = field(default_factory=lambda: (1, 2))
    hidden: int = field(default=3, init=False)
    """No option at all."""


@dataclass(frozen=True)
class Ruled(Options):
    """The types with rules."""

    count: Count = 1
    rate: Rate = 1.0
    plain: Number = 0.0
    amount: Amount = 0.0
    share: Share = 0.0
    positive: PositiveShare = 1.0
    widths: Widths = (1,)


@dataclass(frozen=True)
class Below(Plain):
    """Inherits, and says one thing anew."""

    switch: bool = True
    """On, for once."""
    extra: Count = 4
    """One more."""


@dataclass(frozen=True, kw_only=True)
class Needy(Options):
    """Has an option without a default."""

    place: str
    """Where."""
    size: Count = 2


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("whole", 1.0, "whole must be a whole number, not 1.0."),
        ("whole", True, "whole must be a whole number, not True."),
        ("whole", "1", "whole must be a whole number, not 1."),
        ("whole", None, "whole must be a whole number, not None."),
        ("number", "0.5", "number must be a number, not 0.5."),
        ("number", True, "number must be a number, not True."),
        ("switch", 1, "switch must be true or false, not 1."),
        ("switch", "yes", "switch must be true or false, not yes."),
        ("text", 3, "text must be text, not 3."),
        ("kind", "wram", "There is no kind 'wram'. Did you mean 'warm'? Known: warm, cold."),
        ("kind", 3, "There is no kind '3'. Known: warm, cold."),
        ("most", 0, "most must be a whole number of at least 1, not 0."),
        ("most", 1.5, "most must be a whole number of at least 1, not 1.5."),
        ("factory", 3, "factory must be a sequence, not 3."),
        ("factory", [3], "factory must be a sequence, not [3]."),
        ("factory", (3, "a"), "each value in factory must be a whole number, not a."),
    ],
)
def test_wrong_types_are_refused(name: str, value: Any, sentence: str) -> None:
    assert refusal(lambda: Plain(**{name: value})) == sentence


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("count", 0, "count must be a whole number of at least 1, not 0."),
        ("count", True, "count must be a whole number of at least 1, not True."),
        ("count", 2.0, "count must be a whole number of at least 1, not 2.0."),
        ("rate", 0.0, "rate must be a finite number above zero, not 0.0."),
        ("rate", float("inf"), "rate must be a finite number above zero, not inf."),
        ("rate", float("nan"), "rate must be a finite number above zero, not nan."),
        ("rate", "fast", "rate must be a finite number above zero, not fast."),
        ("plain", float("nan"), "plain must be a finite number, not nan."),
        ("amount", -0.1, "amount must be a finite number of at least zero, not -0.1."),
        ("amount", float("inf"), "amount must be a finite number of at least zero, not inf."),
        ("share", 1.1, "share must be a number from 0 to 1, not 1.1."),
        ("share", float("nan"), "share must be a number from 0 to 1, not nan."),
        ("positive", 0, "positive must be a number above 0 and at most 1, not 0."),
        ("widths", 16, "widths must be a sequence of widths, not 16."),
        ("widths", (16, 0), "each width in widths must be a whole number of at least 1, not 0."),
        ("widths", ("a",), "each width in widths must be a whole number of at least 1, not a."),
    ],
)
def test_what_is_against_a_rule_is_refused(name: str, value: Any, sentence: str) -> None:
    assert refusal(lambda: Ruled(**{name: value})) == sentence


@pytest.mark.parametrize(
    "values",
    [
        {"whole": -3, "number": 2, "switch": True, "text": "", "kind": "cold", "most": 5, "factory": ()},
        {"most": None, "number": float("inf")},
    ],
)
def test_values_of_the_right_type_are_kept(values: dict[str, Any]) -> None:
    made = Plain(**values)
    assert {name: getattr(made, name) for name in values} == values


def test_values_within_the_rules_are_kept() -> None:
    made = Ruled(count=9, rate=1, plain=-2.5, amount=0, share=1, positive=0.1, widths=())
    assert (made.rate, made.share, made.widths) == (1, 1, ())


def test_names_come_in_the_order_of_the_fields() -> None:
    assert names_of(Plain) == ("whole", "number", "switch", "text", "kind", "most", "factory")
    assert names_of(Below) == (*names_of(Plain), "extra")


def test_help_is_the_string_below_a_field_also_of_those_inherited() -> None:
    found = {one.name: one.help for one in described(Below)}
    assert found == {
        "whole": "A whole number, over two lines.",
        "number": "",
        "switch": "On, for once.",
        "text": "",
        "kind": "How it feels.",
        "most": "A limit.",
        "factory": "",
        "extra": "One more.",
    }
    assert {one.name: one.help for one in described(Plain)}["switch"] == "On or off."


def test_classes_without_source_have_no_help() -> None:
    scope: dict[str, Any] = {"Options": Options, "dataclass": dataclass}
    exec("@dataclass(frozen=True)\nclass Made(Options):\n    size: int = 3\n    'A size.'\n", scope)
    (size,) = described(scope["Made"])
    assert (size.name, size.default, size.help) == ("size", 3, "")


def test_defaults() -> None:
    found = {one.name: (one.default, one.required) for one in described(Plain)}
    assert found["whole"] == (1, False)
    assert found["factory"] == ((1, 2), False)
    assert {one.name: one.required for one in described(Needy)} == {"place": True, "size": False}


def test_what_a_type_is_without_rules_and_none() -> None:
    options = {one.name: one for one in (*described(Plain), *described(Ruled))}
    assert {name: options[name].bare for name in ("whole", "most", "count", "rate", "switch", "text")} == {
        "whole": int,
        "most": int,
        "count": int,
        "rate": float,
        "switch": bool,
        "text": str,
    }
    assert [name for name, one in options.items() if one.may_be_none] == ["most"]
    numeric = ["whole", "number", "most", "count", "rate", "plain", "amount", "share", "positive"]
    assert [name for name, one in options.items() if one.numeric] == numeric


def test_flags() -> None:
    option = find_option(Below, "extra")
    assert option is not None
    assert option.flag == "--extra"
    assert [one.flag for one in described(RunSettings)][:3] == ["--batch-size", "--batches", "--evaluate-every"]


def test_an_option_that_is_not_there() -> None:
    assert find_option(Plain, "size") is None
    assert find_option(Plain, "hidden") is None


def test_what_an_option_allows() -> None:
    most, kind = find_option(Plain, "most"), find_option(Plain, "kind")
    assert most is not None
    assert kind is not None
    assert [most.allows(value) for value in (None, 1, 0, "1")] == [True, True, False, False]
    assert [kind.allows(value) for value in ("cold", "hot")] == [True, False]


def test_reading_turns_lists_into_tuples() -> None:
    assert Ruled.read({"widths": [3, 4], "rate": 2}, "mine") == Ruled(widths=(3, 4), rate=2)
    assert Plain.read({"most": None}, "mine") == Plain()


def test_reading_refuses_what_is_unknown_or_missing() -> None:
    assert refusal(lambda: Needy.read({"place": "here", "siz": 3}, "the shop")) == (
        "There is no option 'siz' of the shop. Did you mean 'size'? Known: place, size."
    )
    assert refusal(lambda: Needy.read({"size": 3}, "the shop")) == "the shop needs the option place."
    assert refusal(lambda: Needy.read({"place": "here", "size": 0}, "the shop")) == (
        "size must be a whole number of at least 1, not 0."
    )
    assert refusal(lambda: Needy.read({"place": ["here"]}, "the shop")) == "place must be text, not ['here']."


def test_reading_gives_what_json_holds_back() -> None:
    made = Below(whole=7, factory=(4, 5), most=2)
    content = json.loads(json.dumps(asdict(made)))
    del content["hidden"]
    assert Below.read(content, "mine") == made
