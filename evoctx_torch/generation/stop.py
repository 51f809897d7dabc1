"""Stop strings on finished text: the part before the first one, whichever stands first."""

from __future__ import annotations

from collections.abc import Sequence


def cut(text: str, stop: Sequence[str]) -> tuple[str, bool]:
    """The text before the earliest stop string, and whether there was one."""
    ends = [place for s in stop if s and (place := text.find(s)) >= 0]
    return (text[: min(ends)], True) if ends else (text, False)
