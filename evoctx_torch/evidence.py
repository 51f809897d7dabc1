"""What one episode knows: its question, and the passages, sub-queries and thoughts that arrived, in order.

Nothing is ever removed or reordered, so the prompts made from it grow only at their end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from evoctx_torch.operations import Passage


@dataclass(frozen=True, slots=True)
class SubQuery:
    """A question that the model asked itself; `answer` is empty where a method asks for none (EvoCtx)."""

    text: str
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Extract:
    """What the contextualizer found in the passages before it (arXiv 2603.12396)."""

    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A step of the method's own format, shown as it is (`Follow up: …`, a sentence of a chain of thought)."""

    text: str


Item = Passage | SubQuery | Extract | Line
T = TypeVar("T")


def normalized(text: str) -> str:
    """The key of boundary de-duplication: lower case, white space squeezed."""
    return " ".join(text.lower().split())


DEDUP: dict[str, Callable[[str], object]] = {"normalized": normalized, "exact": str, "none": lambda text: object()}
PASSAGE_TEXT: dict[str, Callable[[Passage], str]] = {
    "contents": lambda p: p.contents,
    "text": lambda p: p.contents.removeprefix(p.title + "\n") if p.title else p.contents,
    "title": lambda p: p.title or p.contents,
}


@dataclass(frozen=True, slots=True)
class BoundaryCaps:
    """Which texts a trace is measured against (PAPERS section 1, all open in the paper).

    At most `passages` passages and `subqueries` sub-queries, the most recent ones; the question always.
    """

    passages: int = 32
    subqueries: int = 8
    dedup: str = "normalized"
    passage_text: str = "contents"


@dataclass(slots=True)
class Evidence:
    """The growing context of one episode."""

    question: str
    items: list[Item] = field(default_factory=list)

    @property
    def passages(self) -> list[Passage]:
        return [item for item in self.items if isinstance(item, Passage)]

    @property
    def subqueries(self) -> list[SubQuery]:
        return [item for item in self.items if isinstance(item, SubQuery)]

    @property
    def doc_ids(self) -> frozenset[str]:
        """The documents already seen: what a RETRIEVE excludes."""
        return frozenset(p.doc_id for p in self.passages)

    def add_passages(self, passages: Iterable[Passage]) -> None:
        """Add what a retrieval brought, in its order."""
        self.items.extend(passages)

    def unseen(self, passages: Iterable[Passage]) -> list[Passage]:
        """Those of `passages` that are not here yet, by id."""
        known = {p.id for p in self.passages}
        return [p for p in passages if p.id not in known]

    def add_subquery(self, text: str, answer: str = "") -> None:
        """Add a sub-query; a blank one says nothing and is not added."""
        if text.strip():
            self.items.append(SubQuery(text.strip(), answer.strip()))

    def add_line(self, text: str) -> None:
        """Add a step of the method's own format; a blank one says nothing and is not added."""
        if text.strip():
            self.items.append(Line(text.strip()))

    def search_query(self) -> str:
        """Question and accumulated sub-queries (EvoCtx, PAPERS section 1: the query of a RETRIEVE)."""
        return " ".join([self.question, *(s.text for s in self.subqueries)])

    def newest_subquery(self) -> str:
        """The newest sub-query, else the question: what is measured where there is no trace."""
        subqueries = self.subqueries
        return subqueries[-1].text if subqueries else self.question

    def boundary(self, caps: BoundaryCaps = BoundaryCaps()) -> tuple[str, ...]:
        """dedup({question} ∪ sub-queries ∪ passages), each kind capped to its most recent."""
        text_of, key_of = PASSAGE_TEXT[caps.passage_text], DEDUP[caps.dedup]
        texts = [self.question]
        texts += [s.text for s in latest(self.subqueries, caps.subqueries)]
        texts += [text_of(p) for p in latest(self.passages, caps.passages)]
        unique: dict[object, str] = {}
        for text in texts:
            unique.setdefault(key_of(text), text)
        return tuple(unique.values())


def latest(items: list[T], count: int) -> list[T]:
    """The last `count` items, in order; none for 0."""
    return items[max(len(items) - count, 0):]
