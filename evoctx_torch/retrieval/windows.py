"""Which part of a long text is embedded: head, tail, or the mean of windows over all of it (PAPERS section 1, [open])."""

from __future__ import annotations

from collections.abc import Callable, Sequence

WINDOWS = ("head", "tail", "mean")
Pieces = Sequence[tuple[int, int, int]]  # (first character, end character, number of the word) of every word piece


def split(text: str, window: str, capacity: int, pieces: Callable[[str], Pieces]) -> list[str]:
    """The substrings of `text` that are embedded, each at most `capacity` word pieces long.

    `head`: what a plain encode() keeps, the first `capacity` pieces. `tail`: the whole words among the last `capacity`
    pieces. `mean`: consecutive windows of whole words that cover the text. Windows begin at words, because a piece inside
    a word ("##ing") is another piece when it stands first; only a word longer than a window is cut.
    """
    spans = pieces(text)
    if len(spans) <= capacity:
        return [text]
    if window == "head":
        return [text[: spans[capacity - 1][1]]]
    if window == "tail":
        first = len(spans) - capacity
        start = next((i for i in range(first, len(spans)) if _begins_word(spans, i)), first)
        return [text[spans[start][0] :]]
    if window != "mean":
        raise ValueError(f"window is {window!r}; expected one of {', '.join(WINDOWS)}")
    windows, start = [], 0
    while start < len(spans):
        end = min(start + capacity, len(spans))
        if end < len(spans):
            end = next((i for i in range(end, start, -1) if _begins_word(spans, i)), end)
        windows.append(text[spans[start][0] : spans[end - 1][1]])
        start = end
    return windows


def _begins_word(spans: Pieces, i: int) -> bool:
    return i == 0 or spans[i][2] != spans[i - 1][2]
