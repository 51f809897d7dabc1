"""JSON in, checked: every error names the file, the entry and the field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evoctx_torch.errors import UsageError

_WORDS = {str: "a string", list: "a list", dict: "an object", int: "a number", bool: "true or false"}


def read_json(path: Path) -> Any:
    """The value of a JSON file. Raises `UsageError` where it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; expected a JSON file") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not valid JSON in UTF-8 ({error})") from error


def entries(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where, object) for each entry of a file that holds a list of objects."""
    rows = read_json(path)
    if not isinstance(rows, list) or not rows:
        raise UsageError(f"{path}: expected a list of objects, as the data set is published")
    for number, row in enumerate(rows):
        where = f"{path} entry {number}"
        yield where, checked(row, dict, where)


def field(row: dict[str, Any], name: str, kind: type, where: str, hint: str = "") -> Any:
    """The value of a field, of the type it must have."""
    if name not in row:
        raise UsageError(f"{where}: no field {name!r}{hint}; expected {_WORDS[kind]}")
    return checked(row[name], kind, f"{where} field {name!r}")


def checked(value: Any, kind: type, where: str) -> Any:
    """The value itself, if it is of this type."""
    if type(value) is not kind:
        raise UsageError(f"{where} is {_WORDS.get(type(value), type(value).__name__)}; expected {_WORDS[kind]}")
    return value


def one_file(files: Sequence[Path], what: str) -> Path:
    """The only file of a format that has one."""
    if len(files) != 1:
        raise UsageError(f"{len(files)} files; expected one: {what}")
    return files[0]
