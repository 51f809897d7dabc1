"""What loaders check beyond types: refusals that name the line, and remarks that are summed up in one warning."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evoctx_torch.errors import UsageError


class DataWarning(UserWarning):
    """Something in a data file that is legal and makes results misleading."""


class Remarks:
    """Collects remarks over the rows of one file; `warn` says each kind once, with its count and first ids."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ids: dict[str, list[str]] = {}

    def add(self, remark: str, id: str) -> None:
        self.ids.setdefault(remark, []).append(id)

    def add_unless_nfc(self, texts: Sequence[str], id: str) -> None:
        if not all(unicodedata.is_normalized("NFC", text) for text in texts):
            self.add("not in Unicode NFC: scoring compares code points, so equal-looking texts may not match", id)

    def warn(self) -> None:
        for remark, ids in self.ids.items():
            shown = ", ".join(ids[:3]) + (", …" if len(ids) > 3 else "")
            rows = "1 row" if len(ids) == 1 else f"{len(ids)} rows"
            warnings.warn(f"{self.path}: {rows} {remark} ({shown})", DataWarning, stacklevel=3)


def require_text(row: dict[str, Any], field: str, line: str) -> None:
    """Raise `UsageError` for a string without any visible character."""
    if not row[field].strip():
        raise UsageError(f"{line}: field {field!r} is blank; expected text")


def require_new(id: str, seen: dict[str, int], number: int, line: str) -> None:
    """Raise `UsageError` for an id that an earlier line has; else note it in `seen` (id to line number)."""
    if id in seen:
        raise UsageError(f"{line}: id {id!r} stands already in line {seen[id]}; ids must be unique")
    seen[id] = number


def require_golds(row: dict[str, Any], line: str, *, blank: bool = False) -> tuple[str, ...]:
    """`golden_answers` as a tuple; raises `UsageError` unless it is a non-empty list of strings, none blank unless allowed."""
    golds = row["golden_answers"]
    if not golds or not all(isinstance(gold, str) and (blank or gold.strip()) for gold in golds):
        got = "is empty" if not golds else "holds something else"
        raise UsageError(f"{line}: field 'golden_answers' {got}; expected a non-empty list of {'' if blank else 'non-blank '}strings")
    return tuple(golds)
