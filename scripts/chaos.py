"""Random faults for some minutes, counted by kind: `python scripts/chaos.py --minutes 30 --seed 1`.

Two processes make trials at the same time: one damages files and input, the other one stops processes and hosts
environments that mean harm.
"""

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
os.environ["JAX_PLATFORMS"] = "cpu"

PARTS = ("here", "processes")
SECONDS_AT_LEAST = 0.25
"""All kinds get the same time, but the quickest count as if they took so long."""
NOES = ("lost", "silent", "traceback", "memory")


def main() -> None:
    """Make trials until the time is over; the exit code is 1 when a promise did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--part", choices=PARTS, default=None, help="only one of the two processes")
    parser.add_argument("--only", default="", help="only kinds whose names hold this")
    chosen = parser.parse_args()
    seed = secrets.randbelow(2**32) if chosen.seed is None else chosen.seed
    for number in (signal.SIGINT, signal.SIGHUP):  # which a shell's background and nohup ignore, and so would trials
        signal.signal(number, signal.default_int_handler)
    if chosen.part:
        sys.exit(make_trials(chosen.part, seed, chosen.minutes * 60, chosen.only))
    print(f"seed {seed}", flush=True)
    flags = ["--minutes", str(chosen.minutes), "--seed", str(seed), "--only", chosen.only]
    parts = [
        subprocess.Popen([sys.executable, __file__, "--part", part, *flags], stdout=subprocess.PIPE, text=True)
        for part in PARTS
    ]
    sys.exit(summed_up([_followed(part) for part in parts], chosen.minutes))


def _followed(part: "subprocess.Popen[str]") -> list[str]:
    """What a part printed; the line of a promise that did not hold was shown when it came, on standard error."""
    assert part.stdout is not None
    lines = part.stdout.read().splitlines()
    part.wait()
    return lines


def summed_up(outputs: list[list[str]], minutes: float) -> int:
    """Print the counts of all parts."""
    counts = [json.loads(lines[-1]) for lines in outputs if lines]
    if len(counts) < len(outputs):
        print("A part of the trials came to no end.")
    for name, (tried, noticed) in [pair for count in counts for pair in count["kinds"].items()]:
        print(f"{name:<26}{tried:>6} trials, {noticed:>6} refused, named or stopped")
    total = sum(tried for count in counts for tried, _ in count["kinds"].values())
    broken = [sentence for count in counts for sentence in count["broken"]]
    noes = ", ".join(f"{sum(one.partition(': ')[2].startswith(no) for one in broken)} {no}" for no in NOES)
    peak = max((count["gigabytes"] for count in counts), default=0.0)
    print(f"{'all':<26}{total:>6} trials, {len(broken)} broken ({noes}), {minutes:g} minutes, at most {peak:.1f} GB")
    for sentence in broken:
        print(f"BROKEN {sentence}")
    return int(bool(broken) or len(counts) < len(outputs))


def make_trials(part: str, seed: int, seconds: float, only: str) -> int:
    """Trials of every kind in turn, the cheap ones more often; prints the counts as JSON."""
    import pytest
    from reference.chaos import Broken, Chaos, make_trial
    from reference.chaos_kinds import KINDS

    kinds = {name: trial for name, trial in KINDS[part].items() if only in name}
    tried: Counter[str] = Counter()
    noticed: Counter[str] = Counter()
    spent = dict.fromkeys(kinds, 0.0)
    broken: list[str] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        chaos = Chaos(Path(folder), seed, pytest.MonkeyPatch())
        while kinds and time.monotonic() - began < seconds:
            name = min(kinds, key=lambda kind: spent[kind] + SECONDS_AT_LEAST * tried[kind])
            start = time.monotonic()
            tried[name] += 1
            try:
                noticed[name] += make_trial(chaos, kinds[name])[0]
            except Exception as error:  # what the trials themselves do wrong shows nothing either
                said = str(error) if isinstance(error, Broken) else traceback.format_exc()
                broken.append(f"{name}, trial {tried[name]}: {said}")
                print(f"BROKEN {broken[-1]}", file=sys.stderr, flush=True)
            spent[name] += time.monotonic() - start
    print(json.dumps(_counts({name: (tried[name], noticed[name]) for name in kinds}, broken)))
    return int(bool(broken))


def _counts(kinds: Mapping[str, tuple[int, int]], broken: list[str]) -> dict[str, object]:
    import resource

    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {"kinds": kinds, "broken": broken, "gigabytes": peak / 1e6}


if __name__ == "__main__":
    main()
