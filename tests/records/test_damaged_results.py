"""Damage, locks, full disks and missing rights: each ends in a sentence, and what was finished stays."""

import random
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from small_results import CELL, example_file, example_run, on_a_small_disk, read, refusal, truncate, write

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.checkpoints import save_checkpoint
from hindsight_rl.records.digests import run_digest
from hindsight_rl.records.results import RESULTS, ResultsFile
from hindsight_rl.records.runs import StudyResults

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    connection.execute(statement).fetchall()
print("held", flush=True)
sys.stdin.read()
"""

FILL = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from small_results import example_run
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.results import ResultsFile
folder, limit = Path(sys.argv[1]), int(sys.argv[2])
with ResultsFile.open(folder / "results.sqlite", create=True) as file:
    file.write_origin({})
    file.write_runs([example_run(0)])
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    else:
        (folder / "ballast").write_bytes(bytes(60_000))
    try:
        for seed in range(1, 10_000, 20):
            file.write_runs([example_run(other) for other in range(seed, seed + 20)])
    except HindsightError as error:
        print(error)
with ResultsFile.open(folder / "results.sqlite") as file:
    print(len(file.read().runs))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    (folder / "ballast").unlink(missing_ok=True)
    file.write_runs([example_run(seed, "search") for seed in range(20)])
    print(len(file.read().runs))
"""

WITHOUT_RIGHTS = """
import os, sys
from pathlib import Path
from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.files import claimed
from hindsight_rl.records.results import ResultsFile
if os.geteuid() == 0:
    os.setuid(65534)
folder = Path(sys.argv[1])
def attempt(action):
    try:
        print(action())
    except HindsightError as error:
        print(error)
def claim():
    with claimed(folder):
        return "claimed"
def read():
    with ResultsFile.open(folder / "results.sqlite") as file:
        return len(file.read().runs)
def write():
    with ResultsFile.open(folder / "results.sqlite", create=True) as file:
        return file.write_facts({"name": "other"})
for name in sys.argv[2:]:
    attempt(globals()[name])
"""


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A file with three runs."""
    return example_file(tmp_path / RESULTS)


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(0).randbytes(path.stat().st_size))


def garbage_behind_the_header(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:100] + random.Random(0).randbytes(len(content) - 100))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def text(path: Path) -> None:
    path.write_text("environment,batch_size\n" * 100)


def checkpoint(path: Path) -> None:
    save_checkpoint(path, {"a": np.zeros(100)}, {})


def other_program(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (address TEXT)")
    connection.close()


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "damage", [truncate, garbage, garbage_behind_the_header, empty, text, checkpoint, other_program]
)
def test_damage_is_named_and_left_alone(filled: Path, damage: Callable[[Path], None]) -> None:
    damage(filled)
    before = filled.read_bytes()
    for call in (lambda: read(filled), lambda: write(filled, [example_run(7)])):
        message = refusal(call)
        assert message.startswith(f"'{filled}' is damaged")
        assert "\n" not in message
    assert filled.read_bytes() == before


def test_a_missing_file_and_a_folder_in_its_place(filled: Path) -> None:
    other = filled.parent / "other" / RESULTS
    assert refusal(lambda: read(other)) == f"'{other.parent}' holds no study: it has no {RESULTS}."
    assert refusal(lambda: write(other, [])).startswith(f"Could not write {other}: No such file or directory")
    folder(filled)
    assert refusal(lambda: read(filled)) == f"Could not use '{filled}': unable to open database file."


def attempt_to_read(path: Path) -> StudyResults | str:
    try:
        return read(path)
    except HindsightError as error:
        return str(error)


def test_a_flipped_bit_is_refused_or_named_or_changes_nothing(filled: Path) -> None:
    """No number that has changed since it was written is shown."""
    whole = filled.read_bytes()
    expected = read(filled)
    digests = {run.key: run_digest(run) for run in expected.runs}
    used = [place for place, value in enumerate(whole) if value]
    generator = random.Random(5)
    refusals = named = 0
    for _ in range(300):
        content = bytearray(whole)
        content[generator.choice(used)] ^= 1 << generator.randrange(8)
        filled.write_bytes(content)
        outcome = attempt_to_read(filled)
        if isinstance(outcome, str):
            assert "\n" not in outcome
            refusals += 1
            continue
        assert all(run_digest(run) == digests[run.key] for run in outcome.runs)
        assert len(outcome.runs) == 3 or outcome.damaged
        assert outcome.plans == expected.plans or outcome.damaged
        named += bool(outcome.damaged)
    assert refusals > 20
    assert named > 20


def change(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE evaluations SET batch = -5 WHERE run = 2 AND batch = 0",
        "UPDATE evaluations SET batch = 12.5 WHERE run = 2 AND batch = 10",
        "UPDATE evaluations SET mean_return = 9e999 WHERE run = 2 AND batch = 20",
        "UPDATE evaluations SET mean_return = 'much' WHERE run = 2 AND batch = 20",
        "UPDATE evaluations SET success_rate = success_rate + 1e-12 WHERE run = 2 AND batch = 20",
        "UPDATE evaluations SET entropy = NULL WHERE run = 2",
        "DELETE FROM evaluations WHERE run = 2",
        "DELETE FROM evaluations WHERE run = 2 AND batch = 40",
        "UPDATE records SET content = zeroblob(72) WHERE run = 2",
        "UPDATE records SET shape = 'wide' WHERE run = 2",
        "UPDATE runs SET seconds = 0 WHERE number = 2",
        "UPDATE runs SET choices = '{' WHERE number = 2",
        "UPDATE runs SET settings = '{}' WHERE number = 2",
        "UPDATE runs SET cause = 'it diverged', failed_batch = 3 WHERE number = 2",
        "UPDATE runs SET digest = 'ab' WHERE number = 2",
    ],
)
def test_a_run_that_is_not_what_was_written_is_named_left_out_and_can_be_removed(filled: Path, statement: str) -> None:
    change(filled, statement)
    found = read(filled)
    assert [run.key.seed for run in found.runs] == [0, 2]
    assert list(found.damaged) == ["bit-flipping-4-batch8-hpg, definitive, seed 1"]
    with ResultsFile.open(filled) as file:
        file.remove_damage()
        records = {"ratios": np.eye(3, dtype=int)}
        file.write_runs([example_run(1, records=records)])
    again = read(filled)
    assert [run.key.seed for run in again.runs] == [0, 1, 2]
    assert not again.damaged


def test_a_run_of_which_only_the_evaluations_are_left(filled: Path) -> None:
    change(filled, "DELETE FROM runs WHERE number = 2")
    assert list(read(filled).damaged) == ["a run that is gone (number 2)"]
    with ResultsFile.open(filled) as file:
        file.remove_damage()
    assert not read(filled).damaged


def test_a_plan_that_is_not_what_was_written(filled: Path) -> None:
    change(filled, "UPDATE cells SET plan = '{}'")
    found = read(filled)
    assert found.plans == {}
    assert list(found.damaged) == ["the plan of bit-flipping-4-batch8-hpg"]
    with ResultsFile.open(filled) as file:
        file.write_plans({CELL: {"seed": 0}})
    assert not read(filled).damaged


def test_a_file_without_digests_is_taken_as_it_is(filled: Path) -> None:
    """Format 2 had none: its runs are unverified, and those that are added to it are not."""
    digests = ("ALTER TABLE runs DROP COLUMN digest", "ALTER TABLE cells DROP COLUMN digest")
    change(filled, *digests, "UPDATE facts SET value = '2' WHERE name = 'format'")
    before = filled.read_bytes()
    assert len(read(filled).runs) == 3
    assert filled.read_bytes() == before
    write(filled, [example_run(7)])
    for seed in (1, 7):
        change(filled, f"UPDATE runs SET seconds = 0 WHERE seed = {seed}")
    found = read(filled)
    assert [run.key.seed for run in found.runs] == [0, 1, 2]
    assert list(found.damaged) == ["bit-flipping-4-batch8-hpg, definitive, seed 7"]


def hold(path: Path, *statements: str) -> subprocess.Popen[str]:
    """Another process with an open transaction."""
    command = [sys.executable, "-c", HOLD, str(path), *statements]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_file_locked_by_another_process(filled: Path) -> None:
    sentence = f"'{filled}' is locked by another process; try again when that one is done."
    with hold(filled, "BEGIN EXCLUSIVE") as other:
        assert refusal(lambda: read(filled, seconds_to_wait=0.05)) == sentence
        assert refusal(lambda: write(filled, [example_run(7)], seconds_to_wait=0.05)) == sentence
        other.communicate()
    with hold(filled, "BEGIN", "SELECT * FROM runs") as other:
        assert len(read(filled, seconds_to_wait=0.05).runs) == 3
        with ResultsFile.open(filled, seconds_to_wait=0.05) as file:
            assert refusal(lambda: file.write_runs([example_run(7)])) == sentence
            other.communicate()
            file.write_runs([example_run(7)])
    assert [run.key.seed for run in read(filled).runs] == [0, 1, 2, 7]


def test_no_room_for_a_larger_file(tmp_path: Path) -> None:
    """The limit on a file's size stands for a quota; half of a piece is never kept."""
    tests = str(Path(__file__).parent.parent)
    command = [sys.executable, "-c", FILL, str(tmp_path), str(100_000), tests]
    filled = subprocess.run(command, capture_output=True, text=True, check=True)
    message, kept, after = filled.stdout.splitlines()
    reason = "the disk or its quota refused (disk I/O error); what it held before is safe"
    assert message == f"Could not use '{tmp_path / RESULTS}': {reason}."
    assert int(kept) > 1
    assert int(kept) % 20 == 1
    assert int(after) == int(kept) + 20


def test_full_disk(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FILL, str(tmp_path), "0", str(Path(__file__).parent.parent)]
    filled = on_a_small_disk(tmp_path, "192k", command)
    assert filled.returncode == 0, filled.stderr
    message, kept, after = filled.stdout.splitlines()
    assert message == f"Could not write '{tmp_path / RESULTS}': the disk is full; what it held before is safe."
    assert int(kept) > 1
    assert int(kept) % 20 == 1
    assert int(after) == int(kept) + 20


def without_rights(folder: Path, *attempts: str) -> list[str]:
    command = [sys.executable, "-c", WITHOUT_RIGHTS, str(folder), *attempts]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_folder_that_may_only_be_read() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        (missing,) = without_rights(folder, "write")
        assert missing.startswith(f"Could not write {folder / RESULTS}: Permission denied")
        folder.chmod(0o755)
        write(folder / RESULTS, [])
        (folder / RESULTS).chmod(0o444)
        folder.chmod(0o555)
        claimed, kept, refused = without_rights(folder, "claim", "read", "write")
        assert (claimed, kept) == ("claimed", "0")
        assert refused == f"Could not use '{folder / RESULTS}': attempt to write a readonly database."
        folder.chmod(0o000)
        (closed,) = without_rights(folder, "claim")
        assert closed == f"The output folder '{folder}' cannot be used: Permission denied."
        folder.chmod(0o755)
        assert "name" not in read(folder / RESULTS).facts
