"""The results of a study: one SQLite file, written by one process, in which each finished run is safe at once."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from hindsight_rl.core.errors import HindsightError
from hindsight_rl.records.files import write_atomically
from hindsight_rl.records.layout import FORMAT, TABLES, choices_text, metric_columns, migrate
from hindsight_rl.records.runs import Cause, Cell, FinishedRun, RunKey, StudyResults, other_metrics

RESULTS = "results.sqlite"


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
            if results._checked_format() < FORMAT:
                results._bring_up_to_date(in_place=create)
            yield results
        finally:
            results._connection.close()

    def _bring_up_to_date(self, in_place: bool) -> None:
        """Migrate the file or, for those who only read it, a copy in memory to which nothing can be written."""
        with _explained(self._path):
            if in_place:
                with self._transaction():
                    migrate(self._connection)
                return
            copy = sqlite3.connect(":memory:", isolation_level=None)
            with closing(self._connection), self._reading():
                self._rows("SELECT name FROM facts")  # from now on nobody can lock the file, for which it would wait
                self._connection.backup(copy)
            self._connection = copy
            migrate(copy)
            copy.execute("PRAGMA query_only = ON")

    def _checked_format(self) -> int:
        """The file's format; one that is not ours, is damaged, or comes from a newer version is refused."""
        with _explained(self._path):
            names = {row[0] for row in self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if "facts" not in names:
                raise HindsightError(f"'{self._path}' is damaged or not a study's results: it lacks its tables.")
            rows = self._connection.execute("SELECT value FROM facts WHERE name = 'format'").fetchall()
            found = json.loads(rows[0][0]) if rows else None
            if found not in (1, FORMAT):
                newer = isinstance(found, int) and found > FORMAT
                reason = "a newer hindsight wrote it; install that one" if newer else "no hindsight wrote that"
                raise HindsightError(f"'{self._path}' has format {found}, but this hindsight reads {FORMAT}: {reason}.")
            verdict = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if verdict != "ok":
                raise HindsightError(f"'{self._path}' is damaged: {verdict.splitlines()[0]}.")
            return int(found)

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
            held = self._plans()
            ordered = new if new.keys() >= held.keys() else held | new
            rows = [(*cell, plan, position) for position, (cell, plan) in enumerate(ordered.items())]
            self._connection.execute("DELETE FROM cells")
            self._connection.executemany("INSERT INTO cells VALUES (?, ?, ?, ?, ?)", rows)

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
        row = (*run.cell, *key, settings, run.seconds, *failure, run.origin)
        places = ", ".join("?" * len(row))
        number = self._connection.execute(f"INSERT INTO runs VALUES (NULL, {places})", row).lastrowid
        names = ", ".join(["run", "batch", "episodes", *(columns[name] for name in run.metrics)])
        values = [_nullable(values) for values in run.metrics.values()]
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

    def read(self) -> StudyResults:
        """Everything, as one consistent state even while another process writes."""
        with _explained(self._path), self._reading():
            facts = {name: json.loads(value) for name, value in self._rows("SELECT name, value FROM facts")}
            plans = {cell: json.loads(plan) for cell, plan in self._plans().items()}
            origins = {number: json.loads(text) for number, text in self._rows("SELECT number, content FROM origins")}
            return StudyResults(facts, plans, self._read_runs(), origins)

    def _plans(self) -> dict[Cell, str]:
        query = "SELECT environment, batch_size, method, plan FROM cells ORDER BY position"
        return {Cell(*row[:3]): row[3] for row in self._rows(query)}

    @contextmanager
    def _reading(self) -> Iterator[None]:
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            if self._connection.in_transaction:  # an error may have ended it
                self._connection.execute("COMMIT")

    def _read_runs(self) -> list[FinishedRun]:
        evaluations: dict[int, list[tuple[Any, ...]]] = {}
        columns = metric_columns(self._connection)
        query = (
            f"SELECT {', '.join(['run', 'batch', 'episodes', *columns.values()])} FROM evaluations ORDER BY run, batch"
        )
        for run, *row in self._rows(query):
            evaluations.setdefault(run, []).append(tuple(row))
        records: dict[int, dict[str, np.ndarray]] = {}
        for run, name, shape, content in self._rows("SELECT run, name, shape, content FROM records ORDER BY run, name"):
            records.setdefault(run, {})[name] = np.frombuffer(content, dtype="<i8").reshape(json.loads(shape))
        query = (
            "SELECT number, environment, batch_size, method, stage, choices, seed, settings, seconds, failed_batch,"
            " cause, origin FROM runs"
        )
        runs = [
            _finished_run(row[1:], list(columns), evaluations.get(row[0], []), records.get(row[0], {}))
            for row in self._rows(query)
        ]
        return sorted(runs, key=lambda run: (run.cell, run.key))

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(query).fetchall()


def _empty_file() -> bytes:
    """The content of a file without runs."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(TABLES)
        return connection.serialize()


def _finished_run(
    row: tuple[Any, ...],
    names: Sequence[str],
    evaluations: Sequence[tuple[Any, ...]],
    records: Mapping[str, np.ndarray],
) -> FinishedRun:
    environment, batch_size, method, stage, choices, seed, settings, seconds, batch, cause, origin = row
    table = np.array(evaluations, dtype=np.float64).reshape(-1, 2 + len(names))
    metrics = dict(zip(names, table[:, 2:].T, strict=True))
    for name in other_metrics(names):
        if np.isnan(metrics[name]).all():  # other runs recorded it
            del metrics[name]
    return FinishedRun(
        cell=Cell(environment, batch_size, method),
        key=RunKey(stage, tuple(json.loads(choices).items()), seed),
        settings=json.loads(settings),
        batches=table[:, 0].astype(np.int64),
        episodes=table[:, 1].astype(np.int64),
        metrics=metrics,
        seconds=seconds,
        failure=None if cause is None else Cause(batch, cause),
        records=records,
        origin=origin,
    )


def _nullable(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


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
