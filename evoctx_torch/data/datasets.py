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
    corpus: Path | None  # None where it is not needed


def resolve(
    data: str | Path | None = None, queries: str | Path | None = None, corpus: str | Path | None = None, *, retrieves: bool = True
) -> DataFiles:
    """The files of a data set, which are all there.

    `data` is a folder with queries.jsonl and corpus.jsonl or a name in `PACKAGED` (a folder of that name: `./demo`);
    `queries` and `corpus` name files of their own and win over the folder's. A method that does not retrieve needs no
    corpus. Raises `UsageError` that says what is missing and what is known.
    """
    needed = (QUERIES, CORPUS) if retrieves else (QUERIES,)
    own = {QUERIES: queries, CORPUS: corpus}
    expected = f"a folder with {' and '.join(needed)}, or {_known()}"
    if data is not None:
        name, folder = _folder(data, expected)
    elif all(own[file] is not None for file in needed):
        chosen = Path(queries).resolve()
        name, folder = chosen.parent.name if chosen.name == QUERIES else chosen.stem, Path()
    else:
        flags = [f"--{file.removesuffix('.jsonl')} FILE" for file in needed]
        raise UsageError(f"no data set: expected --data FOLDER (or {_known()}), or {' and '.join(flags)}")
    found = {file: Path(own[file] or folder / file) for file in needed}
    for path in found.values():
        if not path.is_file():
            raise UsageError(f"{path}: no such file; a data set is {expected}")
    return DataFiles(name, found[QUERIES], found.get(CORPUS))


def _folder(data: str | Path, expected: str) -> tuple[str, Path]:
    if str(data) in PACKAGED:
        return str(data), PACKAGED[str(data)]
    folder = Path(data)
    if folder.is_file():
        raise UsageError(f"--data {data} is a file; expected its folder, or --queries FILE and --corpus FILE")
    if not folder.is_dir():
        raise UsageError(f"--data {data}: no such folder or name; expected {expected}")
    return folder.resolve().name, folder


def _known() -> str:
    return "a name (" + ", ".join(PACKAGED) + ")"


def digest_file(path: Path | str) -> str:
    """blake2b of a file's bytes, 32 hex digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
