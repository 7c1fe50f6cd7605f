"""Kill parts of Ray at random while a study runs on it: `python scripts/chaos_cluster.py --rounds 100 --seed 1`.

Each round starts a study on a Ray of its own, kills one of its processes (the command, the driver that it guards, a
worker, raylet, head or agent) with SIGKILL at a random moment of that process's life, and at once gives the same
command again until it succeeds. What is recorded then must be what the study comes to without Ray and without faults,
to the byte, each run once. Nothing that was recorded before may be gone. Unless it was killed itself, a command that
met a fault goes on (0) or ends with a sentence (2). A round in which the study ended before the kill is played again.
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
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from hindsight_rl.records.results import RESULTS, ResultsFile
from hindsight_rl.records.tidy import to_csv

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
    "command": lambda name: False,
    "driver": lambda name: False,
    "worker": lambda name: name.startswith(("ray::work", "ray::IDLE")),
    "raylet": lambda name: "raylet/raylet" in name,
    "head": lambda name: "gcs/gcs_server" in name,
    "agent": lambda name: name.startswith("ray::") and "Agent" in name,
}
USUAL = ("command", "driver", "worker", "raylet", "head")
"""Agents are asked for by name: a raylet whose agent is gone ends itself, so that theirs is a slower death of it."""
SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_TO_GO = 100.0
"""For what belonged to a killed process. Ray's agents try for a minute to tell the head of the end of their raylet."""
SECONDS_TO_END = 900.0
"""A command that has not ended by then, after a fault, hangs."""
MOST_TRIES = 4
"""So often is the same command given; without a further fault the second must do."""


class Broken(AssertionError):
    """A promise that did not hold."""


class Outcome(NamedTuple):
    """What came of a round that held."""

    kind: str
    """Of process that was killed."""
    ended: int
    """The exit code of the command that met the fault."""
    held: int
    """Runs that were recorded when it had ended."""

    @property
    def counted(self) -> str:
        """What rounds are counted by."""
        return f"{self.kind}, {'went on' if self.ended == 0 else f'ended ({self.ended})'}"


class Cluster:
    """Commands that start a study on a Ray of their own, and what came of them."""

    def __init__(self, home: Path, seed: int, kinds: Sequence[str] = USUAL):
        self._home, self._random, self._kinds = home, random.Random(seed), kinds
        (home / "study.toml").write_text(STUDY)
        kept = {"JAX_COMPILATION_CACHE_DIR": f"{home}/compiled", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        self._environment = os.environ | kept
        self._families: dict[int, str] = {}
        """Whatever belonged to a command that met a fault, and when it began."""
        self._finish(self._start("undisturbed", on=None))
        self._expected = table(home / "undisturbed")
        self._finish(self._start("warm"))
        self.lives = self._measured("measured")
        self._check("measured", {})

    def round(self) -> Outcome:
        """One fault, and what came of it."""
        while True:
            kind = self._random.choice(self._kinds)
            shutil.rmtree(self._home / "disturbed", ignore_errors=True)
            process, moment = self._start("disturbed"), self._random.uniform(0, self.lives[kind])
            if family := self._killed(process, kind, moment):
                self._families |= family
                return self._mended("disturbed", process, kind)
            self._finish(process)

    def _killed(self, process: subprocess.Popen[bytes], kind: str, moment: float) -> dict[int, str]:
        """Kill one of a kind so long after the first of them appeared; all that belonged to it, nothing if it ended."""
        self._first(process, kind)
        time.sleep(moment)
        found = self._first(process, kind)
        family = {each: birth(each) for each in [process.pid, *descendants(process.pid)]}
        if found and process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self._random.choice(found), signal.SIGKILL)
                return family
        return {}

    def _first(self, process: subprocess.Popen[bytes], kind: str) -> list[int]:
        """Those of a kind, as soon as there are some; none if the command ends first."""
        while not (found := victims(process.pid, kind)) and process.poll() is None:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        return found

    def _mended(self, folder: str, process: subprocess.Popen[bytes], kind: str) -> Outcome:
        """Give the same command again after a fault."""
        ended, said = self._wait(process), self.said.rstrip().rpartition("\n")[2]
        if kind != "command" and not (ended == 0 or (ended == 2 and said.startswith("hindsight: "))):
            raise Broken(f"after a killed {kind} the command ended with {ended}: {self.said}")
        held = rows(self._home / folder)
        if ended and all(self._wait(self._start(folder)) for _ in range(MOST_TRIES)):
            raise Broken(f"after a killed {kind} the same command did not succeed {MOST_TRIES} times: {self.said}")
        self._check(folder, held)
        return Outcome(kind, ended, len(held))

    def _measured(self, folder: str) -> dict[str, float]:
        """Seconds from when the first process of each kind appears to the end of an undisturbed study."""
        process, began = self._start(folder), dict[str, float]()
        while process.poll() is None:
            for kind in VICTIMS.keys() - began:
                if victims(process.pid, kind):
                    began[kind] = time.monotonic()
            time.sleep(SECONDS_BETWEEN_LOOKS)
        self._finish(process)
        return {kind: time.monotonic() - moment for kind, moment in began.items()}

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

    def left_behind(self) -> list[str]:
        """What belonged to a command that met a fault, and lives on long after; it is ended."""
        deadline = time.monotonic() + SECONDS_TO_GO
        while (left := [each for each in self._families.items() if lives(*each)]) and time.monotonic() < deadline:
            time.sleep(1)
        names = {process: name_of(process) for process, _ in left}
        for process in names:
            end(process)
        return list(names.values())

    def _check(self, folder: str, before: Counter[tuple[str, ...]] | dict[tuple[str, ...], int]) -> None:
        after = rows(self._home / folder)
        if twice := [key for key, count in after.items() if count > 1]:
            raise Broken(f"recorded twice: {twice}")
        if lost := [key for key in before if key not in after]:
            raise Broken(f"lost: {lost}")
        if table(self._home / folder) != self._expected:
            raise Broken("the table differs from the undisturbed one")


def table(folder: Path) -> bytes:
    """All evaluations of a study, as `study export` writes them."""
    with ResultsFile.open(folder / RESULTS) as file:
        return to_csv(file.read())


def rows(folder: Path) -> Counter[tuple[str, ...]]:
    """How often each run is recorded."""
    if not (folder / "results.sqlite").exists():
        return Counter()
    # It may have been killed before there were tables.
    with closing(sqlite3.connect(folder / "results.sqlite")) as file, suppress(sqlite3.OperationalError):
        return Counter(file.execute(KEYS).fetchall())
    return Counter()


KEYS = "select environment, batch_size, method, stage, choices, seed from runs"


def victims(command: int, kind: str) -> list[int]:
    """The processes of a kind that belong to a command."""
    if kind == "command":
        return [command]
    if kind == "driver":  # the child that the command guards, from when it is there
        return descendants(command)[:1]
    return [each for each in descendants(command) if VICTIMS[kind](name_of(each))]


def descendants(parent: int) -> list[int]:
    """All processes below one, by number."""
    children: dict[int, list[int]] = {}
    for process in (int(path.name) for path in Path("/proc").glob("[0-9]*")):
        if words := state_of(process):
            children.setdefault(int(words[1]), []).append(process)
    found, ahead = list[int](), [parent]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def lives(process: int, born: str) -> bool:
    """Whether a process does; one that has ended and whom nobody has asked how stays in the list of processes."""
    words = state_of(process)
    return bool(words) and words[0] != "Z" and words[19] == born


def birth(process: int) -> str:
    """When a process began, which tells it from a later one of the same number."""
    return (state_of(process) or [""] * 20)[19]


def state_of(process: int) -> list[str]:
    """What the kernel says of a process, after its name; nothing where there is none."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return []


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
    parser.add_argument("--kinds", nargs="+", choices=list(VICTIMS), default=USUAL)
    chosen = parser.parse_args()
    seed = secrets.randbelow(2**32) if chosen.seed is None else chosen.seed
    began, kinds, broken = time.monotonic(), Counter[str](), list[str]()
    with tempfile.TemporaryDirectory(prefix="hindsight-chaos-") as home:
        cluster = Cluster(Path(home), seed, chosen.kinds)
        print(f"seed {seed}; undisturbed on Ray: {cluster.lives['command']:.0f} seconds", flush=True)
        for number in range(1, chosen.rounds + 1):
            try:
                outcome = cluster.round()
                kinds[outcome.counted] += 1
                print(f"round {number}: {outcome.counted}, runs recorded at its end: {outcome.held}", flush=True)
            except Broken as error:
                broken.append(f"round {number}: {error}")
                print(f"BROKEN {broken[-1]}", flush=True)
        for name, count in sorted(kinds.items()):
            print(f"{name:<30}{count:>6}")
        print(f"{chosen.rounds} rounds, {len(broken)} broken, {(time.monotonic() - began) / 60:.0f} minutes")
        left = cluster.left_behind()
        print(f"processes left behind, and killed: {len(left)} {left or ''}")
    sys.exit(int(bool(broken)))


if __name__ == "__main__":
    main()
