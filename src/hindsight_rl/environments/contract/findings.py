"""What a check came to, and how checks are run."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from hindsight_rl.core.errors import HindsightError, gist


class Finding(NamedTuple):
    """What a check came to."""

    check: str
    """Its name."""
    passed: bool
    sentence: str
    """What was found, or what is wrong."""


class Broken(Exception):
    """Raised by a check: the sentence says what is wrong."""


class Check(NamedTuple):
    """A check of some subject: gives a sentence on what was found, or raises `Broken`."""

    name: str
    run: Callable[[Any], str]
    needed: bool = False
    """Whether the checks after it make no sense if it fails."""


def require(holds: object, sentence: str) -> None:
    """Say what is wrong unless something holds."""
    if not holds:
        raise Broken(sentence)


def run_checks(checks: Iterable[Check], subject: Any) -> Iterator[Finding]:
    """What each check comes to; none is run after one that the rest needs has failed."""
    for check in checks:
        try:
            yield Finding(check.name, True, check.run(subject))
        except Exception as error:  # Whatever a stranger's code raises.
            told = isinstance(error, Broken | HindsightError)
            yield Finding(check.name, False, str(error) if told else f"It raised {gist(error)}.")
            if check.needed:
                return


def describe(findings: Iterable[Finding]) -> str:
    """A line for each finding, and how many failed."""
    found = list(findings)
    lines = [f"{'passed' if one.passed else 'FAILED'}  {one.check}: {one.sentence}" for one in found]
    failed = sum(not one.passed for one in found)
    return "\n".join([*lines, f"{len(found)} checks, {failed} failed."])
