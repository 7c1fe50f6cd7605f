"""Kill parts of Ray at random while a study runs on it: `python scripts/chaos_cluster.py --rounds 100 --seed 1`.

Each round starts a study on a Ray of its own, kills one of its processes (driver, worker, raylet or head) at a random
moment with SIGKILL, and gives the same command again until it succeeds. What is recorded then must be what the study
comes to without Ray and without faults, to the byte, each run once. Nothing that was recorded before may be gone.
"""

import argparse
import os
import random
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

STUDY = """
name = "chaos"
environments = ["bit-flipping-4"]
methods = ["hpg"]
batch_sizes = [8]
learning_rates = [1e-3, 1e-2]
hidden_layers = [16]
search = { runs = 2, batches = 200, evaluate_every = 20, evaluation_episodes = 32 }
definitive = { runs = 4, batches = 200, evaluate_every = 20, evaluation_episodes = 32 }
"""
PROGRAM = """
from functools import partial
from hindsight_rl.cli import main
from hindsight_rl.cli.study import run
run.Placement = partial(run.Placement, seconds_between_checkpoints=0.1, runs=2)
main()
"""
"""The program itself, but for more and smaller pieces that keep a checkpoint at every evaluation."""
VICTIMS: dict[str, Callable[[str], bool]] = {
    "driver": lambda name: False,
    "worker": lambda name: name.startswith("ray::"),
    "raylet": lambda name: "raylet/raylet" in name,
    "head": lambda name: "gcs_server" in name,
}
SECONDS_TO_END = 300.0
"""A command that has not ended by then, after a fault, hangs."""
MOST_TRIES = 4
"""So often is the same command given; without a further fault the second must do."""


class Broken(AssertionError):
    """A promise that did not hold."""


class Cluster:
    """Commands that start a study on a Ray of their own, and what came of them."""

    def __init__(self, home: Path, seed: int):
        self._home, self._random = home, random.Random(seed)
        (home / "study.toml").write_text(STUDY)
        self._environment = os.environ | {
            "JAX_COMPILATION_CACHE_DIR": str(home / "compiled"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        self.left_behind = 0
        self.codes: Counter[int] = Counter()
        self._finish(self._start("undisturbed", on=None))
        self._expected = self._table("undisturbed")
        began = time.monotonic()
        self._finish(self._start("warm"))
        self.seconds = time.monotonic() - began
        self._check("warm", {})

    def round(self) -> tuple[str, str]:
        """One fault; the kind of process that it met, and how the command ended that met it."""
        folder, kind = "disturbed", self._random.choice(list(VICTIMS))
        shutil.rmtree(self._home / folder, ignore_errors=True)
        process, moment = self._start(folder), self._random.uniform(0, self.seconds)
        time.sleep(moment)
        while not (found := victims(process.pid, kind)) and process.poll() is None:
            time.sleep(0.05)
        family = descendants(process.pid)
        if found:
            with suppress(ProcessLookupError):
                os.kill(self._random.choice(found), signal.SIGKILL)
        ended = self._wait(process)
        self.codes[ended] += 1
        self._gone(family)
        held = rows(self._home / folder)
        for _ in range(MOST_TRIES if ended else 0):
            if self._wait(self._start(folder)) == 0:
                break
        else:
            if ended:
                raise Broken(f"after a killed {kind} the same command did not succeed {MOST_TRIES} times: {self.said}")
        self._check(folder, held)
        return kind if found else "none", "went on" if ended == 0 else f"ended ({ended})"

    @property
    def said(self) -> str:
        """What the newest command said."""
        return (self._home / "said.txt").read_text()

    def _start(self, folder: str, on: str | None = "ray") -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", PROGRAM, "study", "run", str(self._home / "study.toml")]
        command += ["--output", str(self._home / folder), *(["--on", on] if on else [])]
        with open(self._home / "said.txt", "wb") as said:
            return subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=said, env=self._environment, start_new_session=True
            )

    def _finish(self, process: subprocess.Popen[bytes]) -> None:
        if self._wait(process):
            raise Broken(self.said)

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        try:
            code = process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            for each in [process.pid, *descendants(process.pid)]:
                end(each)
            process.wait()
            raise Broken(f"the command hung: {self.said}") from None
        if "Traceback" in self.said:
            raise Broken(f"a traceback: {self.said}")
        return code

    def _gone(self, family: list[int]) -> None:
        """Whatever belonged to a command that has ended must end too; what does not is counted, and ended."""
        deadline = time.monotonic() + 30
        while (left := [each for each in family if Path(f"/proc/{each}").exists()]) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.left_behind += len(left)
        for each in left:
            end(each)

    def _table(self, folder: str) -> bytes:
        target = self._home / "table.csv"
        command = [sys.executable, "-m", "hindsight_rl", "study", "export", str(self._home / folder)]
        subprocess.run(
            [*command, "--output", str(target)], check=True, stdout=subprocess.DEVNULL, env=self._environment
        )
        return target.read_bytes()

    def _check(self, folder: str, before: Counter[tuple[str, ...]] | dict[tuple[str, ...], int]) -> None:
        after = rows(self._home / folder)
        if twice := [key for key, count in after.items() if count > 1]:
            raise Broken(f"recorded twice: {twice}")
        if lost := [key for key in before if key not in after]:
            raise Broken(f"lost: {lost}")
        if self._table(folder) != self._expected:
            raise Broken("the table differs from the undisturbed one")


def rows(folder: Path) -> Counter[tuple[str, ...]]:
    """How often each run is recorded."""
    if not (folder / "results.sqlite").exists():
        return Counter()
    # It may have been killed before there were tables.
    with closing(sqlite3.connect(folder / "results.sqlite")) as file, suppress(sqlite3.OperationalError):
        return Counter(file.execute(KEYS).fetchall())
    return Counter()


KEYS = "select environment, batch_size, method, stage, choices, seed from runs"


def victims(driver: int, kind: str) -> list[int]:
    """The processes of a kind that belong to a driver."""
    if kind == "driver":
        return [driver]
    return [each for each in descendants(driver) if VICTIMS[kind](name_of(each))]


def descendants(parent: int) -> list[int]:
    """All processes below one, by number."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            words = path.read_text().rpartition(")")[2].split()
            children.setdefault(int(words[1]), []).append(int(path.parent.name))
    found, ahead = list[int](), [parent]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def name_of(process: int) -> str:
    """How a process was called."""
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def end(process: int) -> None:
    """Kill a process that this script started, if it is still there."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def main() -> None:
    """Play the rounds; the exit code is 1 when a promise did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    chosen = parser.parse_args()
    seed = secrets.randbelow(2**32) if chosen.seed is None else chosen.seed
    began, kinds, broken = time.monotonic(), Counter[str](), list[str]()
    with tempfile.TemporaryDirectory(prefix="hindsight-chaos-") as home:
        cluster = Cluster(Path(home), seed)
        print(f"seed {seed}; undisturbed on Ray: {cluster.seconds:.0f} seconds", flush=True)
        for number in range(1, chosen.rounds + 1):
            try:
                kind, how = cluster.round()
                kinds[f"{kind}, {how}"] += 1
                print(f"round {number}: {kind}, {how}", flush=True)
            except Broken as error:
                broken.append(f"round {number}: {error}")
                print(f"BROKEN {broken[-1]}", flush=True)
        for name, count in sorted(kinds.items()):
            print(f"{name:<30}{count:>6}")
        minutes = (time.monotonic() - began) / 60
        print(f"{chosen.rounds} rounds, {len(broken)} broken, {minutes:.0f} minutes")
        print(f"processes left behind after half a minute, and killed: {cluster.left_behind}")
    sys.exit(int(bool(broken)))


if __name__ == "__main__":
    main()
