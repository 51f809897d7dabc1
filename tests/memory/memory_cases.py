"""A small corpus, a memory over it, and an encoder in which texts that share words are near."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evoctx_torch.data.corpus import Corpus
from evoctx_torch.memory.executor import ThoughtMemory
from evoctx_torch.memory.records import EncoderId
from evoctx_torch.memory.store import ThoughtStore
from evoctx_torch.operations import Passage, Pending, Recall, Remember, Retrieved
from evoctx_torch.retrieval.dense import DenseIndex
from evoctx_torch.retrieval.executor import Retriever
from evoctx_torch.retrieval.hashing import HashEncoder

ENCODER = HashEncoder(4096)
ID = EncoderId(ENCODER.name, ENCODER.digest)
TEXTS = ["the mayor of ostrand is tobin hale", "ostrand has a fish market", "iris quell designed the bridge of velmora",
         "marwick college was founded by edda lorn", "pella lake is fed by the asp"]


def retriever(texts: Sequence[str] = TEXTS, prefix: str = "p") -> Retriever:
    corpus = Corpus(Passage(f"{prefix}{i}", f"d{i}", "", text) for i, text in enumerate(texts))
    return Retriever(corpus, DenseIndex(ENCODER.encode_passages(texts).numpy()), ENCODER)


def memory(path: Path | None = None, **how: object) -> ThoughtMemory:
    return ThoughtMemory(retriever(), ThoughtStore(path, ID), **how)


def recall(
    memory: ThoughtMemory, query: str, k: int = 3, depth: int = 15, bound: float = 0.85, question: str = "q", number: int = 0,
    within: frozenset[str] | None = None,
):
    (result,) = memory.answer([Pending(question, number, Recall(query, k, depth, bound, within))])
    return result


def ids(result: Retrieved) -> list[str]:
    return [p.id for p in result.passages]


def remember(
    memory: ThoughtMemory, thought: str, sources: Sequence[str] = ("p0",), question: str = "q", number: int = 2, bound: float = 0.85,
):
    (result,) = memory.answer([Pending(question, number, Remember(thought, tuple(sources), bound))])
    return result
