"""What the compiled training programs of two checkouts compute: other work on the machine cannot change the comparison.

`python benchmarks/compiled_work.py OLD_SRC NEW_SRC`, with the folders that hold the packages. For each cell of
before_after.py, each side trains two batches in a process of its own, while XLA writes down the program that it made of
them. Counted are its instructions and the numbers that they compute, of a loop's body those of one turn. Programs
that compute the same numbers in the same matrix products take the same time, but for what the loop around them does.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from math import prod
from pathlib import Path
from typing import NamedTuple

from before_after import CELLS, Cell, import_package
from rich.console import Console
from rich.table import Table

INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?[\w.\-]+ = \(?\w+\[([\d,]*)\]\S* ([\w\-]+)\(")
FREE = {"parameter", "get-tuple-element", "bitcast", "constant", "tuple"}
"""Instructions that compute nothing."""
TRAINS = re.compile(r"jit_+(advance|update)\b")
"""The names of programs that train: many batches, or one batch of a hosted environment."""
PRODUCTS = {"dot", "custom-call", "convolution"}


class Work(NamedTuple):
    """What a program computes."""

    instructions: int
    numbers: int
    products: Counter[str]
    """Matrix products, by the shape of what comes out."""


def main() -> None:
    """Compile, count and print; ends with 1 where a program computes more than the limit allows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path, help="the folder that holds the package as it was")
    parser.add_argument("new", type=Path, help="the folder that holds it as it is")
    names = [cell.name for cell in CELLS]
    parser.add_argument("--cells", nargs="+", choices=names, metavar="CELL", help=f"some of {', '.join(names)}")
    parser.add_argument("--limit", type=float, default=1.03, help="the highest new / old that is not more")
    arguments = parser.parse_args()
    console = Console(width=120, highlight=False)
    table = Table(title="What the compiled programs compute")
    for column in ("cell", "instructions", "numbers", "new / old", "same products"):
        table.add_column(column, justify="left" if column == "cell" else "right")
    more = []
    for number, cell in enumerate(CELLS):
        if arguments.cells and cell.name not in arguments.cells:
            continue
        console.print(f"  compiling {cell.name}")
        old, new = (compiled(number, cell, source.resolve()) for source in (arguments.old, arguments.new))
        ratio = new.numbers / old.numbers
        if ratio > arguments.limit:
            more.append(cell.name)
        both = [f"{before:,} / {after:,}" for before, after in zip(old[:2], new[:2], strict=True)]
        table.add_row(cell.name, *both, f"{ratio:.4f}", "yes" if old.products == new.products else "no")
    console.print(table)
    sys.exit(f"More than {arguments.limit:g} of the old: {', '.join(more)}." if more else 0)


def compiled(number: int, cell: Cell, source: Path) -> Work:
    """The work of the program that trains a cell, compiled from one checkout."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (source, Path(__file__).resolve().parent))),
            "JAX_ENABLE_COMPILATION_CACHE": "false",
            "XLA_FLAGS": f"--xla_dump_to={folder} --xla_dump_hlo_as_text",
        }
        program = f"import compiled_work; compiled_work.train({number}, {str(source)!r})"
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{cell.name} cannot be trained with {source}:\n{done.stderr}")
        paths = [path for path in Path(folder).glob("*cpu_after_optimizations.txt") if TRAINS.search(path.name)]
        works = [work(path.read_text()) for path in paths]
    return max(works, key=lambda one: one.numbers)


def train(number: int, source: str) -> None:
    """In the process: train two batches."""
    cell, package = CELLS[number], import_package(Path(source))
    package.train(
        cell.environment.replace("PACKAGE", package.__name__),
        method=cell.method,
        batch_size=cell.batch_size,
        batches=2,
        evaluate_every=2,
        evaluation_episodes=16,
    )


def work(text: str) -> Work:
    """Count what stands in a program."""
    instructions, numbers, products = 0, 0, Counter[str]()
    for line in text.splitlines():
        if not (found := INSTRUCTION.match(line)) or found[2] in FREE:
            continue
        instructions += 1
        numbers += prod(int(size) for size in found[1].split(",") if size)
        if found[2] in PRODUCTS:
            products[found[1]] += 1
    return Work(instructions, numbers, products)


if __name__ == "__main__":
    main()
