"""Trials on files: damaged ones, and such as a stranger made up."""

import contextlib
import json
import os
import shutil
import sqlite3
import zipfile
from functools import partial
from pathlib import Path

import jax
from reference.chaos import Broken, Chaos, Trial, damage, exported, loaded, spoken, tried, weights
from reference.chaos_input import mutated

import hindsight_rl
from hindsight_rl.experiments.policy_files import load_policy
from hindsight_rl.records.checkpoints import _digest
from hindsight_rl.records.tidy_files import read_tidy

MOST_FOR_A_BOMB = 40_000_000


def damaged_run(chaos: Chaos) -> bool:
    """Any file of a run damaged: named by `verify`, and its policies are the very same or cannot be had."""
    folder = chaos.copy(chaos.run)
    path = chaos.random.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    path.write_bytes(damage(path.read_bytes(), chaos.random))
    verdict, said = spoken(["verify", str(folder)])
    refused = loaded(chaos, folder)
    if refused and not verdict:
        raise Broken(f"silent: verify passed a {path.name} that cannot be used: {said}")
    for batch in (10, 20):
        tried(partial(hindsight_rl.load, folder, batch), _kept(chaos, batch), f"loading batch {batch}")
    tried(lambda: hindsight_rl.load(folder, "best"), _kept(chaos, "best"), "loading the best")
    return bool(verdict or refused)


_held: dict[object, list[bytes]] = {}


def _kept(chaos: Chaos, checkpoint: str | int) -> list[bytes]:
    key = (chaos.run, checkpoint)
    if key not in _held:
        _held[key] = weights(hindsight_rl.load(chaos.run, checkpoint))
    return _held[key]


def mended_run(chaos: Chaos) -> bool:
    """A damaged file of a run, which is then resumed: a sentence, or the table and the checkpoint as they were."""
    folder = chaos.copy(chaos.run)
    path = chaos.random.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    path.write_bytes(damage(path.read_bytes(), chaos.random)) if chaos.random.random() < 0.8 else path.unlink()
    code, said = spoken([*chaos.training(folder), "--resume"])
    if not code and (folder / "evaluations.csv").read_bytes() != (chaos.run / "evaluations.csv").read_bytes():
        raise Broken(f"silent: {path.name} damaged, and the table differs after --resume")
    if code and path.name not in ("settings.json", "checkpoint.npz"):
        raise Broken(f"lost: {path.name} damaged, and --resume says {said[-1000:]}")
    return bool(code)


def damaged_study(chaos: Chaos) -> bool:
    """A damaged file of a study: refused, named, or the very same export."""
    folder = chaos.copy(chaos.study)
    paths = [folder / "results.sqlite", *sorted((folder / "policies").iterdir())]
    path = chaos.random.choice([paths[0], *paths])
    path.write_bytes(damage(path.read_bytes(), chaos.random))
    code, _ = spoken(["verify", str(folder)])
    found = exported(folder, chaos.home / "after.csv")
    if found and found != chaos.exported and not found.startswith(b"left out"):
        raise Broken(f"silent: a damaged {path.name} gave another export")
    if (not found or found.startswith(b"left out")) and not code:
        raise Broken("silent: verify passed a study that is damaged")
    return bool(code)


def repaired_study(chaos: Chaos) -> bool:
    """A damaged study that is repaired: refused as a whole, or the very same export."""
    folder = chaos.copy(chaos.study)
    path = chaos.random.choice([folder / "results.sqlite", *sorted((folder / "policies").iterdir())])
    if path.suffix == ".sqlite":
        with contextlib.closing(sqlite3.connect(path)) as connection:
            change = chaos.random.choice(["mean_return = mean_return + 1", "batch = batch + 1", "episodes = 0"])
            connection.execute(f"UPDATE evaluations SET {change} WHERE run % {chaos.random.randrange(1, 4)} = 0")
            connection.commit()
    else:
        path.write_bytes(damage(path.read_bytes(), chaos.random))
    code, said = spoken([*chaos.studying(folder), "--repair"])
    if code or exported(folder, chaos.home / "after.csv") != chaos.exported:
        raise Broken(f"lost: --repair of {path.name} ended with {code}, or with other numbers: {said[-1000:]}")
    return "damaged" in said or "again" in said


def damaged_policy(chaos: Chaos) -> bool:
    """An exported policy, or one of a study, damaged: refused, or the very same arrays."""
    path = chaos.random.choice([chaos.home / "export" / "policy.npz", *(chaos.study / "policies").glob("*.npz")])
    if path not in _held:
        _held[path] = weights(hindsight_rl.load(path))
    target = chaos.home / "policy.npz"
    target.write_bytes(damage(path.read_bytes(), chaos.random))
    if path.name == "policy.npz":
        return bool(tried(lambda: load_policy(target)[0], _held[path], "an exported policy"))
    return bool(tried(lambda: hindsight_rl.load(target), _held[path], "a study's policy"))


def damaged_export(chaos: Chaos) -> bool:
    """A damaged table, which has no digest: read or refused, nothing else."""
    target = chaos.home / "damaged.csv"
    target.write_bytes(damage(chaos.exported, chaos.random))
    return bool(tried(lambda: [jax.numpy.zeros(0) for _ in read_tidy(target)][:0], [], "a damaged table"))


EDITS = [
    ("evaluations", "batch", "batch + 5"),
    ("evaluations", "batch", "-batch"),
    ("evaluations", "mean_return", "9e999"),
    ("evaluations", "mean_return", "mean_return + 0.001"),
    ("evaluations", "mean_return", "NULL"),
    ("evaluations", "success_rate", "'text'"),
    ("evaluations", "episodes", "2.5"),
    ("runs", "seed", "seed + 77"),
    ("runs", "settings", "'{'"),
    ("runs", "stage", "'search'"),
    ("runs", "choices", "'[]'"),
    ("runs", "digest", "'0'"),
    ("runs", "digest", "NULL"),
    ("runs", "environment", "x'00ff'"),
    ("runs", "seconds", "'long'"),
    ("runs", "cause", "'it broke'"),
    ("runs", "batch_size", "'\\x1b[31m'"),
    ("cells", "plan", "'{}'"),
    ("cells", "digest", "'0'"),
    ("cells", "method", "'[/b]'"),
    ("facts", "value", "'['"),
    ("facts", "value", "zeroblob(100000)"),
    ("metrics", "evaluations_column", "'batch'"),
    ("origins", "content", "'nothing'"),
]
SCHEMES = [
    "DROP TABLE runs",
    "DROP TABLE metrics",
    "DELETE FROM evaluations",
    "DELETE FROM runs WHERE rowid = 1",
    "DELETE FROM cells",
    "ALTER TABLE evaluations RENAME COLUMN mean_return TO mean",
    "DROP TABLE cells; CREATE VIEW cells AS SELECT * FROM runs",
    "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
    "DROP TABLE facts; CREATE VIEW facts AS WITH RECURSIVE n(name, value) AS "
    "(SELECT 'format', '3' UNION ALL SELECT name || 'x', value FROM n LIMIT 1000000) SELECT * FROM n",
]


def evil_database(chaos: Chaos) -> bool:
    """Rows and tables edited with SQL: named, refused, or without effect on the export."""
    folder, draw = chaos.copy(chaos.study), chaos.random
    table, column, value = draw.choice(EDITS)
    some = f" WHERE rowid % {draw.randrange(1, 4)} = 0" if table == "runs" else ""
    statement = f"UPDATE {table} SET {column} = {value}{some}" if draw.random() < 0.75 else draw.choice(SCHEMES)
    with contextlib.closing(sqlite3.connect(folder / "results.sqlite")) as connection:
        with contextlib.suppress(sqlite3.Error):
            connection.executescript(statement)
        connection.commit()
    code, _ = spoken(["verify", str(folder)])
    if draw.random() < 0.3:
        code = max(code, spoken(["study", "plan", str(folder), "--skip-measurement"])[0])
    found = exported(folder, chaos.home / "after.csv")
    gone = statement.startswith("DELETE FROM runs")  # whole runs that are gone leave no trace but their evaluations
    if found and found != chaos.exported and not found.startswith(b"left out") and not (gone and code):
        raise Broken(f"silent: {statement} gave another export")
    return bool(code)


def evil_checkpoint(chaos: Chaos) -> bool:
    """Archives that lie about what they hold, with a right digest where they can have one: a sentence."""
    folder = chaos.copy(chaos.run)
    path, kind = folder / "checkpoint.npz", chaos.random.randrange(8)
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    victim = chaos.random.choice(sorted(entries))
    if kind == 0:
        del entries[victim]
    elif kind == 1:
        entries["../" + victim] = entries[victim]
    elif kind == 2:
        entries[victim] = damage(entries[victim], chaos.random) + b"!"
    elif kind in (3, 4):
        manifest = json.loads(entries["manifest.json"])
        del manifest["sha256"]
        manifest = mutated(manifest, chaos.random)
        if isinstance(manifest, dict) and kind == 4:
            manifest = {**manifest, "sha256": _digest(manifest)}
        entries["manifest.json"] = json.dumps(manifest).encode()
    elif kind == 5:
        entries["bomb.npy"] = bytes(MOST_FOR_A_BOMB)
    method = zipfile.ZIP_DEFLATED if kind == 5 else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    if kind >= 6:
        strange(path, chaos)
    verdict, _ = spoken(["verify", str(folder)])
    return bool(max(verdict, loaded(chaos, folder)))


def strange(path: Path, chaos: Chaos) -> None:
    """Something else than a file in its place, or one that is far too large."""
    kind = chaos.random.randrange(6)
    if kind == 5:
        os.truncate(path, 10 ** chaos.random.randrange(9, 14))  # with a hole, so that it takes no room
        return
    path.unlink()
    match kind:
        case 0:
            os.mkfifo(path)
        case 1:
            path.symlink_to("/dev/zero")
        case 2:
            path.symlink_to(path.name)
        case 3:
            path.mkdir()
        case _:
            path.symlink_to("/nowhere/at/all")


def exchanged_files(chaos: Chaos) -> bool:
    """One whole file of a run in the place of another: named, and never taken for what its name says."""
    folder = chaos.copy(chaos.run)
    first, second = chaos.random.sample(sorted(folder.rglob("*.npz")), 2)
    if first.read_bytes() == second.read_bytes():
        return False
    shutil.copy(first, second)
    for batch in (10, 20):
        tried(partial(hindsight_rl.load, folder, batch), _kept(chaos, batch), f"loading batch {batch}")
    tried(lambda: hindsight_rl.load(folder, "best"), _kept(chaos, "best"), "loading the best")
    code, said = spoken(["verify", str(folder)])
    if not code:
        raise Broken(f"silent: verify passed {first.name} in the place of {second.name}: {said}")
    return True


def strange_files(chaos: Chaos) -> bool:
    """A pipe, a device, a loop, a folder or far too much in the place of any file: a sentence, and no waiting."""
    folder = chaos.copy(chaos.random.choice([chaos.run, chaos.study]))
    path = chaos.random.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    strange(path, chaos)
    codes = [spoken(["verify", str(folder)])[0], spoken(["runs", str(folder.parent / "damaged")])[0]]
    if (folder / "settings.json").exists():
        codes.append(loaded(chaos, folder))
    else:
        exported(folder, chaos.home / "after.csv")
    return any(codes)


FILES: dict[str, Trial] = {
    "damaged run": damaged_run,
    "damaged study": damaged_study,
    "damaged policy": damaged_policy,
    "damaged export": damaged_export,
    "edited database": evil_database,
    "evil checkpoint": evil_checkpoint,
    "strange files": strange_files,
    "exchanged files": exchanged_files,
}
MENDED: dict[str, Trial] = {"mended run": mended_run, "repaired study": repaired_study}
