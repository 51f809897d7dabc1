"""How operators refuse: what was expected, and what was got."""

from __future__ import annotations


def expect(holds: bool, what: str, expected: str, got: object, error: type[Exception] = ValueError) -> None:
    """Raise `error` unless `holds`; `what` is "operator: argument"."""
    if not holds:
        raise error(f"{what}: expected {expected}, got {got}")
