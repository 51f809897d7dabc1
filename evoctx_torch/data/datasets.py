"""From what a user names to the two files of a data set."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from evoctx_torch.data import hub
from evoctx_torch.data.writing import CORPUS, QUERIES
from evoctx_torch.errors import UsageError

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
    data: str | Path | None = None, queries: str | Path | None = None, corpus: str | Path | None = None, index: str | Path | None = None,
    *, retrieves: bool = True,
) -> DataFiles:
    """The files of a data set, which are all there.

    `data` is a folder with queries.jsonl and corpus.jsonl or a known name (for a folder of that name: `./demo`): one in
    `PACKAGED`, or one that `hub.fetch` gets. `queries` and `corpus` name files of their own and win over the folder's; where
    there is no corpus, that of the `index` folder is taken. A method that does not retrieve needs none. Raises `UsageError`
    that says what is missing and what is known.
    """
    needed = (QUERIES, CORPUS) if retrieves else (QUERIES,)
    expected = f"a folder with {' and '.join(needed)}, or {_known()}"
    name, folder = _folder(data, expected) if data is not None else (None, None)
    found: dict[str, Path] = {}
    for file, own in ((QUERIES, queries), (CORPUS, corpus)):
        if own is not None or folder is not None:
            found[file] = Path(own) if own is not None else folder / file
    if index is not None and corpus is None and not (CORPUS in found and found[CORPUS].is_file()):
        found[CORPUS] = Path(index) / CORPUS
    if not all(file in found for file in needed):
        flags = [f"--{file.removesuffix('.jsonl')} FILE" for file in needed]
        raise UsageError(f"no data set: expected --data FOLDER (or {_known()}), or {' and '.join(flags)}")
    for file in needed:
        if not found[file].is_file():
            if file == CORPUS and hub.has_no_corpus(data):
                raise UsageError(f"--data {data} has questions only: give the corpus with --corpus FILE, or an index with --index DIR")
            raise UsageError(f"{found[file]}: no such file; a data set is {expected}")
    chosen = found[QUERIES].resolve()
    return DataFiles(name or (chosen.parent.name if chosen.name == QUERIES else chosen.stem), found[QUERIES], found[CORPUS] if retrieves else None)


def resolve_corpus(corpus: str | Path) -> Path:
    """The corpus file that a user names: the file itself, a data set's folder, or a known name. Raises `UsageError`."""
    if Path(corpus).is_file():
        return Path(corpus)
    if hub.has_no_corpus(corpus):
        raise UsageError(f"{corpus} has questions only; expected a file of passages, or a folder with {CORPUS}")
    path = _folder(corpus, f"a file of passages, a folder with {CORPUS}, or {_known()}", "")[1] / CORPUS
    if not path.is_file():
        raise UsageError(f"{corpus} has no {CORPUS}; expected a file of passages, or a folder that holds it")
    return path


def _folder(data: str | Path, expected: str, flag: str = "--data ") -> tuple[str, Path]:
    if str(data) in PACKAGED:
        return str(data), PACKAGED[str(data)]
    if hub.is_name(data):
        return hub.fetch(str(data))
    folder = Path(data)
    if folder.is_file():
        raise UsageError(f"{flag}{data} is a file; expected its folder, or --queries FILE and --corpus FILE")
    if not folder.is_dir():
        raise UsageError(f"{flag}{data}: no such folder or name; expected {expected}")
    return folder.resolve().name, folder


def _known() -> str:
    return "a name (" + ", ".join((*PACKAGED, *hub.NAMES)) + ")"


def digest_file(path: Path | str) -> str:
    """blake2b of a file's bytes, 32 hex digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
