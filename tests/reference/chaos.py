"""Faults made up at random, and what must hold whatever they are: nothing lost, nothing silent, no traceback."""

import contextlib
import io
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from small_jobs import PROGRAM, small_flags

from hindsight_rl.cli import main, train
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.environments.interface import Task
from hindsight_rl.experiments import job
from hindsight_rl.experiments.job import load_policies
from hindsight_rl.experiments.study import worker
from hindsight_rl.training.program import Program, make_program
from hindsight_rl.training.settings import Settings

ENVIRONMENT = "bit-flipping-4"
STUDY = """
name = "chaos"
environments = ["bit-flipping-4"]
methods = ["hpg"]
batch_sizes = [8]
learning_rates = [1e-2]
hidden_layers = [16]
search = { runs = 2, batches = 20, evaluate_every = 10, evaluation_episodes = 32 }
definitive = { runs = 2, batches = 20, evaluate_every = 10, evaluation_episodes = 32 }
"""
TEXTS = ("settings.json", "summary.json", "versions.json")
SENTENCES = (0, 1, 2, 129, 130, 143)


class Broken(AssertionError):
    """A promise that did not hold."""


@dataclass
class Chaos:
    """A folder with a finished run and a finished study, and a stream of random numbers."""

    home: Path
    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    noticed: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        shared_programs()
        self.random = random.Random(self.seed)
        self.run, self.study = self.home / "run", self.home / "study"
        (self.home / "study.toml").write_text(STUDY)
        self.flags = [*small_flags(runs=2, batches=20)]
        for arguments in self.training(self.run), self.studying(self.study):
            code, said = spoken(arguments)
            if code:
                raise Broken(said)
        self.table = (self.run / "evaluations.csv").read_bytes()
        self.exported = exported(self.study, self.home / "before.csv")

    def training(self, folder: Path) -> list[str]:
        return ["train", ENVIRONMENT, *self.flags, "--output", str(folder)]

    def studying(self, folder: Path) -> list[str]:
        return ["study", "run", str(self.home / "study.toml"), "--output", str(folder)]

    def copy(self, folder: Path) -> Path:
        target = self.home / "damaged"
        shutil.rmtree(target, ignore_errors=True)
        return Path(shutil.copytree(folder, target))


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
            raise Broken(f"{' '.join(arguments)[:300]}:\n{traceback.format_exc()}") from escaped
    said = out.getvalue() + error.getvalue()
    if code not in SENTENCES or "Traceback" in said:
        raise Broken(f"{' '.join(arguments)[:300]} ended with {code}: {said[-3000:]}")
    return code, said


def loaded(folder: Path) -> int:
    """Whether the policies of a folder can be had: 0, or 2 for a sentence. To play with them would mean to compile."""
    try:
        load_policies(folder)
    except HindsightError:
        return 2
    except Exception as escaped:
        raise Broken(f"loading {folder}:\n{traceback.format_exc()}") from escaped
    return 0


def shared_programs() -> None:
    """Trace each program once: that takes far longer than to use it."""
    held: dict[tuple[str, str], Program] = {}

    def shared(task: Task, settings: Settings) -> Program:
        key = (repr(task), repr(settings.compiled))
        if key not in held:
            held[key] = make_program(task, settings)
        return held[key]

    for module in (job, worker, train):
        module.make_program = shared  # type: ignore[attr-defined]


def exported(folder: Path, path: Path) -> bytes:
    path.unlink(missing_ok=True)
    code, said = spoken(["study", "export", str(folder), "--output", str(path)])
    return b"" if code else b"left out\n" + path.read_bytes() if "left out" in said else path.read_bytes()


def damage(content: bytes, draw: random.Random) -> bytes:
    """Bits flipped, bytes cut off, cut out or doubled."""
    spot = draw.randrange(len(content))
    match draw.randrange(5):
        case 0:
            return content[:spot]
        case 1:
            return content[:spot] + content[spot + draw.randrange(1, 64) :]
        case 2:
            return content[:spot] + content[spot : spot + 40] + content[spot:]
        case _:
            changed = bytearray(content)
            changed[spot] ^= 1 << draw.randrange(8)
            return bytes(changed)


def damaged_run(chaos: Chaos) -> bool:
    """A damaged file of a run: evaluating gives the same numbers or a sentence, and resuming gives the same table."""
    folder = chaos.copy(chaos.run)
    path = chaos.random.choice(sorted(path for path in folder.iterdir() if path.is_file()))
    path.write_bytes(damage(path.read_bytes(), chaos.random))
    code, said = spoken(["verify", str(folder)])
    resumed, explained = spoken([*chaos.training(folder), "--resume"])
    if not resumed and (folder / "evaluations.csv").read_bytes() != chaos.table:
        raise Broken(f"silent: {path.name} damaged, and the table differs after --resume")
    if path.name in ("checkpoint.npz", "evaluations.csv") and not code and loaded(folder):
        raise Broken(f"verify passed a {path.name} that cannot be used: {said}")
    return bool(code or resumed or explained)


def damaged_study(chaos: Chaos) -> bool:
    """A damaged results file: refused, named, or the very same export."""
    folder = chaos.copy(chaos.study)
    paths = [folder / "results.sqlite", *sorted((folder / "policies").iterdir())]
    path = chaos.random.choice([paths[0], *paths])
    path.write_bytes(damage(path.read_bytes(), chaos.random))
    code, _ = spoken(["verify", str(folder)])
    found = exported(folder, chaos.home / "after.csv")
    if found and found != chaos.exported and not found.startswith(b"left out"):
        raise Broken(f"silent: a damaged {path.name} gave another export")
    if found.startswith(b"left out") and not code:
        raise Broken("verify passed a study of which runs are left out")
    return bool(code)


def evil_database(chaos: Chaos) -> bool:
    """Rows edited with SQL: named, refused, or without effect on the export."""
    folder = chaos.copy(chaos.study)
    table, column, value = chaos.random.choice(
        [
            ("evaluations", "batch", "batch + 5"),
            ("evaluations", "batch", "-batch"),
            ("evaluations", "mean_return", "9e999"),
            ("evaluations", "mean_return", "mean_return + 0.001"),
            ("evaluations", "success_rate", "'text'"),
            ("evaluations", "episodes", "2.5"),
            ("runs", "seed", "seed + 77"),
            ("runs", "settings", "'{'"),
            ("runs", "stage", "'search'"),
            ("runs", "choices", "'[]'"),
            ("runs", "digest", "'0'"),
            ("cells", "plan", "'{}'"),
            ("facts", "value", "'['"),
            ("metrics", "evaluations_column", "'batch'"),
            ("origins", "content", "'nothing'"),
        ]
    )
    with (
        contextlib.closing(sqlite3.connect(folder / "results.sqlite")) as connection,
        contextlib.suppress(sqlite3.Error),
    ):
        some = f" WHERE rowid % {chaos.random.randrange(1, 4)} = 0" if table == "runs" else ""
        connection.execute(f"UPDATE {table} SET {column} = {value}{some}")
        connection.commit()
    code, _ = spoken(["verify", str(folder)])
    for command in (["study", "plan", str(folder), "--skip-measurement"], chaos.studying(folder)):
        code = max(code, spoken(command)[0])
    found = exported(folder, chaos.home / "after.csv")
    if found and found != chaos.exported and not found.startswith(b"left out"):
        raise Broken(f"silent: {table}.{column} = {value} gave another export")
    return bool(code)


def evil_checkpoint(chaos: Chaos) -> bool:
    """Archives that lie about what they hold: a sentence."""
    folder = chaos.copy(chaos.run)
    path = folder / "checkpoint.npz"
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    victim, kind = chaos.random.choice(sorted(entries)), chaos.random.randrange(5)
    if kind == 0:
        del entries[victim]
    elif kind == 1:
        entries["../" + victim] = entries[victim]
    elif kind == 2:
        entries[victim] = damage(entries[victim], chaos.random)
    elif kind == 3:
        manifest = json.loads(entries["manifest.json"])
        entries["manifest.json"] = json.dumps(mutated(manifest, chaos.random)).encode()
    method = zipfile.ZIP_DEFLATED if kind == 4 else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content + (bytes(5_000_000) if kind == 4 else b""))
    code = loaded(folder)
    if not code and kind != 3:
        raise Broken(f"silent: a checkpoint with a changed {victim} was evaluated (kind {kind})")
    return bool(code)


def mutated(value: object, draw: random.Random) -> object:
    """JSON with one thing in it replaced, removed or of another type."""
    if isinstance(value, dict) and value and draw.random() < 0.8:
        key = draw.choice(sorted(value))
        if draw.random() < 0.15:
            return {name: one for name, one in value.items() if name != key}
        return {**value, key: mutated(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.5:
        return [mutated(value[0], draw), *value[1:]]
    return draw.choice(
        [None, -1, 0, 2.5, 10**30, "text", "", [], {}, [[]], True, float("inf"), "[/b]", "a:b", "x" * 5000]
    )


def mutated_json(chaos: Chaos) -> bool:
    """JSON files of a run with something else in them: a sentence, or the same numbers."""
    folder = chaos.copy(chaos.run)
    name = chaos.random.choice(TEXTS)
    content = json.loads((folder / name).read_text())
    changed = mutated(content, chaos.random)
    (folder / name).write_text(json.dumps(changed))
    codes = [spoken([word, str(folder)])[0] for word in ("verify", "diagnose")]
    codes.append(loaded(folder))
    if name == "settings.json" and changed != content and 0 in (codes[0], codes[2]):
        raise Broken(f"silent: settings of {changed} were believed")
    return any(codes)


WORDS = [
    "",
    "-1",
    "0",
    "1e999",
    "nan",
    "x" * 300,
    "\x1b[31m",
    "[/b]",
    "../..",
    "é",
    "--",
    "--seed",
    "all",
    "a:b",
    "0.5",
    "\n",
]


def mutated_arguments(chaos: Chaos) -> bool:
    """Arguments replaced, dropped and doubled, without training: a sentence or a configuration."""
    draw = chaos.random
    arguments = draw.choice(
        [
            [*chaos.training(chaos.run), "--print-config"],
            ["study", "plan", str(chaos.home / "study.toml"), "--skip-measurement", "--runs", "2"],
            ["verify", str(chaos.run)],
            ["diagnose", str(chaos.run)],
            ["methods", "hpg"],
            ["environments", "four-rooms"],
        ]
    )
    guard = ["--print-config"] if arguments[0] == "train" else []
    for _ in range(draw.randrange(1, 3)):
        spot = draw.randrange(1, len(arguments))
        arguments = [
            *arguments[:spot],
            *draw.choice([[draw.choice(WORDS)], [], [arguments[spot]] * 2]),
            *arguments[spot + 1 :],
        ]
    if arguments[-1:] == [str(10**9)]:
        return False
    return bool(spoken([*arguments, *guard])[0])


def mutated_toml(chaos: Chaos) -> bool:
    """A damaged study file: a sentence or a plan."""
    path = chaos.home / "damaged.toml"
    path.write_bytes(damage(STUDY.encode(), chaos.random))
    return bool(spoken(["study", "plan", str(path), "--skip-measurement"])[0])


def process(arguments: list[str], home: Path, **options: object) -> "subprocess.Popen[str]":
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(home / "compiled")}
    return subprocess.Popen(
        [str(PROGRAM), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        **options,  # type: ignore[call-overload]
    )


def stopped(chaos: Chaos) -> bool:
    """A run or a study stopped at a random moment by a random signal: it goes on to the same bytes."""
    folder = chaos.home / "stopped"
    shutil.rmtree(folder, ignore_errors=True)
    training = chaos.random.random() < 0.5
    arguments = chaos.training(folder) if training else chaos.studying(folder)
    number = chaos.random.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    started = process(arguments, chaos.home)
    time.sleep(2 + 4 * chaos.random.random())
    started.send_signal(number)
    said, _ = started.communicate(timeout=120)
    if "Traceback" in said and "import" not in said:
        raise Broken(f"{number} left a traceback: {said[-2000:]}")
    goes_on = ["--resume"] if training and (folder / "settings.json").exists() else []
    code, said = spoken([*arguments, *goes_on])
    if code:
        raise Broken(f"lost: after {number} the same command says {said}")
    if training and (folder / "evaluations.csv").read_bytes() != chaos.table:
        raise Broken(f"lost: after {number} the run has other numbers")
    if not training and exported(folder, chaos.home / "after.csv") != chaos.exported:
        raise Broken(f"lost: after {number} the study has other numbers")
    return started.returncode != 0


LIMITED = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2); " + (
    "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); sys.argv = sys.argv[1:]; "
    "from hindsight_rl.cli import main; main(sys.argv[1:])"
)


def disk_full(chaos: Chaos) -> bool:
    """Files may not grow past a random size: a sentence, and afterwards the run or study goes on to the same bytes."""
    folder = chaos.home / "full"
    shutil.rmtree(folder, ignore_errors=True)
    training = chaos.random.random() < 0.5
    arguments = chaos.training(folder) if training else chaos.studying(folder)
    size = str(int(10 ** (2 + 3 * chaos.random.random())))
    environment = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, size, *arguments], capture_output=True, text=True, env=environment, check=False
    )
    if "Traceback" in done.stdout + done.stderr:
        raise Broken(f"a limit of {size} bytes left a traceback: {done.stderr[-3000:]}")
    goes_on = ["--resume"] if training and (folder / "settings.json").exists() else []
    code, said = spoken([*arguments, *goes_on])
    if code:
        raise Broken(f"lost: after a limit of {size} bytes the same command says {said}")
    if training and (folder / "evaluations.csv").read_bytes() != chaos.table:
        raise Broken(f"lost: after a limit of {size} bytes the run has other numbers")
    return done.returncode != 0


FAST: dict[str, Callable[[Chaos], bool]] = {
    "damaged study": damaged_study,
    "edited rows": evil_database,
    "evil checkpoint": evil_checkpoint,
    "mutated JSON": mutated_json,
    "mutated arguments": mutated_arguments,
    "mutated TOML": mutated_toml,
    "damaged run": damaged_run,
}
SLOW: dict[str, Callable[[Chaos], bool]] = {"signal or kill": stopped, "disk full": disk_full}
