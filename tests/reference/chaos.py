"""Faults made up at random, and what must hold whatever they are: nothing lost, nothing silent, no traceback, no flood.

Nearly all trials are made in one process, on copies of a finished run and a finished study.
"""

import contextlib
import io
import random
import re
import shutil
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import pytest
from reference.chaos_recorder import states_during
from small_jobs import small_flags

from hindsight_rl.cli import main, train
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.interface import Task
from hindsight_rl.experiments import best_policies, job, policies
from hindsight_rl.experiments.job import load_policies
from hindsight_rl.experiments.study import worker
from hindsight_rl.training import compiled_loop
from hindsight_rl.training.program import Program, make_program
from hindsight_rl.training.settings import Settings
from hindsight_rl.training.state import Runs

ENVIRONMENT = "bit-flipping-4"
STUDY = """
name = "chaos"
environments = ["bit-flipping-4"]
methods = ["hpg"]
batch_sizes = [8]
learning_rates = [1e-2, 1e-3]
hidden_layers = [16]
search = { runs = 2, batches = 10, evaluate_every = 10, evaluation_episodes = 32 }
definitive = { runs = 2, batches = 20, evaluate_every = 10, evaluation_episodes = 32 }
"""
LEARNERS = {"hpg": [], "hppo": ["--kept-episodes", "32"]}
SENTENCES = (0, 1, 2, 129, 130, 138, 143)
"""Exit codes that are ours: done, damage found, refused, and interrupted by one of four signals."""
MOST_BYTES = 600_000_000
"""By so much no trial may make this process grow."""
LONGEST_OUTPUT = 200_000

Trial = Callable[["Chaos"], bool]
"""Makes up a fault; says whether the program noticed it, and raises `Broken` where a promise did not hold."""


class Broken(AssertionError):
    """A promise that did not hold; the first word says which: lost, silent, traceback or memory."""


@dataclass
class Chaos:
    """A folder with a finished run of each learner and a finished study, and a stream of random numbers."""

    home: Path
    seed: int
    patch: pytest.MonkeyPatch

    def __post_init__(self) -> None:
        shared_programs(self.patch)
        # Made-up arguments name files that begin nowhere: they are not to land where somebody works, and not to find
        # (`verify ../..`) what other trials damaged or what else a machine holds.
        here = self.home / "elsewhere" / "somewhere" / "here"
        here.mkdir(parents=True)
        self.patch.chdir(here)
        self.random = random.Random(self.seed)
        self.study = self.home / "study"
        (self.home / "study.toml").write_text(STUDY)
        self.killed = {self.study: self._states(self.studying(self.study), self.study)}
        self.flags: dict[Path, list[str]] = {}
        self.learned: dict[Path, list[bytes]] = {}
        for learner, flags in LEARNERS.items():
            self.run = self.home / f"run-{learner}"
            self.flags[self.run] = [*small_flags(method=learner, runs=2, batches=20), "--keep-every", "10", *flags]
            self.killed[self.run] = self._states(self.training(self.run), self.run)
            self.learned[self.run] = weights(load_policies(self.run)[2])
        require(["export", str(self.run), "--formats", "npz", "--output", str(self.home / "export")])
        self.exported = exported(self.study, self.home / "before.csv")

    def _states(self, arguments: list[str], folder: Path) -> list[Path]:
        return states_during(partial(require, arguments), folder, self.home / f"{folder.name}-events")

    def training(self, folder: Path) -> list[str]:
        return ["train", ENVIRONMENT, *self.flags[self.run], "--output", str(folder)]

    def studying(self, folder: Path) -> list[str]:
        return ["study", "run", str(self.home / "study.toml"), "--output", str(folder)]

    def copy(self, folder: Path) -> Path:
        target = self.empty("damaged")
        return Path(shutil.copytree(folder, target))

    def empty(self, name: str) -> Path:
        """A place at which nothing is."""
        target = self.home / name
        shutil.rmtree(target, ignore_errors=True)
        return target

    def require_whole(self, folder: Path, after: str) -> None:
        """The same command goes on in a folder to the very bytes of one that was never disturbed."""
        if is_study := folder.name.startswith("study"):
            arguments = self.studying(folder)
        else:
            arguments = [*self.training(folder), *(["--resume"] if (folder / "settings.json").exists() else [])]
        code, said = spoken(arguments)
        if code:
            raise Broken(f"lost: after {after} the same command says {said[-2000:]}")
        if is_study:
            whole = exported(folder, self.home / "after.csv") == self.exported
        else:
            names = ("evaluations.csv", "checkpoint.npz")
            whole = all((folder / name).read_bytes() == (self.run / name).read_bytes() for name in names)
        if not whole:
            raise Broken(f"lost: after {after} there are other numbers")
        for leftover in folder.rglob(".hindsight-*.tmp"):
            raise Broken(f"lost: after {after} {leftover.name} stays for ever")


def require(arguments: list[str]) -> None:
    """A command that must succeed."""
    code, said = spoken(arguments)
    if code:
        raise Broken(f"lost: {' '.join(arguments)} ended with {code}: {said[-3000:]}")


def spoken(arguments: list[str]) -> tuple[int, str]:
    """The exit code and all that a command says, in this process."""
    out, error = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            main(arguments)
        except SystemExit as stop:
            code = int(stop.code or 0)
        except BaseException as escaped:
            raise Broken(f"traceback: {' '.join(arguments)[:300]}:\n{traceback.format_exc()}") from escaped
    said = out.getvalue() + error.getvalue()
    if code not in SENTENCES or "Traceback (most" in said or len(said) > LONGEST_OUTPUT:
        raise Broken(f"traceback: {' '.join(arguments)[:300]} ended with {code}: {said[-3000:]}")
    if "\x1b" in said:
        raise Broken(f"traceback: {' '.join(arguments)[:300]} steers the terminal")
    return code, said


def loaded(chaos: Chaos, folder: Path) -> int:
    """Whether the policies of a run can be had: 0, or 2 for a sentence. To play with them would mean to compile."""
    return tried(lambda: load_policies(folder)[2], chaos.learned[chaos.run], f"loading {folder}")


def tried(load: Callable[[], object], expected: object, what: str) -> int:
    """0 where loading gives what is expected, 2 for a sentence."""
    try:
        found = weights(load())
    except HindsightError:
        return 2
    except Exception as escaped:
        raise Broken(f"traceback: {what}:\n{traceback.format_exc()}") from escaped
    if found != expected:
        raise Broken(f"silent: {what} gave other policies")
    return 0


def weights(found: object) -> list[bytes]:
    """All arrays of policies."""
    return [leaf.tobytes() for leaf in jax.tree.leaves(found) if hasattr(leaf, "tobytes")]


def shared_programs(patch: pytest.MonkeyPatch) -> None:
    """Trace and compile each program once: that takes far longer than to use it."""
    held: dict[tuple[str, str], Program] = {}
    measured: set[int] = set()

    def shared(task: Task, settings: Settings) -> Program:
        key = (repr(task), repr(settings.compiled))
        if key not in held:
            held[key] = make_program(task, settings)
        return held[key]

    for module in (job, worker, train, best_policies, policies):
        if hasattr(module, "make_program"):
            patch.setattr(module, "make_program", shared)
    # Asked once for each program; JAX keeps what it compiled, but not what it knows of its memory.
    require_memory = compiled_loop.require_memory_to_compile

    def require_once(program: Program, runs: Runs, batch_size: int) -> None:
        if id(program) not in measured:
            measured.add(id(program))
            require_memory(program, runs, batch_size)

    patch.setattr(train, "require_memory_to_compile", require_once)


def exported(folder: Path, path: Path) -> bytes:
    """The table of a study; nothing where it is refused, and a word in front where runs are left out."""
    path.unlink(missing_ok=True)
    code, said = spoken(["study", "export", str(folder), "--output", str(path)])
    return b"" if code else b"left out\n" + path.read_bytes() if "left out" in said else path.read_bytes()


def damage(content: bytes, draw: random.Random) -> bytes:
    """Bits flipped, bytes cut off, cut out or doubled."""
    spot = draw.randrange(len(content)) if content else 0
    match draw.randrange(5):
        case 0:
            return content[:spot]
        case 1:
            return content[:spot] + content[spot + draw.randrange(1, 64) :]
        case 2:
            return content[:spot] + content[spot : spot + 40] + content[spot:]
        case _:
            changed = bytearray(content or b" ")
            changed[spot] ^= 1 << draw.randrange(8)
            return bytes(changed)


@contextlib.contextmanager
def bounded_memory(most: int = MOST_BYTES) -> Iterator[None]:
    """No trial may make this process grow by more, not even for a moment."""
    before = _kilobytes("VmRSS")
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # forget the largest size so far
    yield
    grown = (_kilobytes("VmHWM") - before) * 1024
    if grown > most:
        raise Broken(f"memory: the program grew by {grown / 1e6:,.0f} MB")


def _kilobytes(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) if found else 0


def make_trial(chaos: Chaos, trial: Trial) -> tuple[bool, float]:
    """One trial on any of the runs within its memory: whether it was noticed, and how long it took."""
    chaos.run = chaos.random.choice(list(chaos.flags))
    began = time.monotonic()
    with bounded_memory():
        noticed = trial(chaos)
    return noticed, time.monotonic() - began
