"""Stop strings on finished text: the part before the first one, whichever stands first."""

from __future__ import annotations

from collections.abc import Sequence


def cut(text: str, stop: Sequence[str]) -> tuple[str, str | None]:
    """The text before the earliest stop string, and which that was; None if there was none."""
    end, first = min(((place, s) for s in stop if s and (place := text.find(s)) >= 0), default=(None, None))
    return text[:end], first
