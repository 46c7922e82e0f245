"""The database of an indexer."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from examples.ingest.messages import Batch

SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS lines (
    source TEXT, number INTEGER, window INTEGER, time REAL, host TEXT, text TEXT, PRIMARY KEY (source, number)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_window ON lines (window, host);
CREATE TABLE IF NOT EXISTS counts (window INTEGER, host TEXT, lines INTEGER, PRIMARY KEY (window, host)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS positions (source TEXT PRIMARY KEY, position INTEGER) WITHOUT ROWID;
"""


class Store:
    """Lines, how many there are by window and host, and how far each file is in."""

    def __init__(self, path: Path) -> None:
        # One that was killed may still be writing: this one waits. It may be closed by another thread than it works on.
        self.connection = sqlite3.connect(path, timeout=60.0, check_same_thread=False, isolation_level=None)
        self.connection.executescript(SCHEMA)

    def close(self) -> None:
        """Close the database."""
        self.connection.close()

    def write(self, batch: Batch) -> int:
        """Store a window, all of it or nothing. Returns how many of its lines were not there yet."""
        rows = [(one.source, one.number, batch.window, one.time, one.host, one.text) for one in batch.records]
        with Transaction(self.connection) as connection:
            before = connection.total_changes
            connection.executemany("INSERT OR IGNORE INTO lines VALUES (?, ?, ?, ?, ?, ?)", rows)
            new = connection.total_changes - before
            # Counted afresh, not added: right, also when some lines have come for the second time.
            connection.execute(
                "INSERT OR REPLACE INTO counts SELECT window, host, count(*) FROM lines WHERE window = ? GROUP BY host",
                (batch.window,),
            )
            connection.executemany("INSERT OR REPLACE INTO positions VALUES (?, ?)", list(batch.positions.items()))
        return new

    def position(self, source: str) -> int:
        """How far a file is in."""
        found = self.connection.execute("SELECT position FROM positions WHERE source = ?", (source,)).fetchone()
        return found[0] if found else 0

    def keys(self) -> list[tuple[str, int]]:
        """What is in: source and number of each line."""
        return self.connection.execute("SELECT source, number FROM lines").fetchall()

    def counts(self) -> list[tuple[int, str, int]]:
        """Windows, hosts, and how many lines."""
        return self.connection.execute("SELECT window, host, lines FROM counts ORDER BY window, host").fetchall()


class Transaction:
    """What is within is done all, or not at all."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def __enter__(self) -> sqlite3.Connection:
        self.connection.execute("BEGIN IMMEDIATE")
        return self.connection

    def __exit__(self, kind: object, *rest: object) -> None:
        self.connection.execute("COMMIT" if kind is None else "ROLLBACK")
