"""Long passages cut into chunks of words, for retrieval (PAPERS: Thought-Retriever cuts documents into 500 words)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from evoctx_torch.errors import UsageError
from evoctx_torch.operations import Passage

MARK = "#"  # between the id of a passage and the number of its chunk


def chunk(passages: Iterable[Passage], words: int, overlap: int = 0) -> Iterator[Passage]:
    """Each passage's chunks, in order: passage `p` becomes `p#0`, `p#1`, …, a short one `p#0` alone.

    A chunk has at most `words` words of the text; neighbours share exactly `overlap` of them, and each holds words that
    no earlier one has. A chunk keeps the passage's `doc_id` and `title`, its `contents` are "title\\ntext" where the passage's
    are; the text between its first and last word is left as it is. The title's words do not count. Words are what
    `str.split` finds. Raises `UsageError` unless `words` >= 1 and 0 <= `overlap` < `words`.
    """
    if words < 1:
        raise UsageError(f"--chunk-words is {words}; expected at least 1")
    if not 0 <= overlap < words:
        raise UsageError(f"--chunk-overlap is {overlap}; expected 0 to {words - 1}, less than --chunk-words")
    return (part for passage in passages for part in _chunks(passage, words, overlap))


def source_id(id: str) -> str:
    """The id of the passage that a chunk was cut from."""
    return id.rpartition(MARK)[0]


def _chunks(passage: Passage, words: int, overlap: int) -> Iterator[Passage]:
    head = f"{passage.title}\n" if passage.contents.startswith(f"{passage.title}\n") else ""
    text = passage.contents[len(head) :]
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    starts = range(0, max(1, len(spans) - overlap), words - overlap)
    for number, start in enumerate(starts):
        found = spans[start : start + words]
        body = text[found[0][0] : found[-1][1]] if found else ""
        yield Passage(f"{passage.id}{MARK}{number}", passage.doc_id, passage.title, head + body)
