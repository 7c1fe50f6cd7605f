"""What the parser of arguments complains about in boxes of many lines, in a sentence."""

import itertools
import re

_RULES = set("│╭╮╰╯─-| ")
"""What boxes are made of; where the terminal knows only ASCII, the first line has a rule below it."""


def sentence(box: str) -> str:
    """The gist of a box, in the words of somebody who has typed a command."""
    lines = ["" if set(line) <= _RULES else line.strip("│ ") for line in box.splitlines()[1:]]
    gist = " ".join(itertools.takewhile(bool, itertools.dropwhile(lambda line: not line, lines))).rstrip(".")
    # The choices of a flag that may be left out are listed as a set, in any order and with None.
    gist = re.sub(r"(?<=Expected one of )\(.*\)", lambda found: _choices(found[0]), gist)
    gist = re.sub(r"^Missing from (.*?): (\S+) (.*?)\.? \(required\)$", r"'\1' needs \2: \3", gist)
    gist = re.sub(r"^Expected one of \{(.*)\}$", r"Say which of these is to be done: \1", gist)
    gist = re.sub(r"^Error parsing (\S+): (.*)$", lambda found: _wrong_value(found[1], found[2]), gist)
    gist = re.sub(r"^Missing value for argument '(.*)'\. Expected 1 values$", r"\1 needs a value", gist)
    return gist.replace("Unrecognized options:", "Not understood:")


def _choices(listed: str) -> str:
    return ", ".join(sorted(choice for choice in re.findall(r"'(.*?)'", listed) if choice != "None"))


def _wrong_value(flag: str, complaint: str) -> str:
    """Which kind of value the flag takes, where the complaint tells."""
    given = re.search(r"\['(.*)'\]$|: '(.*)'$", complaint)
    if given is None:
        return f"{flag} is wrong: {complaint}"
    value = given[1] if given[2] is None else given[2]
    if "int()" in complaint or "|INT " in complaint:
        return f"{flag} must be a whole number, not '{value}'"
    if "to float" in complaint or "|FLOAT " in complaint:
        return f"{flag} must be a number, not '{value}'"
    return f"{flag} cannot be '{value}'"
