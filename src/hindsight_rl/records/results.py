"""The results of a study: one SQLite file, written by one process, in which each finished run is safe at once."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.core.numbers import is_integer
from hindsight_rl.records.digests import UNVERIFIED, plan_digest, run_digest
from hindsight_rl.records.files import write_atomically
from hindsight_rl.records.layout import FORMAT, TABLES, choices_text, metric_columns, migrate
from hindsight_rl.records.rows import nullable, verified_run
from hindsight_rl.records.runs import Cell, FinishedRun, StudyResults

RESULTS = "results.sqlite"
PLAN_NAME = "the plan of"
"""How the name of a damaged plan begins; all others are those of runs."""


class ResultsFile:
    """The open file. Reading needs no claim; writing is for the one process that has claimed the study's folder."""

    def __init__(self, path: Path, connection: sqlite3.Connection):
        self._path = path
        self._connection = connection

    @classmethod
    @contextmanager
    def open(cls, path: Path, create: bool = False, seconds_to_wait: float = 10.0) -> Iterator[Self]:
        """Open the file of a study. With `create`, for its one writer: begin it, or bring it to this format."""
        if not create and not path.exists():
            raise HindsightError(f"'{path.parent}' holds no study: it has no {path.name}.")
        with _explained(path):
            if not path.exists():
                # Whole or not at all: what a kill left of a file being made would pass for a damaged one for ever.
                write_atomically(path, _empty_file())
            connection = sqlite3.connect(path, timeout=seconds_to_wait, isolation_level=None)
        try:
            results = cls(path, connection)
            if (found := results._checked_format()) < FORMAT:
                results._bring_up_to_date(found, in_place=create)
            yield results
        finally:
            results._connection.close()

    def _bring_up_to_date(self, found: int, in_place: bool) -> None:
        """Migrate the file or, for those who only read it, a copy in memory to which nothing can be written."""
        with _explained(self._path):
            if in_place:
                with self._transaction():
                    migrate(self._connection, found)
                return
            copy = sqlite3.connect(":memory:", isolation_level=None)
            with closing(self._connection), self._reading():
                self._rows("SELECT name FROM facts")  # from now on nobody can lock the file, for which it would wait
                self._connection.backup(copy)
            self._connection = copy
            migrate(copy, found)
            copy.execute("PRAGMA query_only = ON")

    def _checked_format(self) -> int:
        """The file's format; one that is not ours, is damaged, or comes from a newer version is refused."""
        with _explained(self._path):
            names = {row[0] for row in self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if "facts" not in names:
                raise HindsightError(f"'{self._path}' is damaged or not a study's results: it lacks its tables.")
            rows = self._connection.execute("SELECT value FROM facts WHERE name = 'format'").fetchall()
            found = json.loads(rows[0][0]) if rows else None
            if not is_integer(found) or not 1 <= found <= FORMAT:
                newer = isinstance(found, int) and found > FORMAT
                reason = "a newer hindsight wrote it; install that one" if newer else "no hindsight wrote that"
                raise HindsightError(f"'{self._path}' has format {found}, but this hindsight reads {FORMAT}: {reason}.")
            verdict = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if verdict != "ok":
                raise HindsightError(f"'{self._path}' is damaged: {verdict.splitlines()[0]}.")
            return found

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def write_facts(self, facts: Mapping[str, Any]) -> None:
        """Say something of the study as a whole."""
        with _explained(self._path), self._transaction():
            rows = [(name, json.dumps(value)) for name, value in facts.items()]
            self._connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)

    def write_plans(self, plans: Mapping[Cell, Mapping[str, Any]]) -> None:
        """Say what is to be run for some cells, after those there already; where these are all, their order holds."""
        with _explained(self._path), self._transaction():
            new = {cell: json.dumps(plan) for cell, plan in plans.items()}
            held, _ = self._plans()
            ordered = new if new.keys() >= held.keys() else held | new
            rows = [
                (*cell, plan, position, plan_digest(cell, plan))
                for position, (cell, plan) in enumerate(ordered.items())
            ]
            self._connection.execute("DELETE FROM cells")
            self._connection.executemany("INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?)", rows)

    def write_origin(self, content: Mapping[str, Any]) -> int:
        """The number under which runs refer to what made them."""
        text = json.dumps(content, sort_keys=True)
        with _explained(self._path), self._transaction():
            self._connection.execute("INSERT OR IGNORE INTO origins (content) VALUES (?)", (text,))
            return int(self._connection.execute("SELECT number FROM origins WHERE content = ?", (text,)).fetchone()[0])

    def write_runs(self, runs: Sequence[FinishedRun]) -> None:
        """Add finished runs: all of them or, when that fails, none."""
        with _explained(self._path), self._transaction():
            columns = metric_columns(self._connection, (name for run in runs for name in run.metrics))
            for run in runs:
                self._insert(run, columns)

    def _insert(self, run: FinishedRun, columns: Mapping[str, str]) -> None:
        failure = (run.failure.batch, run.failure.sentence) if run.failure else (None, None)
        settings = json.dumps(run.settings, sort_keys=True)
        key = (run.key.stage, choices_text(run.key.choices), run.key.seed)
        row = (*run.cell, *key, settings, run.seconds, *failure, run.origin, run_digest(run))
        places = ", ".join("?" * len(row))
        number = self._connection.execute(f"INSERT INTO runs VALUES (NULL, {places})", row).lastrowid
        names = ", ".join(["run", "batch", "episodes", *(columns[name] for name in run.metrics)])
        values = [nullable(values) for values in run.metrics.values()]
        rows = zip([number] * len(run.batches), map(int, run.batches), map(int, run.episodes), *values, strict=True)
        places = ", ".join("?" * (3 + len(values)))
        self._connection.executemany(f"INSERT INTO evaluations ({names}) VALUES ({places})", rows)
        for name, array in run.records.items():
            content = np.asarray(array, dtype="<i8", order="C")
            row = (number, name, json.dumps(content.shape), content.tobytes())
            self._connection.execute("INSERT INTO records VALUES (?, ?, ?, ?)", row)

    def remove_runs_that_raised(self, cells: Iterable[Cell]) -> int:
        """Forget the runs of some cells that an exception ended, to try them again; returns how many there were."""
        those = "failed_batch = -1 AND environment = ? AND batch_size = ? AND method = ?"
        removed = 0
        with _explained(self._path), self._transaction():
            for cell in cells:
                for table in ("evaluations", "records"):
                    where = f"run IN (SELECT number FROM runs WHERE {those})"
                    self._connection.execute(f"DELETE FROM {table} WHERE {where}", cell)
                removed += self._connection.execute(f"DELETE FROM runs WHERE {those}", cell).rowcount
        return removed

    def remove_damage(self) -> None:
        """Forget the runs that are not what was written, and what is left of runs that are gone, to run them again."""
        with _explained(self._path), self._transaction():
            _, damaged = self._read_runs()
            self._connection.executemany("DELETE FROM runs WHERE number = ?", [(number,) for number in damaged])
            for table in ("evaluations", "records"):
                self._connection.execute(f"DELETE FROM {table} WHERE run NOT IN (SELECT number FROM runs)")

    def read(self) -> StudyResults:
        """Everything that is as it was written, in one consistent state even while another process writes."""
        with _explained(self._path), self._reading():
            facts = {name: json.loads(value) for name, value in self._rows("SELECT name, value FROM facts")}
            origins = {number: json.loads(text) for number, text in self._rows("SELECT number, content FROM origins")}
            texts, damaged_plans = self._plans()
            plans = {cell: json.loads(plan) for cell, plan in texts.items()}
            runs, damaged_runs = self._read_runs()
            return StudyResults(facts, plans, runs, origins, [*damaged_plans, *damaged_runs.values()])

    def _plans(self) -> tuple[dict[Cell, str], list[str]]:
        """The plan of each cell, and the names of those that are not what was written."""
        plans, damaged = {}, []
        query = "SELECT environment, batch_size, method, plan, digest FROM cells ORDER BY position"
        for *names, plan, digest in self._rows(query):
            cell = Cell(*names)
            if digest in (UNVERIFIED, plan_digest(cell, plan)):
                plans[cell] = plan
            else:
                damaged.append(f"{PLAN_NAME} {cell.name}")
        return plans, damaged

    @contextmanager
    def _reading(self) -> Iterator[None]:
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            if self._connection.in_transaction:  # an error may have ended it
                self._connection.execute("COMMIT")

    def _read_runs(self) -> tuple[list[FinishedRun], dict[int, str]]:
        """The runs in order, and the names of those that are not what was written, by number."""
        evaluations: dict[int, list[tuple[Any, ...]]] = {}
        columns = metric_columns(self._connection)
        query = (
            f"SELECT {', '.join(['run', 'batch', 'episodes', *columns.values()])} FROM evaluations ORDER BY run, batch"
        )
        for run, *row in self._rows(query):
            evaluations.setdefault(run, []).append(tuple(row))
        records: dict[int, dict[str, tuple[str, bytes]]] = {}
        for run, name, *array in self._rows("SELECT run, name, shape, content FROM records ORDER BY run, name"):
            records.setdefault(run, {})[name] = (array[0], array[1])
        query = (
            "SELECT number, environment, batch_size, method, stage, choices, seed, settings, seconds, failed_batch,"
            " cause, origin, digest FROM runs"
        )
        runs, damaged = [], {}
        for number, *row, digest in self._rows(query):
            run = verified_run(row, list(columns), evaluations.pop(number, []), records.pop(number, {}), digest)
            if run is None:
                damaged[number] = f"{Cell(*row[:3]).name}, {row[3]}, seed {row[5]}"
            else:
                runs.append(run)
        damaged |= {number: f"a run that is gone (number {number})" for number in {*evaluations, *records}}
        return sorted(runs, key=lambda run: (run.cell, run.key)), damaged

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(query).fetchall()


def _empty_file() -> bytes:
    """The content of a file without runs."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(TABLES)
        return connection.serialize()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what SQLite has to say into a sentence."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise HindsightError(f"Could not write '{path}': a run of it is there already ({error}).") from error
    except sqlite3.OperationalError as error:
        text = str(error)
        if "locked" in text:
            raise HindsightError(f"'{path}' is locked by another process; try again when that one is done.") from error
        if "full" in text:
            raise HindsightError(f"Could not write '{path}': the disk is full; what it held before is safe.") from error
        if "I/O" in text:  # also what a quota, or a limit on the size of files, comes out as
            text = "the disk or its quota refused (disk I/O error); what it held before is safe"
        raise HindsightError(f"Could not use '{path}': {text}.") from error
    except HindsightError:
        raise
    # What is no longer what was written can break anywhere between SQLite and the arrays.
    except (sqlite3.DatabaseError, ValueError, TypeError, LookupError, AttributeError, OSError) as error:
        gist = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise HindsightError(f"'{path}' is damaged or not a study's results: {gist}.") from error
