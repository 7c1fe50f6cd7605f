"""Updates per second of two checkouts of this library, measured in turns: did a change make training slower?

`python benchmarks/before_after.py OLD_SRC NEW_SRC`, with the folders that hold the packages. Each measurement is a
process of its own that trains through the public `train`; compiling is over before its clock starts. The two take turns
(old new, new old, ...), and each round's ratio is of two measurements right after one another. A cell is slower when
the median of its ratios is below the limit.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

PACKAGES = ("hindsight_rl", "hindsight")
"""The names that the library has had, the newest first."""
PARTS = 3
"""Evaluations after the first one. The part before the first of them does not count: in it what is hosted compiles."""


@dataclass(frozen=True)
class Cell:
    """A training job, and about how many updates it makes in a second: only the length of a measurement rests on it."""

    environment: str
    """In which PACKAGE stands for the name of the library."""
    batch_size: int
    method: str
    guess: float

    @property
    def name(self) -> str:
        """As it is chosen and printed."""
        return f"{self.environment.rpartition('/')[2]}:{self.batch_size}:{self.method}"


CELLS = (
    *(Cell("bit-flipping-8", 2, method, guess) for method, guess in (("hpg", 700), ("gcpg", 1500), ("hpg+b", 250))),
    *(Cell("bit-flipping-8", 16, method, guess) for method, guess in (("hpg", 60), ("gcpg", 500), ("hpg+b", 20))),
    Cell("bit-flipping-16", 16, "hpg", 12),
    Cell("bit-flipping-16", 16, "dqn+her", 12),
    Cell("four-rooms", 16, "hpg", 20),
    Cell("empty-room", 2, "hpg", 300),
    Cell("gym:PACKAGE.environments.as_gymnasium:hindsight/FourRooms-v0", 16, "hpg", 3),
)


def main() -> None:
    """Measure and print; ends with 1 where a cell is slower than the limit allows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path, help="the folder that holds the package as it was")
    parser.add_argument("new", type=Path, help="the folder that holds it as it is")
    names = [cell.name for cell in CELLS]
    parser.add_argument("--cells", nargs="+", choices=names, metavar="CELL", help=f"some of {', '.join(names)}")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each side in each cell")
    parser.add_argument("--seconds", type=float, default=8.0, help="about how long each of them trains")
    parser.add_argument("--limit", type=float, default=0.97, help="the lowest median of new / old that is not slower")
    busy = "measure processor time, which other work on the machine hardly changes"
    parser.add_argument("--busy", action="store_true", help=busy)
    arguments = parser.parse_args()
    cells = [cell for cell in CELLS if not arguments.cells or cell.name in arguments.cells]
    console = Console(width=120, highlight=False)
    console.print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before we begin")
    what = "processor second" if arguments.busy else "second"
    table = Table(title=f"Updates per {what}: medians, and new / old (lowest and highest of {arguments.rounds})")
    for column in ("cell", "old", "new", "new / old", "range", "same curve", ""):
        table.add_column(column, justify="left" if column in ("cell", "") else "right")
    slower = []
    with tempfile.TemporaryDirectory() as cache:
        for cell in cells:
            console.print(f"  measuring {cell.name}")
            found = measure(cell, {"old": arguments.old, "new": arguments.new}, arguments, Path(cache))
            ratios = [new["rate"] / old["rate"] for old, new in zip(found["old"], found["new"], strict=True)]
            if median(ratios) < arguments.limit:
                slower.append(cell.name)
            table.add_row(
                cell.name,
                *(f"{median(one['rate'] for one in found[side]):.1f}" for side in ("old", "new")),
                f"{median(ratios):.3f}",
                f"{min(ratios):.3f}-{max(ratios):.3f}",
                "yes" if found["old"][0]["returns"] == found["new"][0]["returns"] else "no",
                "slower" if cell.name in slower else "",
            )
    console.print(table)
    sys.exit(f"Slower than {arguments.limit:g} of the old: {', '.join(slower)}." if slower else 0)


def measure(
    cell: Cell, sources: Mapping[str, Path], arguments: argparse.Namespace, cache: Path
) -> dict[str, list[dict[str, Any]]]:
    """What each side measured, round by round; who comes first changes with the round."""
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in sources}
    for number in range(arguments.rounds):
        for side in list(sources)[:: -1 if number % 2 else 1]:
            found[side].append(in_process(cell, sources[side], arguments, cache / side))
    return found


def in_process(cell: Cell, source: Path, arguments: argparse.Namespace, cache: Path) -> dict[str, Any]:
    """Train in a process that sees one checkout; what the first round compiled, the others read from the cache."""
    given = (asdict(cell), str(source.resolve()), arguments.seconds, arguments.busy)
    program = f"import before_after; before_after.train_and_print(*{given!r})"
    paths = os.pathsep.join(map(str, (source.resolve(), Path(__file__).resolve().parent)))
    environment = {**os.environ, "PYTHONPATH": paths, "JAX_COMPILATION_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{cell.name} cannot be trained with {source}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def train_and_print(cell: dict[str, Any], source: str, seconds: float, busy: bool) -> None:
    """In the process: train, and print updates per second and the evaluated returns."""
    chosen, package = Cell(**cell), import_package(Path(source))
    clock = time.process_time if busy else time.perf_counter
    seen: list[float] = []
    returns: list[float] = []

    def report(snapshot: Any) -> None:
        seen.append(clock())
        returns.append(float(snapshot.evaluations.mean_returns[0, -1]))

    part = max(1, round(chosen.guess * seconds / (PARTS - 1)))
    package.train(
        chosen.environment.replace("PACKAGE", package.__name__),
        report,
        method=chosen.method,
        batch_size=chosen.batch_size,
        batches=PARTS * part,
        evaluate_every=part,
        evaluation_episodes=16,
    )
    print(json.dumps({"rate": (PARTS - 1) * part / (seen[-1] - seen[1]), "returns": returns}))


def import_package(source: Path) -> Any:
    """The library in a folder, under the name that it has there; not another that is installed."""
    name = next((name for name in PACKAGES if (source / name).is_dir()), None)
    if name is None:
        sys.exit(f"There is neither of {' and '.join(PACKAGES)} in {source}.")
    package = import_module(name)
    if not Path(str(package.__file__)).is_relative_to(source):
        sys.exit(f"{name} was imported from {package.__file__}, not from {source}.")
    return package


if __name__ == "__main__":
    main()
