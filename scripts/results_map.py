"""The map of methods: how soon each of them learns each environment, into results/map. Run it with `make results-map`.

It gathers what results/ holds, and makes the runs on compiled environments that are missing: five fresh seeds each, an
hour or so on one core. Every finished run is saved at once, and none is made twice: a second start goes on.

    python scripts/results_map.py                                    # what is missing, then tables and figure
    python scripts/results_map.py --environments four-rooms --methods hpg
    python scripts/results_map.py --methods hppo --again             # in place of what is there
    python scripts/results_map.py --no-runs                          # tables and figure from what is there
"""

import argparse
from pathlib import Path

from map_gather import committed, fresh
from map_report import write_report
from map_runs import BATCHES, METHODS, STABLE_BASELINES, read_rows, train, wanted, write_rows

from hindsight_rl.training.compilation import keep_compiled_programs

RESULTS = Path(__file__).parent.parent / "results"
FOLDER = RESULTS / "map"
ROWS = FOLDER / "evaluations.parquet"


def main() -> None:
    """Train what is missing, then write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = (*METHODS, STABLE_BASELINES)
    parser.add_argument("--environments", nargs="+", choices=BATCHES, default=list(BATCHES))
    parser.add_argument("--methods", nargs="+", choices=known, default=list(known))
    parser.add_argument("--seeds", type=int, help="only so many of the seeds")
    parser.add_argument("--no-runs", action="store_true", help="train nothing")
    parser.add_argument("--again", action="store_true", help="replace the runs that are there, as after new defaults")
    arguments = parser.parse_args()
    keep_compiled_programs()
    rows = read_rows(ROWS)
    done = set() if arguments.again else {row[:3] for row in rows}
    for cell in [] if arguments.no_runs else wanted(arguments.environments, arguments.methods, arguments.seeds):
        name = (cell.environment, cell.method, cell.seed)
        if name not in done:
            found = train(cell)
            rows = [*(row for row in read_rows(ROWS) if row[:3] != name), *found]
            write_rows(ROWS, rows)
            print(f"{cell.environment}, {cell.method}, seed {cell.seed}: {found[-1][3:]}", flush=True)
    write_report(FOLDER, [*fresh(rows), *committed(RESULTS)])


if __name__ == "__main__":
    main()
