"""Tables as data, and their forms: CSV with every digit, Markdown and LaTeX with rounded numbers."""

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from hindsight_rl.core.cells import harmless
from hindsight_rl.core.errors import HindsightError, shown, unknown

Kind = Literal["text", "flag", "count", "number", "rate", "spread", "interval"]
"""text; flag: a truth value; count: a whole number; number: rounded to the column's digits; rate: a number that is
searched, such as a learning rate; spread: mean and standard deviation; interval: low and high end."""
Value = str | bool | float | tuple[float | None, float | None] | None
"""None, or NaN, where there is nothing to say."""

NOTHING = "—"
"""What stands in Markdown for a value that is not there."""
_ENDS: dict[str, tuple[str, str]] = {"spread": ("mean", "std"), "interval": ("low", "high")}
_NUMBERS = ("count", "number", "rate")
_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "—": "---",
    **{character: "\\" + character for character in "&%$#_{}"},
}


@dataclass(frozen=True)
class Column:
    """What a column holds and how it is shown."""

    header: str
    kind: Kind
    digits: int = 2
    """Decimals of numbers in Markdown and LaTeX."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise unknown("kind of column", self.kind, get_args(Kind))

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the column's values in a CSV file: one, or one for each of the two ends."""
        name = re.sub(r"\W+", "_", self.header.lower()).strip("_")
        return tuple(f"{name}_{end}" for end in _ENDS[self.kind]) if self.kind in _ENDS else (name,)


@dataclass(frozen=True)
class Table:
    """A title, columns, and rows of raw values."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise HindsightError(f"The table '{self.title}' needs at least one column.")
        for row in self.rows:
            if len(row) != len(self.columns):
                raise HindsightError(
                    f"A row of the table '{self.title}' has {len(row)} values for {len(self.columns)} columns."
                )
            for column, value in zip(self.columns, row, strict=True):
                if not _fits(value, column.kind):
                    raise HindsightError(f"The column '{column.header}' holds a {column.kind}, not {value!r}.")


def to_csv(table: Table) -> str:
    """Raw values, from which every number comes back exactly; the title is left out, and nothing is an empty cell."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([field for column in table.columns for field in column.fields])
    for row in table.rows:
        pairs = zip(table.columns, row, strict=True)
        writer.writerow([text for column, value in pairs for text in _raw(value, column)])
    return buffer.getvalue()


def to_markdown(table: Table) -> str:
    """A pipe table under its title in bold."""
    headers = [_escape_markdown(column.header) for column in table.columns]
    rules = [":---" if _to_the_left(column) else "---:" for column in table.columns]
    rows = [_shown_in_markdown(row, table.columns) for row in table.rows]
    lines = ["| " + " | ".join(cells) + " |" for cells in (headers, rules, *rows)]
    return "\n".join([f"**{_escape_markdown(table.title)}**", "", *lines]) + "\n"


def to_latex(table: Table) -> str:
    """A table environment with its title as the caption; the document must load the package booktabs."""
    alignment = "".join("l" if _to_the_left(column) else "r" for column in table.columns)
    headers = [_escape_latex(column.header) for column in table.columns]
    rows = [
        [_latex(text, column) for text, column in zip(_shown(row, table.columns), table.columns, strict=True)]
        for row in table.rows
    ]
    lines = [
        r"% Needs \usepackage{booktabs} for its rules.",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_escape_latex(table.title)}}}",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        _latex_line(headers),
        r"\midrule",
        *map(_latex_line, rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _fits(value: Value, kind: Kind) -> bool:
    if isinstance(value, tuple):
        return kind in _ENDS and len(value) == 2 and all(_fits(part, "number") for part in value)
    if isinstance(value, bool):  # before numbers, as it is one
        return kind == "flag"
    if isinstance(value, int | float):
        return kind in _NUMBERS
    return value is None or (isinstance(value, str) and kind == "text")


def _raw(value: Value, column: Column) -> list[str]:
    parts = value if isinstance(value, tuple) else [value] * len(column.fields)
    # A carriage return alone would end the row for some readers.
    return ["" if _is_nothing(part) else _cell(part) for part in parts]


def _cell(part: Value) -> str:
    return harmless(re.sub(r"\r\n?", "\n", part)) if isinstance(part, str) else str(part)


def _shown(row: Sequence[Value], columns: Sequence[Column]) -> list[str]:
    return [show(value, column) for value, column in zip(row, columns, strict=True)]


def show(value: Value, column: Column) -> str:
    """The value as people read it, in plain text."""
    if isinstance(value, tuple):
        first, second = (NOTHING if part is None else _number(part, column.digits) for part in value)
        if second == NOTHING and column.kind == "spread":
            return first  # one run
        if NOTHING in (first, second):
            return NOTHING
        return f"{first} ± {second}" if column.kind == "spread" else f"[{first}, {second}]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) or value is None:
        return value or NOTHING
    if column.kind == "rate":
        return _rate(value)
    return _number(value, 0 if column.kind == "count" else column.digits)


def _number(value: float, digits: int) -> str:
    return NOTHING if math.isnan(value) else f"{value:z,.{digits}f}"  # z: what rounds to zero has no sign


def _rate(value: float) -> str:
    """As short as possible: 0.0005, 1e-5."""
    mantissa, _, exponent = f"{value:g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def _is_nothing(value: Value) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _to_the_left(column: Column) -> bool:
    return column.kind in ("text", "flag")


def _shown_in_markdown(row: Sequence[Value], columns: Sequence[Column]) -> list[str]:
    """Only text needs escapes; an escaped bracket around an interval would be a formula to some readers."""
    cells = zip(_shown(row, columns), columns, strict=True)
    return [_escape_markdown(text) if column.kind == "text" else text for text, column in cells]


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\|*_`<\[\]])", r"\\\1", shown(" ".join(text.split())))


def _latex(text: str, column: Column) -> str:
    """A cell in which numbers have a true minus sign and rates their power of ten."""
    if _to_the_left(column) or text == NOTHING:
        return _escape_latex(text)
    if column.kind == "rate" and "e" in text:
        mantissa, exponent = text.split("e")
        return rf"${mantissa} \times 10^{{{exponent}}}$"
    return _escape_latex(text).replace("-", "$-$")


def _escape_latex(text: str) -> str:
    return "".join(_LATEX_SPECIAL.get(character, character) for character in shown(" ".join(text.split())))


def _latex_line(cells: Sequence[str]) -> str:
    line = " & ".join(cells)
    # LaTeX would take a bracket or a star at the beginning of a row for an argument of the row's predecessor.
    return ("{}" if line.startswith(("[", "*")) else "") + line + r" \\"
