"""The journal's file: SQLite, one a process, one transaction an answered batch.

It is opened in exclusive locking mode, so a second process is refused and no shared memory is needed, which network file
systems do not have. The rollback journal makes a transaction whole or absent, whatever kills the process.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from evoctx_torch.errors import UsageError
from evoctx_torch.journal.codec import Row, decode, encode, passage_body, read_passage
from evoctx_torch.journal.digest import digest
from evoctx_torch.operations import Passage, Pending, Result, Retrieved

VERSION = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS results (question TEXT, number INTEGER, digest BLOB, kind TEXT, body TEXT, data BLOB,
                                    PRIMARY KEY (question, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS passages (id TEXT PRIMARY KEY, body TEXT) WITHOUT ROWID;
"""


class Journal:
    """Results of operations, by question and number. Raises `UsageError` for a file that is damaged, of another version, or in
    use by another process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._passages: dict[str, Passage] = {}
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=1.0)
        try:
            self._open()
        except sqlite3.OperationalError as error:
            self._connection.close()
            busy = "locked" in str(error)
            raise UsageError(f"{path}: another process is working on this run: wait for it, or stop it" if busy else f"{path}: {error}") from None
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise UsageError(f"{path} is damaged ({error}): remove it to answer its questions anew") from None

    def _open(self) -> None:
        run = self._connection.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = TRUNCATE")
        run("BEGIN EXCLUSIVE")  # takes the lock, which exclusive mode then keeps
        (version,) = run("PRAGMA user_version").fetchone()
        if version not in (0, VERSION):
            run("ROLLBACK")
            self._connection.close()
            raise UsageError(f"{self.path} is of version {version}; expected {VERSION}: continue this run with the package that began it")
        for statement in SCHEMA.split(";\n"):
            run(statement)
        run(f"PRAGMA user_version = {VERSION}")
        run("COMMIT")
        self._continued = run("SELECT EXISTS (SELECT 1 FROM results)").fetchone()[0] == 1

    def recorded(self, pending: Pending) -> Result | None:
        """The result recorded for this operation, None if there is none.

        Raises `UsageError` where another operation was recorded under its number: a changed prompt, version or option.
        """
        if not self._continued:
            return None
        found = self._connection.execute(
            "SELECT digest, kind, body, data FROM results WHERE question = ? AND number = ?", (pending.question_id, pending.number)).fetchone()
        if found is None:
            return None
        if found[0] != digest(pending.operation):
            raise UsageError(
                f"{self.path}: question {pending.question_id!r} asks another {type(pending.operation).__name__} as its operation "
                f"{pending.number} than was recorded: a template, an option or the version has changed since; choose a new folder")
        return decode(Row(*found[1:]), self._passage)

    def record(self, pending: Sequence[Pending], results: Iterable[Result]) -> None:
        """Write the results of a batch in one transaction: when this returns they are durable."""
        rows, new = [], {}
        for row, result in zip(pending, results, strict=True):
            rows.append((row.question_id, row.number, digest(row.operation), *encode(result)))
            if isinstance(result, Retrieved):
                new |= {p.id: p for p in result.passages if p.id not in self._passages}
        run = self._connection
        run.execute("BEGIN")
        try:
            run.executemany("INSERT OR IGNORE INTO passages VALUES (?, ?)", [(name, passage_body(p)) for name, p in new.items()])
            run.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?)", rows)
            run.execute("COMMIT")
        except BaseException:
            if run.in_transaction:  # a full disk has already rolled it back
                run.execute("ROLLBACK")
            raise
        self._passages |= new

    def forget(self, question_ids: Iterable[str]) -> None:
        """Drop the results of questions whose lines are written: a finished question needs none."""
        self._connection.executemany("DELETE FROM results WHERE question = ?", [(name,) for name in question_ids])

    def _passage(self, name: str) -> Passage:
        if name not in self._passages:
            (body,) = self._connection.execute("SELECT body FROM passages WHERE id = ?", (name,)).fetchone()
            self._passages[name] = read_passage(name, body)
        return self._passages[name]

    def close(self) -> None:
        """Release the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
