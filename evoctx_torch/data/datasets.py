"""From what a user names to the two files of a data set."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from evoctx_torch.errors import UsageError

QUERIES, CORPUS = "queries.jsonl", "corpus.jsonl"
_HERE = Path(str(files("evoctx_torch.data")))
PACKAGED = {"demo": _HERE / "world"}
"""Data sets that ship with the package, by name."""


@dataclass(frozen=True, slots=True)
class DataFiles:
    """A data set: `name` is its folder's (hotpotqa, 2wikimultihopqa …), by which published results are looked up."""

    name: str
    queries: Path
    corpus: Path


def resolve(data: str | Path | None = None, queries: str | Path | None = None, corpus: str | Path | None = None) -> DataFiles:
    """The files of a data set, which are all there.

    `data` is a folder with queries.jsonl and corpus.jsonl or a name in `PACKAGED` (a folder of that name: `./demo`);
    `queries` and `corpus` name files of their own and win over the folder's. Raises `UsageError` that says what is
    missing and what is known.
    """
    if data is not None:
        name, folder = _folder(data)
        found = DataFiles(name, Path(queries or folder / QUERIES), Path(corpus or folder / CORPUS))
    elif queries is not None and corpus is not None:
        chosen = Path(queries).resolve()
        found = DataFiles(chosen.parent.name if chosen.name == QUERIES else chosen.stem, Path(queries), Path(corpus))
    else:
        raise UsageError(f"no data set: expected --data FOLDER (or {_known()}), or both --queries FILE and --corpus FILE")
    for path in (found.queries, found.corpus):
        if not path.is_file():
            raise UsageError(f"{path}: no such file; a data set is a folder with {QUERIES} and {CORPUS}, or {_known()}")
    return found


def _folder(data: str | Path) -> tuple[str, Path]:
    if str(data) in PACKAGED:
        return str(data), PACKAGED[str(data)]
    folder = Path(data)
    if folder.is_file():
        raise UsageError(f"--data {data} is a file; expected its folder, or --queries FILE and --corpus FILE")
    if not folder.is_dir():
        raise UsageError(f"--data {data}: no such folder or name; expected a folder with {QUERIES} and {CORPUS}, or {_known()}")
    return folder.resolve().name, folder


def _known() -> str:
    return "a name (" + ", ".join(PACKAGED) + ")"


def digest_file(path: Path | str) -> str:
    """blake2b of a file's bytes, 32 hex digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
