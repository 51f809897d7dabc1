"""A data set's folder, written whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evoctx_torch.errors import UsageError
from evoctx_torch.paths import check_writable

QUERIES, CORPUS = "queries.jsonl", "corpus.jsonl"
Row = dict[str, Any]


def check_new(out: Path) -> None:
    """Raise `UsageError` unless `out` is a new or an empty folder that can be written."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"--out {out} holds something; expected a new or an empty folder")
    check_writable(out)


def write_folder(out: Path, files: Mapping[str, Sequence[Row]]) -> None:
    """Write JSON lines beside `out` and rename the folder: it is whole or not there. A file without rows is left out."""
    out = out.expanduser().resolve()
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a call that was killed
    partial.mkdir(parents=True)
    try:
        for name, rows in files.items():
            if rows:
                with (partial / name).open("w", encoding="utf-8") as file:
                    file.writelines(map(_line, rows))
        partial.replace(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _line(row: Row) -> str:
    line = json.dumps(row, ensure_ascii=False) + "\n"
    try:
        line.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{row['id']}: its text holds half a surrogate pair, which is no Unicode; correct the published file") from error
    return line
