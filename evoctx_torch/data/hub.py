"""Data sets by name through the `datasets` library: fetched once and kept as a folder of ours in the user's cache.

`flashrag:NAME` is a set of RUC-NLPIR/FlashRAG_datasets (questions in our own layout, no corpus), `govreport` and `wcep`
are summarization sets whose questions have their own documents. `@SPLIT` chooses the split.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from evoctx_torch.cache_folder import cache_folder
from evoctx_torch.data.formats import summaries
from evoctx_torch.data.formats.pool import Pool
from evoctx_torch.data.writing import CORPUS, QUERIES, write_folder
from evoctx_torch.errors import MissingExtra, UsageError

FLASHRAG, PREFIX = "hf://datasets/RUC-NLPIR/FlashRAG_datasets", "flashrag:"
FLASHRAG_SPLITS = ("test", "dev", "train")  # the first that a set has: most have either test or dev with answers


@dataclass(frozen=True, slots=True)
class Summaries:
    """A set of (documents, summary) rows: where its files lie, in which format, and the column of the documents."""

    files: str
    format: str
    column: str
    question: str


SUMMARIES = {
    "govreport": Summaries(
        "hf://datasets/ccdv/govreport-summarization/document/{split}-*.parquet", "parquet", "report", "Write a summary of this report."
    ),
    # Archives of JSON lines: the set itself is a loading script, which the library no longer runs.
    "wcep": Summaries("hf://datasets/ccdv/WCEP-10/{split}.zip", "json", "document", "Write a short summary of the event in these articles."),
}
NAMES = (f"{PREFIX}NAME", *SUMMARIES)


def is_name(data: str | Path) -> bool:
    """Whether `fetch` knows it, with or without a split."""
    return str(data).startswith(PREFIX) or str(data).partition("@")[0] in SUMMARIES


def has_no_corpus(data: str | Path | None) -> bool:
    """Whether its questions come without passages."""
    return str(data).startswith(PREFIX)


def fetch(data: str) -> tuple[str, Path]:
    """The name and the folder of a data set, downloaded at its first use. Raises `UsageError` when it cannot be had."""
    name, _, split = data.partition("@")
    if not re.fullmatch(r"[\w.:-]+(@\w+)?", data):
        raise UsageError(f"--data {data}: expected NAME or NAME@SPLIT, NAME one of {', '.join(NAMES)}")
    folder = cache_folder() / "data" / data.replace(":", "-")
    if folder.is_dir():
        return name.removeprefix(PREFIX), folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        if not folder.is_dir():
            write_folder(folder, _files(data, name, split))
    return name.removeprefix(PREFIX), folder


def _files(data: str, name: str, split: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of the files of a data set's folder."""
    if name.startswith(PREFIX):
        return {QUERIES: _flashrag(name.removeprefix(PREFIX), split)}
    of, passages = SUMMARIES[name], Pool(own_documents=True)
    rows = _rows(of.format, of.files.format(split=split or "test"), data)
    questions = list(summaries.read(rows, passages, name, of.column, of.question))
    for question in questions:
        question["metadata"]["doc_ids"] = question["metadata"]["context_passage_ids"]
    return {QUERIES: questions, CORPUS: passages.rows}


def _flashrag(name: str, split: str) -> list[dict[str, Any]]:
    wanted = (split,) if split else FLASHRAG_SPLITS
    for found in wanted:
        try:
            return [_without_nulls(row) for row in _rows("json", f"{FLASHRAG}/{name}/{found}.jsonl", f"{PREFIX}{name}@{found}")]
        except FileNotFoundError:
            continue
    raise UsageError(f"--data {PREFIX}{name}: {FLASHRAG} has no set of that name with a split {' or '.join(wanted)}")


def _rows(format: str, files: str, data: str) -> Iterator[dict[str, Any]]:
    """The rows of files. Raises `FileNotFoundError` where there are none and `UsageError` where they cannot be had."""
    try:
        import datasets
    except ImportError:
        raise MissingExtra("datasets", "data", f"--data {data}") from None
    try:
        loaded = datasets.load_dataset(format, data_files={"rows": files}, split="rows")
    except FileNotFoundError:
        raise
    except Exception as error:  # the library lets the errors of its HTTP client and its readers through
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UsageError(
            f"--data {data}: {files} could not be loaded ({first}). Without a network, copy the data set here and give "
            "--queries FILE --corpus FILE, or copy the cache folder of a machine that has it"
        ) from error
    return iter(loaded)


def _without_nulls(value: Any) -> Any:
    """Tables give every row every key; those that a row did not have are null."""
    if isinstance(value, dict):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value
