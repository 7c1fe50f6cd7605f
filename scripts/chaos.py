"""Random faults for some minutes, counted by kind: `python scripts/chaos.py --minutes 30 --seed 1`."""

import argparse
import secrets
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from reference.chaos import FAST, SLOW, Broken, Chaos

SLOW_SHARE = 0.3
"""The part of the time that goes to trials in processes of their own."""


def main() -> None:
    """Make trials until the time is over; the exit code is 1 when a promise did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=None)
    chosen = parser.parse_args()
    seed = secrets.randbelow(2**32) if chosen.seed is None else chosen.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(trials(Chaos(Path(folder), seed), chosen.minutes * 60))


def trials(chaos: Chaos, seconds: float) -> int:
    """Trials of every kind in turn; prints how many there were, how many made the program speak, and what broke."""
    tried: Counter[str] = Counter()
    spoke: Counter[str] = Counter()
    broken: list[str] = []
    began, slow_seconds = time.monotonic(), 0.0
    while (passed := time.monotonic() - began) < seconds:
        kinds = SLOW if slow_seconds < SLOW_SHARE * passed else FAST
        name = min(kinds, key=lambda kind: tried[kind])
        start = time.monotonic()
        tried[name] += 1
        try:
            spoke[name] += kinds[name](chaos)
        except Broken as error:
            broken.append(f"{name}, trial {tried[name]}: {error}")
            print(f"BROKEN {broken[-1]}", flush=True)
        slow_seconds += (time.monotonic() - start) * (kinds is SLOW)
    for name in (*FAST, *SLOW):
        print(f"{name:<20}{tried[name]:>6} trials, {spoke[name]:>6} refused or named")
    print(f"{'all':<20}{sum(tried.values()):>6} trials, {len(broken)} broken, {seconds / 60:g} minutes")
    return int(bool(broken))


if __name__ == "__main__":
    main()
