"""What a thought memory keeps, and the names of thoughts among those of passages. Imports no torch."""

from __future__ import annotations

import re
from dataclasses import dataclass

from evoctx_torch.operations import Thought

NAME = re.compile(r"thought-(\d+)")  # the ids of thoughts among those of passages
STORED, COPY, REDUNDANT, INVALID = "stored", "copy", "redundant", "invalid"  # what becomes of an offer
Source = int | str  # a thought's id, or a passage's


@dataclass(frozen=True, slots=True)
class EncoderId:
    """Which encoder made the vectors of a memory: only its vectors compare."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class StoredThought:
    """A thought of the memory. `level` = 1 + mean level of its sources; `provenance`: the raw passages under them."""

    id: int
    text: str
    level: float
    sources: tuple[Source, ...]
    provenance: tuple[str, ...]
    run: str
    wave: int
    question: str


@dataclass(frozen=True, slots=True)
class Offer:
    """What a question asked to remember: tested at the end of its wave against `bound`, the largest similarity allowed."""

    question: str
    number: int  # of the operation in its episode
    text: str
    sources: tuple[Source, ...]
    bound: float


def as_passage(thought: StoredThought, score: float | None = None) -> Thought:
    """A stored thought as something retrieved."""
    name = f"thought-{thought.id}"
    return Thought(name, name, "", thought.text, score, level=thought.level, provenance=thought.provenance)


def source_of(id: str) -> Source:
    """What an id among those of recalled items names: a thought by number, or a passage."""
    found = NAME.fullmatch(id)
    return int(found[1]) if found else id
