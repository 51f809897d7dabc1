"""Small corpora and slow, obvious definitions to compare with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evoctx_torch.data.corpus import Corpus
from evoctx_torch.operations import Passage, Pending, Retrieve
from evoctx_torch.retrieval.build import make_retriever
from evoctx_torch.retrieval.executor import Retriever
from evoctx_torch.retrieval.hashing import HashEncoder

WORDS = ["amber", "basalt", "cedar", "dune", "ember", "fjord", "grove", "harbor", "islet", "jade", "kelp", "lagoon", "mesa", "nectar", "orchid"]


def corpus_of(texts: Sequence[str], docs: Sequence[str] | None = None) -> Corpus:
    docs = docs or [f"doc {i}" for i in range(len(texts))]
    return Corpus(Passage(f"p{i}", doc, doc, text) for i, (text, doc) in enumerate(zip(texts, docs, strict=True)))


def random_texts(n: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(2, 8))) + f" {i}" for i in range(n)]


def unit_vectors(n: int, dimension: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((n, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def brute_force(vectors: np.ndarray, query: np.ndarray, k: int) -> tuple[list[int], np.ndarray]:
    """Everything scored in float64 and sorted by (-score, position). Products of float32 are exact; so are the ties."""
    scores = np.array([(row.astype(np.float64) * query.astype(np.float64)).sum() for row in vectors])
    order = sorted(range(len(vectors)), key=lambda i: (-scores[i], i))[:k]
    return order, scores[order]


def hash_retriever(corpus: Corpus) -> Retriever:
    return make_retriever(corpus, HashEncoder())


def ask(query: str, k: int, exclude: Sequence[str] = (), refill: bool = True, within: frozenset[str] | None = None) -> Pending:
    return Pending("q", 0, Retrieve(query, k, frozenset(exclude), refill, within))
