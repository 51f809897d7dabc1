"""A run's folder: its files, the guard against another configuration, and what is finished so far.

While a run is under way its journal takes every operation's result and the lines of every finished question; the contract's
files are written at the end, in the order of the input, each through a temporary file, `metrics.json` last: where it is, the
run is complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evoctx_torch.errors import UsageError
from evoctx_torch.evaluation.config import RECORD, difference
from evoctx_torch.journal import Journal
from evoctx_torch.paths import check_writable, replace

LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
Lines = tuple[dict[str, Any], dict[str, Any]]  # a question's prediction and trajectory


class RunFolder:
    """`--out`: reading and writing the files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config, self.metrics = path / "config.json", path / "metrics.json"
        self.predictions, self.trajectories = path / "predictions.jsonl", path / "trajectories.jsonl"
        self.report, self.journal = path / "report.html", path / "journal-0.sqlite"

    def check(self, config: Mapping[str, Any]) -> None:
        """Raise `UsageError` unless the folder is new, empty, or a run with this configuration. Writes nothing."""
        check_writable(self.path)
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"--out {self.path} is a file; expected a folder")
        if not self.config.exists():
            if self.path.is_dir() and not all(f.name.startswith(self.journal.name) for f in self.path.iterdir()):  # a kill may leave that alone
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
        if self.journal.exists():
            with Journal(self.journal, read_only=True) as journal:
                rows = [(json.loads(p), json.loads(t)) for p, t in journal.finished()]
            return {p["id"]: (p, t) for p, t in rows}
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

    def start(self, config: Mapping[str, Any]) -> Journal:
        """Open the journal, which no other process can then, and write config.json; from here on the run is not complete."""
        self.path.mkdir(parents=True, exist_ok=True)
        journal = Journal(self.journal)
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


def whole_lines(path: Path) -> list[str]:
    """The lines of a file that were written to their end."""
    return path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
