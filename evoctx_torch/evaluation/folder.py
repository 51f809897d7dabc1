"""A run's folder: its files, the guard against another configuration, and what is finished so far.

While a run is under way its journals, one a process, take every operation's result and the lines of every finished question;
the contract's files are written at the end, in the order of the input, each through a temporary file, `metrics.json` last: where
it is, the run is complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.config import RECORD, difference
from evoctx_torch.journal import Journal, JournalInUse
from evoctx_torch.paths import check_writable, replace

LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
UNFINISHED = re.compile(r"journal-\d+\.sqlite(-journal)?|claims")  # a kill may leave these alone
Lines = tuple[dict[str, Any], dict[str, Any]]  # a question's prediction and trajectory


class RunFolder:
    """`--out`: reading and writing the files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config, self.metrics = path / "config.json", path / "metrics.json"
        self.predictions, self.trajectories = path / "predictions.jsonl", path / "trajectories.jsonl"
        self.report, self.journal, self.claims = path / "report.html", self.journal_of(0), path / "claims"

    def journal_of(self, seat: int) -> Path:
        """The journal of the process with this rank."""
        return self.path / f"journal-{seat}.sqlite"

    def seats(self) -> list[int]:
        """The ranks that have a journal here, of this launch and of earlier ones."""
        return sorted(int(file.stem.removeprefix("journal-")) for file in self.path.glob("journal-*.sqlite"))

    def seats_of(self, rank: int, count: int) -> list[int]:
        """The journals that a process of `count` continues: its own, and those of ranks that are no more."""
        return [rank, *(seat for seat in self.seats() if seat >= count and seat % count == rank)]

    def check(self, config: Mapping[str, Any]) -> None:
        """Raise `UsageError` unless the folder is new, empty, or a run with this configuration. Writes nothing."""
        check_writable(self.path)
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"--out {self.path} is a file; expected a folder")
        if not self.config.exists():
            if self.path.is_dir() and not all(UNFINISHED.fullmatch(f.name) for f in self.path.iterdir()):
                raise UsageError(f"--out {self.path} holds files that are no run of ours: choose a new folder")
            return
        with self._legible():
            old = self.read_config()
            options = [{k: v for k, v in side.items() if k not in RECORD} for side in (old, config)]
            digests = [{f"digest of the {k}": v for k, v in side["digests"].items()} for side in (old, config)]
            self.done()
            if self.metrics.exists():
                self.read_metrics()
                self.rows()
        if changed := difference(*options) or difference(*digests):
            raise UsageError(f"--out {self.path} holds a run with another configuration: {changed}; choose a new folder")

    def done(self) -> dict[str, Lines]:
        """The questions that are finished, by id. Raises `UsageError` while another process works on the run."""
        if seats := self.seats():
            done: dict[str, Lines] = {}
            for seat in seats:
                with Journal(self.journal_of(seat), read_only=True) as journal:
                    done |= lines_of(journal)
            return done
        if self.metrics.exists():
            both = (map(json.loads, whole_lines(path)) for path in (self.predictions, self.trajectories))
            return {p["id"]: (p, t) for p, t in zip(*both, strict=True)}
        return {}

    @contextmanager
    def _legible(self) -> Iterator[None]:
        """Whatever reading the folder stumbles over is said as a `UsageError`."""
        try:
            yield
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise UsageError(f"--out {self.path} holds a damaged run ({type(error).__name__}: {error}): choose a new folder") from error

    def complete(self, ids: Iterable[str]) -> bool:
        """Whether the run is finished for exactly these questions."""
        return self.metrics.exists() and [row["id"] for row in self.rows()] == list(ids)

    def rows(self) -> list[dict[str, Any]]:
        """The lines of predictions.jsonl."""
        return [json.loads(text) for text in whole_lines(self.predictions)]

    def read_config(self) -> dict[str, Any]:
        """config.json."""
        return json.loads(self.config.read_text(encoding="utf-8"))

    def read_metrics(self) -> dict[str, Any]:
        """metrics.json of a complete run."""
        return json.loads(self.metrics.read_text(encoding="utf-8"))

    def started(self, ids: Iterable[str]) -> dict[str, int]:
        """Which of these questions have results recorded, and the journal that has the most of each. Changes nothing."""
        best: dict[str, tuple[int, int]] = {}
        for seat in self.seats():
            with Journal(self.journal_of(seat), read_only=True) as journal:
                for name in ids:
                    if (count := journal.count(name)) > best.get(name, (0, 0))[0]:
                        best[name] = count, seat
        return {name: seat for name, (_, seat) in best.items()}

    def in_use(self, seat: int) -> bool:
        """Whether a living process holds a journal."""
        path = self.journal_of(seat)
        if not path.exists():
            return False
        try:
            Journal(path, read_only=True, wait=0.0).close()
        except JournalInUse:
            return True
        return False

    def open(self, rank: int, count: int) -> Journal:
        """The journal of a process of `count`, which no other process can open then, with those of `seats_of` that it continues."""
        journal = Journal(self.journal_of(rank))
        try:
            for seat in self.seats_of(rank, count)[1:]:
                journal.inherit(Journal(self.journal_of(seat)))
        except BaseException:
            journal.close()
            raise
        return journal

    def start(self, config: Mapping[str, Any], count: int = 1) -> Journal:
        """Open the journal of the first of `count` processes and write config.json; from here on the run is not complete."""
        self.path.mkdir(parents=True, exist_ok=True)
        journal = self.open(0, count)
        replace(self.config, json.dumps(config, indent=2, ensure_ascii=False) + "\n")
        self.metrics.unlink(missing_ok=True)
        return journal

    def write(self, done: Mapping[str, Lines], ids: Iterable[str]) -> list[dict[str, Any]]:
        """Write predictions and trajectories of the finished questions, in the order of `ids`; returns the predictions."""
        pairs = [done[i] for i in ids if i in done]
        replace(self.predictions, "".join(line(p) for p, _ in pairs))
        replace(self.trajectories, "".join(line(t) for _, t in pairs))
        return [p for p, _ in pairs]

    def finish(self, metrics: Mapping[str, Any]) -> None:
        """Write metrics.json: the run is complete."""
        replace(self.metrics, json.dumps(metrics, indent=2, ensure_ascii=False) + "\n")


def line(row: Any) -> str:
    """One line of JSON, text as it is but for the characters that some readers take for the end of a line."""
    text = json.dumps(row, ensure_ascii=False, allow_nan=False)
    return text.translate(LINE_ENDS) + "\n"


def lines_of(journal: Journal) -> dict[str, Lines]:
    """The lines of a journal's finished questions, by id."""
    rows = ((json.loads(p), json.loads(t)) for p, t in journal.finished())
    return {p["id"]: (p, t) for p, t in rows}


def whole_lines(path: Path) -> list[str]:
    """The lines of a file that were written to their end."""
    return path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
