"""JSON Lines in, checked line by line: every error names the file, the line and the field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from evoctx_torch.errors import UsageError

_WORDS = {str: "a string", list: "a list", dict: "an object", bool: "true or false", int: "a number", float: "a number", type(None): "null"}


def read_jsonl(
    path: Path | str, required: Mapping[str, type], optional: Mapping[str, type] | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number counted from 1, object) for each line that is not blank, one at a time.

    `required` fields must be there and of their type; `optional` ones may be absent or null (then they are left out
    of the object). Raises `UsageError` for a file that is missing, empty or not UTF-8, a broken line or a wrong field.
    """
    path = Path(path)
    line = None
    with _open(path) as file:
        for number, raw in enumerate(file, 1):
            if not raw.strip():
                continue
            line = f"{path} line {number}"
            row = _parse(raw, line)
            for field, kind in required.items():
                if field not in row:
                    raise UsageError(f"{line}: no field {field!r}; expected {_WORDS[kind]}")
                _check_type(row[field], kind, field, line)
            for field, kind in (optional or {}).items():
                if row.get(field) is None:
                    row.pop(field, None)
                else:
                    _check_type(row[field], kind, field, line)
            yield number, row
    if line is None:
        raise UsageError(f"{path}: the file is empty; expected JSON Lines with {', '.join(required)}")


def count_rows(path: Path | str) -> int:
    """How many rows a file has: its lines that are not blank."""
    with _open(Path(path)) as file:
        return sum(bool(raw.strip()) for raw in file)


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; expected a file of JSON Lines") from error


def _parse(raw: bytes, line: str) -> dict[str, Any]:
    try:
        # A byte order mark is what some editors put before the first line.
        row = json.loads(raw.decode("utf-8-sig"))
        if b"\\ud" in raw.lower():
            json.dumps(row, ensure_ascii=False).encode()  # half a surrogate pair would fail later, when it is written
    except UnicodeError as error:
        raise UsageError(f"{line}: not valid Unicode ({error.reason}); expected UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{line}: not valid JSON ({error})") from error
    if not isinstance(row, dict):
        raise UsageError(f"{line}: {_WORDS[type(row)]}; expected an object")
    return row


def _check_type(value: Any, kind: type, field: str, line: str) -> None:
    if type(value) is not kind:
        raise UsageError(f"{line}: field {field!r} is {_WORDS[type(value)]}; expected {_WORDS[kind]}")
