"""The executor of `Retrieve`: one batched search for all waiting rows, each with its own depth and exclusions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from evoctx_torch.data.corpus import Corpus
from evoctx_torch.errors import UsageError
from evoctx_torch.operations import Failure, Passage, Pending, Retrieve, Retrieved
from evoctx_torch.retrieval.dense import DenseIndex
from evoctx_torch.retrieval.encoder import TextEncoder
from evoctx_torch.retrieval.lru import LRU
from evoctx_torch.retrieval.sparse import SparseIndex

REMEMBERED = 65536  # query vectors and returned passages that are kept


class Retriever:
    """Finds passages of `corpus`: a dense index with the encoder that made it, or a sparse index (encoder None).

    A row's result depends on its own operation only. Scores are cosines (dense) or BM25 scores (sparse).
    """

    def __init__(self, corpus: Corpus, index: DenseIndex | SparseIndex, encoder: TextEncoder | None = None) -> None:
        if len(index) != len(corpus):
            raise UsageError(f"the index has {len(index)} passages, the corpus {len(corpus)}: build the index again")
        if isinstance(index, DenseIndex) != (encoder is not None):
            raise ValueError("a dense index needs its encoder, a sparse one takes none")
        self.corpus, self.index, self.encoder = corpus, index, encoder
        self._doc_ids = corpus.doc_ids
        self._passages_of = Counter(self._doc_ids)
        self._queries: LRU[str, torch.Tensor] = LRU(REMEMBERED)
        self._returned: LRU[str, int] = LRU(REMEMBERED)

    def answer(self, pending: Sequence[Pending]) -> list[Retrieved | Failure]:
        """One result a row, in order, from one batched search. A blank query or a k below 1 is a `Failure`.

        What raises inside the search is left to `isolation.answer_each`, which tries the rows in smaller groups.
        """
        faults = [_fault(p.operation) for p in pending]
        found = iter(self._retrieve([p.operation for p, fault in zip(pending, faults, strict=True) if fault is None]))
        return [fault or next(found) for fault in faults]

    def search_one(self, query: str, k: int) -> list[Passage]:
        """The k best passages, or as many as there are. Raises `UsageError` on a blank query or a k below 1."""
        operation = Retrieve(query, k)
        if fault := _fault(operation):
            raise UsageError(fault.message)
        return list(self._retrieve([operation])[0].passages)

    def known_vector(self, text: str) -> np.ndarray | None:
        """The vector `[D]` float32 of a text that is the `contents` of a passage returned lately; None if not known.

        It is the encoder's `head` vector; only a dense index knows any.
        """
        position = self._returned.get(text)
        return None if position is None else self.index.vectors[position]

    def _retrieve(self, operations: Sequence[Retrieve]) -> list[Retrieved]:
        if not operations:
            return []
        # With refill this depth is enough: below it at most the passages of the excluded documents are dropped.
        depths = [o.k + o.refill * sum(self._passages_of[doc] for doc in o.exclude) for o in operations]
        queries = [o.query for o in operations]
        deepest = max(depths)
        positions, scores = self.index.search(queries if self.encoder is None else self._embed(queries), deepest)
        return [
            self._select(o, p[:depth].tolist(), s[:depth].tolist())
            for o, depth, p, s in zip(operations, depths, positions, scores, strict=True)
        ]

    def _select(self, operation: Retrieve, positions: list[int], scores: list[float]) -> Retrieved:
        unseen = [(p, s) for p, s in zip(positions, scores, strict=True) if self._doc_ids[p] not in operation.exclude]
        chosen = unseen[: operation.k]
        passages = tuple(replace(self.corpus[p], score=s) for p, s in chosen)
        if self.encoder is not None:
            for (position, _), passage in zip(chosen, passages, strict=True):
                self._returned.put(passage.contents, position)
        return Retrieved(passages)

    def _embed(self, queries: Sequence[str]) -> torch.Tensor:
        """Query vectors `[B, D]`; a query that was asked before keeps its vector."""
        vectors = {query: self._queries.get(query) for query in queries}
        if new := [query for query, vector in vectors.items() if vector is None]:
            for query, vector in zip(new, self.encoder.encode(new), strict=True):
                vectors[query] = vector
                self._queries.put(query, vector)
        return torch.stack([vectors[query] for query in queries])


def _fault(operation: Retrieve) -> Failure | None:
    if not operation.query.strip():
        return Failure("error", "the retrieval query is blank: nothing can be searched for")
    if operation.k < 1:
        return Failure("error", f"retrieval asks for k = {operation.k} passages; expected at least 1")
    return None
