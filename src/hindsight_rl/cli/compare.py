"""`hindsight compare` and `hindsight runs`."""

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from rich.table import Table as RichTable

from hindsight_rl.analysis.inventory import filtered, inventory, ordered
from hindsight_rl.analysis.tables import Table, show
from hindsight_rl.cli.console import PlainConsole
from hindsight_rl.cli.looking_commands import Compare, RunList
from hindsight_rl.core.errors import HindsightError, unknown
from hindsight_rl.records.files import make_folder, write_atomically


def run_compare(command: Compare) -> None:
    """Read everything before anything is written, so that a mistake leaves no figure behind."""
    from hindsight_rl.analysis.beside.shown import comparison_figure, comparison_table, settings_table
    from hindsight_rl.analysis.beside.summaries import differing_settings, panels
    from hindsight_rl.analysis.figures import figure_bytes

    kind = _figure_format(command.output)
    entries = _chosen(command)
    found = panels(entries, command.over, command.by)
    differing = differing_settings(entries)
    output = command.output or _new_file("comparison.png")
    make_folder(output.parent)
    write_atomically(output, figure_bytes(comparison_figure(found, command.over), kind))
    if command.json:
        shown = [{**asdict(row), "compared_up_to": panel.extent} for panel in found for row in panel.rows]
        settings = {name: dict(zip([one.name for one in entries], values, strict=True))
                    for name, values in differing.items()}  # fmt: skip
        head = {"over": command.over, "by": command.by, "figure": str(output)}
        print(json.dumps({**head, "entries": shown, "differing_settings": settings}))
        return
    console = PlainConsole()
    for panel in found:
        _print(console, comparison_table(panel, command.by))
        if panel.extent < panel.longest:
            console.print(f"Compared up to {panel.extent:,.0f} {command.over}, where the shortest ends.")
    if differing:
        console.print()
        _print(console, settings_table(entries, differing))
    console.print(f"\nFigure: {output}", soft_wrap=True)


def _chosen(command: Compare) -> list[Any]:
    from hindsight_rl.analysis.beside.entries import distinctly_named, read_entries

    found = [entry for source in command.sources for entry in read_entries(source)]
    for field, wanted in (("environment", command.environments), ("method", command.methods)):
        held = dict.fromkeys(getattr(entry, field) for entry in found)
        for name in wanted:
            if name not in held:
                raise unknown(f"{field} in what is compared", name, held)
        found = [entry for entry in found if not wanted or getattr(entry, field) in wanted]
    if len(found) < 2:
        raise HindsightError(f"There is nothing to compare: {len(found)} of two or more are left.")
    return distinctly_named(found)


def _figure_format(output: Path | None) -> Any:
    from hindsight_rl.analysis.figures import Format

    kind = "png" if output is None else output.suffix.removeprefix(".")
    if kind not in get_args(Format):
        raise HindsightError(f"'{output}' must end in .png, .svg or .pdf, which says what to write.")
    return kind


def _new_file(name: str) -> Path:
    """A name in the current folder that is not taken."""
    path = Path(name)
    numbered = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(2))
    return next(one for one in itertools.chain([path], numbered) if not one.exists())


def run_list(command: RunList) -> None:
    """What lies below a folder."""
    items = ordered(filtered(inventory(command.folder), command.filter), command.sort)
    if command.json:
        print(json.dumps([asdict(item) for item in items]))
        return
    console = PlainConsole()
    if not items:
        which = " that fits" if command.filter else ""
        console.print(f"There is no run and no study{which} at or below '{command.folder}'.", soft_wrap=True)
        return
    headers = ("name", "environment", "method", "state", "done", "return", "success", "age")
    _print_rows(console, headers, [_line(asdict(item)) for item in items], numbers=4)
    for item in items:
        if item.state == "damaged":
            console.print(f"{item.name}: {item.left}", soft_wrap=True)


def _line(item: dict[str, Any]) -> list[str]:
    unit = "batches" if item["kind"] == "run" else "runs"
    done = f"{item['done']:,}/{item['planned']:,} {unit}" if item["planned"] else "-"
    numbers = ["-" if item[name] is None else f"{item[name]:.2f}" for name in ("last_return", "success_rate")]
    names = [item[name] or "-" for name in ("name", "environment", "method", "state")]
    return [*names, done, *numbers, age(time.time() - item["changed"])]


def age(seconds: float) -> str:
    """How long ago, in one unit: `12 s`, `3 min`, `5 h`, `2 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def _print(console: PlainConsole, table: Table) -> None:
    console.print(table.title, soft_wrap=True)
    headers = [column.header for column in table.columns]
    rows = [[show(value, column) for value, column in zip(row, table.columns, strict=True)] for row in table.rows]
    texts = sum(column.kind == "text" for column in table.columns)
    _print_rows(console, headers, rows, numbers=len(headers) - texts)


def _print_rows(console: PlainConsole, headers: Sequence[str], rows: Sequence[Sequence[str]], numbers: int) -> None:
    """A table without lines; the last columns hold numbers. On a narrow terminal, headers and names take more lines."""
    table = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for header, right in zip(headers, _from_the_right(len(headers), numbers), strict=True):
        table.add_column(header, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _from_the_right(columns: int, numbers: int) -> Iterator[bool]:
    return (place >= columns - numbers for place in range(columns))
