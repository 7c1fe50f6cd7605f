"""The tables of a results file, and how a file of an earlier format comes to have them."""

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from hindsight_rl.core.run import EARLIER_ENDS
from hindsight_rl.records.digests import UNVERIFIED

FORMAT = 3
"""Version of the layout; a reader refuses a newer one. 1 knew two rates only, 2 had no digests."""

_RUNS = """
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    environment TEXT NOT NULL, batch_size INTEGER NOT NULL, method TEXT NOT NULL,
    stage TEXT NOT NULL, choices TEXT NOT NULL, seed INTEGER NOT NULL,
    settings TEXT NOT NULL, seconds REAL NOT NULL, failed_batch INTEGER, cause TEXT,
    origin INTEGER NOT NULL REFERENCES origins, digest TEXT NOT NULL,
    UNIQUE (environment, batch_size, method, stage, choices, seed)
);
"""
# A column for each metric: a row for each value would take three times the room.
_METRICS = "CREATE TABLE metrics (name TEXT NOT NULL UNIQUE, evaluations_column TEXT NOT NULL UNIQUE);"
_USUAL = "INSERT INTO metrics VALUES ('mean_return', 'mean_return'), ('success_rate', 'success_rate');"
TABLES = f"""
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE cells (
    environment TEXT, batch_size INTEGER, method TEXT, plan TEXT NOT NULL, position INTEGER NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (environment, batch_size, method)
) WITHOUT ROWID;
CREATE TABLE origins (number INTEGER PRIMARY KEY, content TEXT NOT NULL UNIQUE);
{_RUNS}
CREATE TABLE evaluations (
    run INTEGER NOT NULL REFERENCES runs, batch INTEGER NOT NULL, episodes INTEGER NOT NULL,
    mean_return REAL, success_rate REAL, PRIMARY KEY (run, batch)
) WITHOUT ROWID;
{_METRICS}
CREATE TABLE records (
    run INTEGER NOT NULL REFERENCES runs, name TEXT NOT NULL, shape TEXT NOT NULL, content BLOB NOT NULL,
    PRIMARY KEY (run, name)
) WITHOUT ROWID;
{_USUAL}
INSERT INTO facts VALUES ('format', '{FORMAT}');
"""


def choices_text(choices: Iterable[tuple[str, float]]) -> str:
    """Choices in the one spelling that the file has for them."""
    return json.dumps({name: float(value) for name, value in choices})


def metric_columns(connection: sqlite3.Connection, wanted: Iterable[str] = ()) -> dict[str, str]:
    """The quoted column of `evaluations` that holds each metric; what is wanted and not there yet is added.

    Columns are named after the metrics, without signs that SQL would stumble over, and differ in more than case.
    """
    columns = dict(connection.execute("SELECT name, evaluations_column FROM metrics ORDER BY rowid").fetchall())
    held = {row[1] for row in connection.execute("PRAGMA table_info(evaluations)")}
    for gone in set(columns.values()) - held:  # SQLite would take its name for a text
        raise LookupError(f"the column '{gone}' of a metric is gone")
    for name in wanted:
        if name not in columns:
            taken = {row[1].lower() for row in connection.execute("PRAGMA table_info(evaluations)")}
            base = re.sub(r"\W+", "_", name, flags=re.ASCII)
            spellings = (base, *(f"{base}_{number}" for number in range(2, len(taken) + 3)))
            columns[name] = next(one for one in spellings if one.lower() not in taken)
            connection.execute(f'ALTER TABLE evaluations ADD COLUMN "{columns[name]}" REAL')
            connection.execute("INSERT INTO metrics VALUES (?, ?)", (name, columns[name]))
    return {name: f'"{column}"' for name, column in columns.items()}


def migrate(connection: sqlite3.Connection, found: int) -> None:
    """Turn an earlier format into this one, within a transaction of the caller's. What is there has no digests."""
    if found == 1:
        _rename_rates(connection)
    else:
        connection.execute(f"ALTER TABLE runs ADD COLUMN digest TEXT NOT NULL DEFAULT '{UNVERIFIED}'")
    connection.execute(f"ALTER TABLE cells ADD COLUMN digest TEXT NOT NULL DEFAULT '{UNVERIFIED}'")
    connection.execute("UPDATE facts SET value = ? WHERE name = 'format'", (json.dumps(FORMAT),))


def _rename_rates(connection: sqlite3.Connection) -> None:
    """Turn format 1, in which rates were columns, into choices by name."""
    runs = connection.execute("SELECT * FROM runs").fetchall()
    connection.execute("DROP TABLE runs")
    connection.execute(_RUNS)
    connection.execute(_METRICS)
    connection.execute(_USUAL)
    places = ", ".join("?" * 13)
    for *head, rate, baseline_rate, seed, settings, seconds, batch, cause, origin in runs:
        rates = {"learning_rate": rate, "baseline_learning_rate": baseline_rate}
        choices = choices_text((name, value) for name, value in rates.items() if value)  # 0: there is no baseline
        row = (*head, choices, seed, settings, seconds, batch, cause, origin, UNVERIFIED)
        connection.execute(f"INSERT INTO runs VALUES ({places})", row)
    for *cell, plan in connection.execute("SELECT environment, batch_size, method, plan FROM cells").fetchall():
        where = "environment = ? AND batch_size = ? AND method = ?"
        connection.execute(f"UPDATE cells SET plan = ? WHERE {where}", (json.dumps(_plan(json.loads(plan))), *cell))


def _plan(old: Mapping[str, Any]) -> dict[str, Any]:
    """What was planned for a cell, as this format says it."""
    options = dict(old["agent"])
    rates = {name: old[f"{name}s"] for name in ("learning_rate", "baseline_learning_rate")}
    return {
        "choices": {name: values for name, values in rates.items() if values},
        **{name: old[name] for name in ("strategy", "search", "definitive")},
        "episodes_end": EARLIER_ENDS[options.pop("horizon")],
        "options": options,
        **{name: old[name] for name in ("specification", "seed")},
    }
