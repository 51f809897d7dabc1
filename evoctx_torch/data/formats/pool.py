"""The paragraphs of many questions as one corpus: each once, with an id from the moment it is seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from evoctx_torch.data.corpus import load_corpus

Spans = Sequence[tuple[int, int]]


class Passages(Protocol):
    """Where a reader puts the paragraphs that it meets."""

    def add(self, title: str, text: str, spans: Spans = (), meta: Mapping[str, Any] | None = None, id: str | None = None) -> str | None:
        """The id of this paragraph; None where the corpus has none that it could be.

        `spans`: where its sentences stand in `contents` ([first, end) in characters); `meta`: what else is known of it.
        """
        ...

    def find(self, title: str) -> str | None:
        """The id of the paragraph with this title, if it is certain."""
        ...


class Pool:
    """A corpus that grows: paragraphs with the same title and text are one passage, numbered in order of arrival.

    `own_documents` makes every passage a document of its own (its `doc_id` is its id), so that a question can be
    restricted to its very paragraphs: a title may stand over other paragraphs of other questions.
    """

    def __init__(self, own_documents: bool = False) -> None:
        self.own_documents = own_documents
        self.rows: list[dict[str, Any]] = []
        self.spans: list[dict[str, Any]] = []
        self.meta: list[dict[str, Any]] = []
        self._ids: dict[tuple[str, str], str] = {}

    def add(self, title: str, text: str, spans: Spans = (), meta: Mapping[str, Any] | None = None, id: str | None = None) -> str:
        """The id of the passage: the one it has, else `id`, else the next number."""
        if (known := self._ids.get((title, text))) is not None:
            return known
        id = self._ids[title, text] = str(len(self.rows)) if id is None else id
        row = {"id": id, "title": title, "contents": f"{title}\n{text}"}
        self.rows.append(row | {"doc_id": id} if self.own_documents else row)
        if spans:
            self.spans.append({"id": id, "spans": [list(span) for span in spans]})
        if meta:
            self.meta.append({"id": id, **meta})
        return id

    def find(self, title: str) -> None:
        """Nothing: only a question's own paragraphs are known to be meant."""


class Titles:
    """A corpus that is there already: a paragraph is the passage with its title, where only one has it."""

    def __init__(self, path: Path) -> None:
        self.by_title: dict[str, str | None] = {}
        corpus = load_corpus(path)
        for id, title in zip(corpus.ids, corpus.titles, strict=True):
            self.by_title[title] = None if title in self.by_title else id

    def add(self, title: str, text: str, spans: Spans = (), meta: Mapping[str, Any] | None = None, id: str | None = None) -> str | None:
        """The id of the passage with this title."""
        return self.find(title)

    def find(self, title: str) -> str | None:
        """The id of the only passage with this title."""
        return self.by_title.get(title)


def joined(title: str, sentences: Sequence[str], glue: str = "") -> tuple[str, Spans]:
    """A paragraph's text and where its sentences, without the blanks around them, stand in "title\ntext".

    `glue` "": the sentences hold the blanks between them, as HotpotQA's do, and their concatenation is the text. Else they
    are joined by it. An empty sentence keeps its number: supporting facts count it.
    """
    parts = [sentence.strip() for sentence in sentences] if glue else list(sentences)
    text, spans = "", []
    for part in parts:
        if not text:
            part = part.lstrip()
        elif part:
            text += glue
        start = len(text) + len(part) - len(part.lstrip())
        spans.append((start, start + len(part.strip())))
        text += part
    end, first = len(text.rstrip()), len(title) + 1
    return text[:end], [(first + min(start, end), first + min(stop, end)) for start, stop in spans]


def unique(ids: Sequence[str | None]) -> list[str]:
    """Each id once, in order, without the unknown ones."""
    return list(dict.fromkeys(id for id in ids if id is not None))


def flat(value: Any) -> Iterator[str]:
    """The strings of a list of strings or of lists of strings."""
    if isinstance(value, str):
        yield value
    else:
        for part in value:
            yield from flat(part)
