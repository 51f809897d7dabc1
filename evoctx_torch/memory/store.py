"""A thought memory on disk: one SQLite file with texts, levels, sources and vectors, changed in whole transactions.

The vectors lie in the same file as the texts, so one transaction covers both: after a kill there is never one without the
other. Nothing is changed or deleted once it is stored; ids count from 1.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import numpy as np

from evoctx_torch.errors import UsageError
from evoctx_torch.memory.records import EncoderId, Offer, StoredThought

APPLICATION, FORMAT = 0x65766F54, 1  # SQLite's application_id ("evoT") and user_version
SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    # sources: a JSON list of thought ids (numbers) and passage ids (texts); provenance: a JSON list of passage ids
    "CREATE TABLE thoughts (id INTEGER PRIMARY KEY, text TEXT NOT NULL, level REAL NOT NULL, sources TEXT NOT NULL,"
    " provenance TEXT NOT NULL, run TEXT NOT NULL, wave INTEGER NOT NULL, question TEXT NOT NULL, vector BLOB NOT NULL)",
    # outcome: NULL while the offer waits for the end of its wave
    "CREATE TABLE offers (run TEXT NOT NULL, question TEXT NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL,"
    " sources TEXT NOT NULL, bound REAL NOT NULL, outcome TEXT, PRIMARY KEY (run, question, number))",
    f"PRAGMA application_id = {APPLICATION}", f"PRAGMA user_version = {FORMAT}",
)


class ThoughtStore:
    """The thoughts of a memory file, in memory and on disk. None is a memory that ends with the process.

    A file that is not there is made by `create`, not before. Raises `UsageError` where the file holds no memory, is damaged,
    of another format, or of another encoder than the one given.
    """

    def __init__(self, path: Path | None, encoder: EncoderId | None = None) -> None:
        self.path, self.encoder = path, encoder
        self.thoughts: list[StoredThought] = []
        self._vectors: list[bytes] = []
        self._db: sqlite3.Connection | None = None
        if path is not None and path.is_dir():
            raise UsageError(f"{path} is a folder, no thought memory; expected a file (a run without --memory keeps memory.sqlite in its folder)")
        if path is not None and path.exists() and path.stat().st_size:  # empty: a kill while it was made
            self._read(path)

    def create(self) -> None:
        """Make the file, if it is not there."""
        if self._db is not None:
            return
        if self.encoder is None:
            raise ValueError("a new memory needs the encoder whose vectors it will hold")
        self._db = connect(self.path or ":memory:")
        with self._transaction() as db:
            for statement in SCHEMA:
                db.execute(statement)
            db.executemany("INSERT INTO meta VALUES (?, ?)", [("encoder", self.encoder.name), ("encoder_digest", self.encoder.digest)])

    @property
    def made(self) -> bool:
        """Whether there is a file, or a table in memory, to write to."""
        return self._db is not None

    def close(self) -> None:
        """Let go of the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def vector(self, id: int) -> np.ndarray:
        """The unit vector `[D]` float32 of a stored thought."""
        return np.frombuffer(self._vectors[id - 1], "<f4")

    def vectors(self, thoughts: Iterable[StoredThought]) -> np.ndarray:
        """Unit vectors `[n, D]` float32 of stored thoughts; `[0, 0]` for none."""
        rows = [self.vector(thought.id) for thought in thoughts]
        return np.stack(rows) if rows else np.empty((0, 0), np.float32)

    def digest(self, count: int) -> str:
        """Of the first `count` thoughts: texts, levels and provenance."""
        state = blake2b(digest_size=16)
        for thought in self.thoughts[:count]:
            state.update(json.dumps([thought.text, thought.level, thought.provenance]).encode() + b"\n")
        return state.hexdigest()

    def outcomes(self) -> Counter[str]:
        """How many offers were stored, rejected for each reason, or still wait (`pending`)."""
        rows = self._db.execute("SELECT coalesce(outcome, 'pending'), count(*) FROM offers GROUP BY outcome") if self._db else ()
        return Counter(dict(rows))

    def offer(self, run: str, offers: Sequence[Offer]) -> None:
        """Keep offers until their wave ends. What was decided of the same offer before stays decided."""
        with self._transaction() as db:
            db.executemany("INSERT OR IGNORE INTO offers VALUES (?, ?, ?, ?, ?, ?, NULL)",
                           [(run, o.question, o.number, o.text, json.dumps(o.sources), o.bound) for o in offers])

    def forget(self, run: str, began: Iterable[tuple[str, int]]) -> None:
        """Drop what waits from an earlier try of an episode that is at (question, operation number) again."""
        with self._transaction() as db:
            db.executemany("DELETE FROM offers WHERE run = ? AND question = ? AND number >= ? AND outcome IS NULL",
                           [(run, question, number) for question, number in began])

    def pending(self, run: str) -> list[Offer]:
        """The run's offers that wait, in no order."""
        query = "SELECT question, number, text, sources, bound FROM offers WHERE run = ? AND outcome IS NULL"
        rows = self._require().execute(query, (run,))
        return [Offer(question, number, text, tuple(json.loads(sources)), bound) for question, number, text, sources, bound in rows]

    def settle(self, run: str, outcomes: Sequence[tuple[Offer, str]], stored: Sequence[tuple[StoredThought, np.ndarray]]) -> None:
        """Write what became of a wave's offers, and the thoughts that are stored with their vectors, in one transaction."""
        rows = [(*_row(thought), np.ascontiguousarray(vector, "<f4").tobytes()) for thought, vector in stored]
        with self._transaction() as db:
            db.executemany("UPDATE offers SET outcome = ? WHERE run = ? AND question = ? AND number = ?",
                           [(outcome, run, offer.question, offer.number) for offer, outcome in outcomes])
            db.executemany("INSERT INTO thoughts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        self.thoughts += [thought for thought, _ in stored]
        self._vectors += [row[-1] for row in rows]

    def _read(self, path: Path) -> None:
        try:
            self._db = connect(path)
            found = [self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
            if found[0] == APPLICATION and found[1] != FORMAT:
                raise UsageError(f"the memory {path} has format {found[1]}; expected {FORMAT}: it was made by another version")
            if found[0] != APPLICATION:
                raise UsageError(f"{path} is no thought memory; expected a file made by `evoctx eval thought-retriever --memory FILE`")
            meta = dict(self._db.execute("SELECT name, value FROM meta"))
            made = EncoderId(meta["encoder"], meta["encoder_digest"])
            rows = self._db.execute("SELECT * FROM thoughts ORDER BY id").fetchall()
            for id, text, level, sources, provenance, run, wave, question, vector in rows:
                made_of = tuple(json.loads(sources)), tuple(json.loads(provenance))
                self.thoughts.append(StoredThought(id, text, level, *made_of, run, wave, question))
                self._vectors.append(vector)
        except (sqlite3.Error, KeyError, ValueError, TypeError) as error:
            raise UsageError(f"{path} is no thought memory, or is damaged or cannot be read ({error})") from None
        if [thought.id for thought in self.thoughts] != list(range(1, len(rows) + 1)) or len(set(map(len, self._vectors))) > 1:
            raise UsageError(f"the memory {path} is damaged: thoughts or vectors are missing in it")
        if self.encoder is not None and made.digest != self.encoder.digest:
            raise UsageError(f"the memory {path} was made with another encoder, --dtype or --passage-prompt ({made.name}, digest {made.digest}; this "
                             f"run has {self.encoder.name}, {self.encoder.digest}), so its vectors do not compare: give the same, "
                             "or another --memory")
        self.encoder = made

    def _require(self) -> sqlite3.Connection:
        if self._db is None:
            raise RuntimeError("this memory is not made yet: call create() first")
        return self._db

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        db = self._require()
        try:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")
        except BaseException as error:
            if db.in_transaction:  # a full disk has already rolled it back
                db.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise UsageError(f"the memory {self.path} cannot be written ({error}): mend that; the same command then continues") from error
            raise


def connect(path: Path | str) -> sqlite3.Connection:
    """SQLite in autocommit: every change here is an explicit transaction. A power cut loses nothing that was committed."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA synchronous = FULL")
    return db


def _row(thought: StoredThought) -> tuple[object, ...]:
    return (thought.id, thought.text, thought.level, json.dumps(thought.sources, ensure_ascii=False),
            json.dumps(thought.provenance, ensure_ascii=False), thought.run, thought.wave, thought.question)
