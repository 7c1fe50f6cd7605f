"""Results of format 1: read as they are, and migrated by the one who writes; a kill on the way costs nothing."""

import csv
import io
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from small_results import example_run, read, refusal, write

from hindsight_rl.records.layout import FORMAT
from hindsight_rl.records.results import RESULTS, ResultsFile
from hindsight_rl.records.runs import DEFINITIVE, Cell, RunKey
from hindsight_rl.records.tidy import to_csv

GOLDEN = Path(__file__).parent.parent / "golden" / "format1"
HPG, BASELINE = Cell("bit-flipping-3", 4, "hpg"), Cell("bit-flipping-3", 4, "hpg+b")
OPTIONS_KEPT = {"hidden_layers": [8], "max_active_goals": None, "ended": "drop", "minibatch_size": 128}

KILLED = """
import os, signal, sqlite3, sys
from pathlib import Path
from hindsight_rl.records.layout import FORMAT
from hindsight_rl.records.results import ResultsFile
connect, left = sqlite3.connect, int(sys.argv[2])
def killing(*arguments, **options):
    connection = connect(*arguments, **options)
    connection.execute("PRAGMA cache_size = 1")  # pages reach the disk long before the end
    def trace(statement):
        global left
        if statement.startswith("BEGIN IMMEDIATE") or left < int(sys.argv[2]):
            left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    connection.set_trace_callback(trace)
    return connection
sqlite3.connect = killing
with ResultsFile.open(Path(sys.argv[1]), create=True):
    print(int(sys.argv[2]) - left)
"""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A real file of format 1."""
    return Path(shutil.copy(GOLDEN / "study" / RESULTS, tmp_path / RESULTS))


def format_in(path: Path) -> Any:
    connection = sqlite3.connect(path)
    ((found,),) = connection.execute("SELECT value FROM facts WHERE name = 'format'")
    connection.close()
    return json.loads(found)


def add_baseline(path: Path) -> None:
    """Give the file a cell of a method with a baseline, copied from the one that is there."""
    with sqlite3.connect(path) as connection:
        ((text,),) = connection.execute("SELECT plan FROM cells")
        plan = {**json.loads(text), "baseline_learning_rates": [0.1]}
        plan["agent"]["horizon"] = "paper"
        row = ("bit-flipping-3", 4, "hpg+b", json.dumps(plan), 1)
        connection.execute("INSERT INTO cells VALUES (?, ?, ?, ?, ?)", row)
        connection.execute(
            "INSERT INTO runs SELECT number + 100, environment, batch_size, 'hpg+b', stage, learning_rate, 0.1, seed,"
            " settings, seconds, 3, 'it diverged', origin FROM runs WHERE number = 6"
        )
    connection.close()


def test_everything_in_it_is_read_without_a_change_to_it(older: Path) -> None:
    before = older.read_bytes()
    found = read(older)
    older.chmod(0o444)
    assert read(older).facts == found.facts == {"format": FORMAT, "name": "before"}
    assert [(run.key, len(run.batches)) for run in found.runs if run.key.stage == DEFINITIVE] == [
        (RunKey(DEFINITIVE, (("learning_rate", 0.001),), seed), 5) for seed in (0, 1)
    ]
    assert len(found.runs) == 6
    for run in found.runs:
        assert set(run.metrics) == {"mean_return", "success_rate"}
        assert ("ratios" in run.records) == (run.key.stage == DEFINITIVE)
    assert {run.origin for run in found.runs} == set(found.origins) == {1}
    assert older.read_bytes() == before
    assert [path.name for path in older.parent.iterdir()] == [RESULTS]


def test_its_export_is_what_it_was(older: Path) -> None:
    def by_column(text: str) -> list[dict[str, str]]:
        return [{name: value for name, value in row.items() if value} for row in csv.DictReader(io.StringIO(text))]

    before = by_column((GOLDEN / "study-when-whole.csv").read_text())
    assert by_column(to_csv(read(older)).decode()) == [row for row in before if row["method"] == "hpg"]
    write(older, [])
    assert by_column(to_csv(read(older)).decode()) == [row for row in before if row["method"] == "hpg"]


def test_plans_and_rates_have_their_new_names(older: Path) -> None:
    add_baseline(older)
    found = read(older)
    plan = found.plans[HPG]
    assert list(plan) == [
        *("choices", "strategy", "search", "definitive", "episodes_end", "options", "specification", "seed")
    ]
    assert (plan["choices"], plan["strategy"], plan["episodes_end"]) == (
        {"learning_rate": [1e-3, 1e-2]},
        "grid",
        "horizon",
    )
    assert plan["search"] == {"runs": 2, "batches": 4, "evaluate_every": 2, "evaluation_episodes": 16}
    assert plan["specification"] == {"name": "bit-flipping", "options": {"bits": 3}}
    assert OPTIONS_KEPT.items() <= plan["options"].items()
    assert "horizon" not in plan["options"]
    assert len(plan["options"]) == 16
    with_baseline = found.plans[BASELINE]
    assert list(with_baseline["choices"].items()) == [
        ("learning_rate", [1e-3, 1e-2]),
        ("baseline_learning_rate", [0.1]),
    ]
    assert with_baseline["episodes_end"] == "goal"
    (run,) = found.of(BASELINE)
    assert run.key.choices == (("learning_rate", 0.001), ("baseline_learning_rate", 0.1))
    assert run.failure is not None
    assert (run.failure.batch, run.failure.sentence) == (3, "it diverged")


def test_who_only_reads_cannot_write(older: Path) -> None:
    before = older.read_bytes()
    with ResultsFile.open(older) as file:
        message = refusal(lambda: file.write_facts({"name": "lost"}))
    assert message == f"Could not use '{older}': attempt to write a readonly database."
    assert older.read_bytes() == before


def test_the_writer_migrates_it_once(older: Path) -> None:
    add_baseline(older)
    expected = read(older)
    write(older, [])
    assert format_in(older) == FORMAT
    migrated = older.read_bytes()
    write(older, [])
    assert older.read_bytes() == migrated
    found = read(older)
    assert (found.plans, found.facts, found.origins) == (expected.plans, expected.facts, expected.origins)
    assert to_csv(found) == to_csv(expected)
    write(older, [example_run(7, cell=HPG)])
    assert len(read(older).runs) == len(expected.runs) + 1
    assert "there already" in refusal(lambda: write(older, [example_run(0, cell=HPG, key=expected.runs[0].key)]))


def test_a_kill_while_it_is_migrated_leaves_a_good_file(older: Path, tmp_path: Path) -> None:
    for number in range(40):  # so that pages are written before the end
        with sqlite3.connect(older) as connection:
            connection.execute(
                "INSERT INTO runs SELECT number + ?, environment, batch_size, method, stage, learning_rate, 0.5,"
                " seed + ?, settings, seconds, failed_batch, cause, origin FROM runs WHERE number <= 6",
                (10 * (number + 1), 10 * number),
            )
        connection.close()
    expected = to_csv(read(older))
    whole = migrated(older, tmp_path, 10**6)
    assert format_in(tmp_path / RESULTS) == 1
    statements = int(whole.stdout)
    assert statements > 240
    journals = 0
    for number in (0, 1, 3, 20, statements // 2, statements - 2, statements - 1):
        killed = migrated(older, tmp_path, number)
        assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
        path = tmp_path / f"after-{number}.sqlite"
        journals += path.with_name(path.name + "-journal").exists()
        assert to_csv(read(path)) == expected
        assert format_in(path) == 1
        write(path, [])
        assert format_in(path) == FORMAT
        assert to_csv(read(path)) == expected
    assert journals >= 3


def migrated(older: Path, folder: Path, statements: int) -> subprocess.CompletedProcess[str]:
    """Migrate a copy in another process, which is killed after so many statements."""
    path = shutil.copy(older, folder / f"after-{statements}.sqlite")
    command = [sys.executable, "-c", KILLED, str(path), str(statements)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("plan", ["[]", "{}", "5", "null", '"x"', '{"agent": []}', '{"agent": {"horizon": "other"}}'])
def test_a_plan_that_makes_no_sense_is_damage(older: Path, plan: str) -> None:
    with sqlite3.connect(older) as connection:
        connection.execute("UPDATE cells SET plan = ?", (plan,))
    connection.close()
    before = older.read_bytes()
    for call in (lambda: read(older), lambda: write(older, [])):
        assert refusal(call).startswith(f"'{older}' is damaged or not a study's results: ")
    assert older.read_bytes() == before
