"""Errors meant for people: one sentence that names the wrong value, the allowed ones and the nearest match."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

LONGEST_GIST = 500
"""Characters of a stranger's message that are worth showing."""
LONGEST_SENTENCE = 4000
"""Characters of a sentence of ours, which may repeat what somebody named; all that a path can hold almost fits."""


_NO_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory allocating")


class HindsightError(ValueError):
    """A mistake in what the user asked for, or damage found on disk; its message is one clear sentence."""


def unknown(kind: str, name: str, options: Iterable[str]) -> HindsightError:
    """The error for a name that is not registered, with the nearest match first.

    A `kind` may say where the name was looked for: "setting of hppo".
    """
    options = list(options)
    kind, *where = re.split(r"(?= of | in | to )", kind, maxsplit=1)
    nearest = _initials(name, options) or get_close_matches(name, options, n=1, cutoff=0.4)
    hint = f" Did you mean '{nearest[0]}'?" if nearest else ""
    known = f"Known: {', '.join(options)}." if options else "There is none at all."
    return HindsightError(f"There is no {kind} '{name}'{''.join(where)}.{hint} {known}")


def _initials(name: str, options: Iterable[str]) -> list[str]:
    """What a name abbreviates: `--lr` is `--learning-rate`."""
    short = name.strip("-").lower()
    words = ((option, re.split(r"[-_ ]+", option.strip("-"))) for option in options)
    return [option for option, parts in words if len(parts) > 1 and "".join(part[:1] for part in parts) == short][:1]


def fault_of_machine(error: BaseException) -> str | None:
    """A sentence for what the machine is to blame for: memory, files, or a backend of JAX that is not there."""
    if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
        return f"The memory does not suffice ({gist(error)}): lower the batch size, the widths of layers or the runs."
    if isinstance(error, SystemError) or _not_loaded(error):
        return f"Python cannot go on ({gist(error)}), for want of memory as a rule: lower what it has to hold."
    if isinstance(error, OverflowError) and "out of bounds for int32" in str(error):
        return f"This is more than 32 bits can count ({gist(error)}): lower the batch size or the episodes."
    if isinstance(error, OSError):
        about = f" ('{error.filename}')" if error.filename else ""
        return f"The system refused: {error.strerror or gist(error)}{about}."
    if "Unable to initialize backend" in str(error) or "nknown backend" in str(error):
        return f"JAX cannot start ({gist(error)}): the environment variable JAX_PLATFORMS may be wrong."
    if found := re.search(r"invalid .* for environment '(\w+)'", str(error)):
        return f"JAX cannot start ({gist(error)}): the environment variable {found[1]} is wrong."
    return None


def _not_loaded(error: BaseException) -> bool:
    """Whether a part of a package was there, but had no room."""
    return isinstance(error, ImportError) and any(word in str(error) for word in ("failed to map", "annot allocate"))


def shown(text: str) -> str:
    """Text as a terminal or a table can show it: what would steer either of them is written out (a bell as \\x07)."""
    return "".join(one if one.isprintable() or one in "\n\t" else repr(one)[1:-1] for one in text)


def in_a_line(name: object) -> str:
    """A name that somebody chose, as a list with a line for each thing can show it."""
    return shown(str(name)).replace("\n", "\\n").replace("\t", "\\t")


def one_sentence(text: str) -> str:
    """A sentence in one line that people can read, whatever went into it."""
    line = shown(text.strip().replace("\n", " "))
    return line if len(line) <= LONGEST_SENTENCE else f"{line[:LONGEST_SENTENCE]} ... ({len(line):,} characters)"


def gist(error: BaseException) -> str:
    """What a stranger's code complains about, in one line."""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or ['no message'])[0][:LONGEST_GIST]}"
