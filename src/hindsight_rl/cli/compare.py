"""`hindsight compare` and `hindsight runs`."""

import itertools
import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

from rich.table import Table as RichTable

from hindsight_rl.analysis.inventory import Item, filtered, inventory, ordered
from hindsight_rl.analysis.tables import NOTHING, Table, show
from hindsight_rl.cli.console import PlainConsole
from hindsight_rl.cli.looking_commands import Compare, RunList
from hindsight_rl.core.errors import HindsightError, in_a_line, unknown
from hindsight_rl.records.files import make_folder, write_atomically


def run_compare(command: Compare) -> None:
    """Read everything before anything is written, so that a mistake leaves no figure behind."""
    from hindsight_rl.analysis.beside.shown import comparison_figure, comparison_table, full_names, settings_table
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
        names = full_names(entries)
        settings = {setting: dict(zip(names, values, strict=True)) for setting, values in differing.items()}
        head = {"over": command.over, "by": command.by, "figure": str(output)}
        print(json.dumps({**head, "entries": shown, "differing_settings": settings}))
        return
    console = PlainConsole()
    for panel in found:
        _print(console, comparison_table(panel, command.by))
        if panel.extent < panel.longest:
            console.print(f"Compared up to {panel.extent:,.0f} {command.over}, where the shortest ends.")
    console.print(f"Interquartile means of the {command.by.replace('_', ' ')}; all numbers are in --json.")
    if differing:
        console.print()
        _print_settings(console, settings_table(entries, differing))
    console.print(f"\nFigure: {output}", soft_wrap=True)


def _chosen(command: Compare) -> list[Any]:
    from hindsight_rl.analysis.beside.entries import gather

    found = gather(command.sources)
    for field, wanted in (("environment", command.environments), ("method", command.methods)):
        held = dict.fromkeys(getattr(entry, field) for entry in found)
        for name in wanted:
            if name not in held:
                raise unknown(f"{field} in what is compared", name, held)
        found = [entry for entry in found if not wanted or getattr(entry, field) in wanted]
    if len(found) < 2:
        raise HindsightError(f"There is nothing to compare: {len(found)} of two or more are left.")
    return found


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
    headers = ["name", "environment", "method", "state", "done", "return", "age"]
    lines = [headers, *(_line(item) for item in items)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:  # one line each, however narrow the terminal is: people filter such lists
        console.print("  ".join(map(str.ljust, line, widths)).rstrip(), soft_wrap=True)
    for item in items:
        if item.state == "damaged":
            console.print(f"{in_a_line(item.name)}: {in_a_line(item.left)}", soft_wrap=True)


def _line(item: Item) -> list[str]:
    done = f"{item.done:,}/{item.planned:,}" if item.planned else "-"
    done += " runs" if item.kind == "study" else ""
    last = "-" if item.last_return is None else f"{item.last_return:.2f}"
    names = [_several(item.environment, "environments"), _several(item.method, "methods")]
    return [*map(in_a_line, (item.name, *names)), item.state, done, last, age(time.time() - item.changed)]


def _several(names: str, noun: str) -> str:
    """A study has a number of them; one that cannot be read has none."""
    return f"{names.count(', ') + 1} {noun}" if ", " in names else names or "-"


def age(seconds: float) -> str:
    """How long ago, in one unit: `12 s`, `3 min`, `5 h`, `2 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def _print(console: PlainConsole, table: Table) -> None:
    """A table without lines, in which names may take several lines but numbers may not."""
    console.print(table.title, soft_wrap=True)
    shown = RichTable(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in table.columns:
        text = column.kind == "text"
        shown.add_column(column.header, justify="left" if text else "right", no_wrap=not text, overflow="fold")
    for row in table.rows:
        shown.add_row(*(show(value, column) for value, column in zip(row, table.columns, strict=True)))
    console.print(shown)


def _print_settings(console: PlainConsole, table: Table) -> None:
    """Settings of all first; then those that some have alone, all of them in a line for each such group."""
    names = [column.header for column in table.columns[1:]]
    shared, alone = [], dict[tuple[str, ...], list[str]]()
    for setting, *values in table.rows:
        having = {name: str(value) for name, value in zip(names, values, strict=True) if value is not None}
        if len(having) < len(names) and len(set(having.values())) == 1:
            alone.setdefault(tuple(having), []).append(f"{setting} {next(iter(having.values()))}")
        else:
            shared.append((setting, *values))
    _print_values(console, replace(table, rows=tuple(shared)), names)
    for holders, settings in alone.items():
        console.print(f"Only {'; '.join(holders)}: {', '.join(settings)}", soft_wrap=True)


def _print_values(console: PlainConsole, table: Table, names: list[str]) -> None:
    """A column for each entry where that fits, else a line for each setting with the entries of each value."""
    if 24 + sum(max(len(name), 8) + 2 for name in names) <= console.width:
        _print(console, table)
        return
    console.print(table.title, soft_wrap=True)
    for setting, *values in table.rows:
        by_value: dict[str, list[str]] = {}
        for name, value in zip(names, values, strict=True):
            by_value.setdefault(str(value or NOTHING), []).append(name)
        console.print(f"{setting}:", soft_wrap=True)
        for value, of in by_value.items():
            console.print(f"  {value}: {'; '.join(of)}", soft_wrap=True)
