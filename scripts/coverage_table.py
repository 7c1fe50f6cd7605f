"""What `make coverage` prints: the files of which tests run less than nine tenths, the worst first, and the total."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import coverage
from coverage.exceptions import CoverageException
from rich.console import Console
from rich.table import Table

ENOUGH = 90.0


def main() -> None:
    """Read the measurement in this folder and print it."""
    found = measured()
    files = sorted(found["files"].items(), key=lambda item: item[1]["summary"]["percent_covered"])
    below = [(name, file) for name, file in files if file["summary"]["percent_covered"] < ENOUGH]
    table = Table(title=f"Below {ENOUGH:.0f} %: {len(below)} of {len(files)} files")
    for name in ("file", "lines", "not run", "covered"):
        table.add_column(name, justify="left" if name == "file" else "right", no_wrap=True)
    for name, file in below:
        table.add_row(name, *numbers(file["summary"]))
    table.add_section()
    table.add_row(f"all {len(files)} files", *numbers(found["totals"]))
    Console(width=120, highlight=False).print(table)


def measured() -> dict[str, Any]:
    """Files and totals, as coverage's JSON report has them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        try:
            reader = coverage.Coverage()
            reader.load()
            reader.json_report(outfile=str(path))
        except CoverageException as error:
            sys.exit(f"There is nothing to show: {error} Run `make coverage`.")
        return json.loads(path.read_text(encoding="utf-8"))


def numbers(summary: dict[str, Any]) -> tuple[str, str, str]:
    """Lines, those that are not run, and the share of lines and branches that are."""
    lines, missing = summary["num_statements"], summary["missing_lines"]
    return f"{lines:,}", f"{missing:,}", f"{summary['percent_covered']:.1f} %"


if __name__ == "__main__":
    main()
