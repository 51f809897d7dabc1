"""The journal's file: SQLite, one a process, one transaction a tick.

It is opened in exclusive locking mode, so a second process is refused and no shared memory is needed, which network file
systems do not have. The rollback journal makes a transaction whole or absent, whatever kills the process.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
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
CREATE TABLE IF NOT EXISTS finished (question TEXT PRIMARY KEY, prediction TEXT, trajectory TEXT);
"""


class JournalInUse(UsageError):
    """Another process holds the journal."""


class Journal:
    """Results of operations, by question and number, and the lines of finished questions.

    What is recorded is durable at the next `commit`. Raises `UsageError` for a file that is damaged, of another version, in use
    by another process for longer than `wait` seconds (`JournalInUse`), or that cannot be written (a full disk): what was
    committed stays.
    """

    def __init__(self, path: Path, *, read_only: bool = False, wait: float = 1.0) -> None:
        self.path = path
        self._passages: dict[str, Passage] = {}
        self._inherited: list[Journal] = []
        mode = "rw" if read_only else "rwc"  # not "ro": what a kill left half written in the middle of a commit is rolled back by the next reader
        self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=wait)
        try:
            with self._troubles():
                if read_only:
                    self._connection.execute("PRAGMA query_only = ON")
                else:
                    self._lock()
                self._check(read_only)
        except BaseException:
            self._connection.close()
            raise

    def _lock(self) -> None:
        run = self._connection.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("BEGIN EXCLUSIVE")  # takes the lock, which exclusive mode then keeps
        run("COMMIT")

    def _check(self, read_only: bool) -> None:
        run = self._connection.execute
        (version,) = run("PRAGMA user_version").fetchone()
        if version == 0 and not read_only:  # a new file
            run("BEGIN")
            for statement in SCHEMA.split(";\n"):
                run(statement)
            run(f"PRAGMA user_version = {VERSION}")
            run("COMMIT")
            version = VERSION
        self._blank = version == 0  # killed before it was set up: nothing in it
        if self._blank:
            return
        if version != VERSION:
            raise UsageError(f"{self.path} is of version {version}; expected {VERSION}: continue this run with the package that began it")
        self._continued = run("SELECT EXISTS (SELECT 1 FROM results)").fetchone()[0] == 1

    def recorded(self, pending: Pending) -> Result | None:
        """The result recorded for this operation, None if there is none.

        What an inherited journal knows is recorded here as well, so that this file alone continues the question from now on.
        Raises `UsageError` where another operation was recorded under its number: a changed prompt, version or option.
        """
        if self._continued and (found := self._recorded(pending)) is not None:
            return found
        for other in self._inherited:
            if (found := other.recorded(pending)) is not None:
                self.record([pending], [found])
                return found
        return None

    def _recorded(self, pending: Pending) -> Result | None:
        query = "SELECT digest, kind, body, data FROM results WHERE question = ? AND number = ?"
        with self._troubles():
            found = self._connection.execute(query, (pending.question_id, pending.number)).fetchone()
        if found is None:
            return None
        if found[0] != digest(pending.operation):
            raise UsageError(
                f"{self.path}: question {pending.question_id!r} asks another {type(pending.operation).__name__} as its operation "
                f"{pending.number} than was recorded: a template, an option or the version has changed since; choose a new folder")
        return decode(Row(*found[1:]), self._passage)

    def inherit(self, other: Journal) -> None:
        """Continue what `other` has recorded, too; it is this one's to close from now on."""
        self._inherited.append(other)

    def count(self, question_id: str) -> int:
        """How many results are recorded for a question."""
        if self._blank:
            return 0
        with self._troubles():
            return self._connection.execute("SELECT count(*) FROM results WHERE question = ?", (question_id,)).fetchone()[0]

    def record(self, pending: Sequence[Pending], results: Iterable[Result]) -> None:
        """Keep the results of a batch: all of them, or none where this raises."""
        rows, new = [], {}
        for row, result in zip(pending, results, strict=True):
            rows.append((row.question_id, row.number, digest(row.operation), *encode(result)))
            if isinstance(result, Retrieved):
                new |= {p.id: p for p in result.passages if p.id not in self._passages}
        with self._writing() as connection:
            connection.executemany("INSERT OR IGNORE INTO passages VALUES (?, ?)", [(name, passage_body(p)) for name, p in new.items()])
            connection.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?)", rows)
        self._passages |= new

    def finish(self, question_id: str, prediction: str, trajectory: str) -> None:
        """Keep a finished question's lines of predictions.jsonl and trajectories.jsonl."""
        with self._writing() as connection:
            connection.execute("INSERT OR REPLACE INTO finished VALUES (?, ?, ?)", (question_id, prediction, trajectory))

    def finished(self) -> list[tuple[str, str]]:
        """The lines of all finished questions, as given to `finish`, here and in what was inherited."""
        if self._blank:
            return []
        with self._troubles():
            own = self._connection.execute("SELECT prediction, trajectory FROM finished").fetchall()
        return [*own, *(lines for other in self._inherited for lines in other.finished())]

    def finished_ids(self) -> set[str]:
        """The questions of `finished`."""
        if self._blank:
            return set()
        with self._troubles():
            own = {question for (question,) in self._connection.execute("SELECT question FROM finished")}
        return own.union(*(other.finished_ids() for other in self._inherited))

    def commit(self) -> None:
        """Make everything recorded so far durable."""
        with self._troubles():
            if self._connection.in_transaction:
                self._connection.execute("COMMIT")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction, which the next `commit` ends; a failure undoes it back to the last commit."""
        with self._troubles():
            try:
                if not self._connection.in_transaction:
                    self._connection.execute("BEGIN")
                yield self._connection
            except BaseException:
                if self._connection.in_transaction:  # a full disk has already rolled it back
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _troubles(self) -> Iterator[None]:
        """What SQLite stumbles over, said as a `UsageError`."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise JournalInUse(f"{self.path}: another process is working on this run: wait for it, or stop it") from None
            raise UsageError(f"{self.path} cannot be read or written ({error}): mend that; the same command then continues") from error
        except sqlite3.DatabaseError as error:
            raise UsageError(f"{self.path} is damaged ({error}): remove it to answer its questions anew") from error

    def _passage(self, name: str) -> Passage:
        if name not in self._passages:
            (body,) = self._connection.execute("SELECT body FROM passages WHERE id = ?", (name,)).fetchone()
            self._passages[name] = read_passage(name, body)
        return self._passages[name]

    def close(self) -> None:
        """Commit and release the file, and those inherited."""
        try:
            self.commit()
        finally:
            self._connection.close()
            for other in self._inherited:
                other.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
