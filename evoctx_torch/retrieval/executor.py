"""The executor of `Retrieve`: one batched search for all waiting rows, each with its own depth and exclusions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from evoctx_kernels.first_unseen import first_unseen

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
        # Documents as numbers: that of each name, that of each passage, and how many passages each has.
        self._number = {doc: number for number, doc in enumerate(dict.fromkeys(corpus.doc_ids))}
        self._document = np.fromiter(map(self._number.__getitem__, corpus.doc_ids), np.int64, len(corpus))
        self._size = np.bincount(self._document)
        self._by_document = np.argsort(self._document, kind="stable")  # positions, document after document
        self._first = np.concatenate(([0], self._size.cumsum()))
        self._queries: LRU[str, torch.Tensor] = LRU(REMEMBERED)
        self._returned: LRU[str, int] = LRU(REMEMBERED)

    def answer(self, pending: Sequence[Pending]) -> list[Retrieved | Failure]:
        """One result a row, in order, from one batched search. A blank query or a k below 1 is a `Failure`.

        What raises inside the search is left to `isolation.answer_each`, which tries the rows in smaller groups.
        """
        faults = [_fault(p.operation) for p in pending]
        sound = [p.operation for p, fault in zip(pending, faults, strict=True) if fault is None]
        everywhere = iter(self._retrieve([o for o in sound if o.within is None]))
        inside = iter(self._retrieve_within([o for o in sound if o.within is not None]))
        return [fault or next(everywhere if p.operation.within is None else inside) for p, fault in zip(pending, faults, strict=True)]

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
        indptr, excluded = self._excluded(operations)
        # With refill this depth is enough: below it at most the passages of the excluded documents are dropped.
        below = np.concatenate(([0], self._size[excluded].cumsum()))[indptr]
        depths = np.array([o.k for o in operations]) + np.array([o.refill for o in operations]) * np.diff(below)
        queries = [o.query for o in operations]
        positions, scores = self.index.search(queries if self.encoder is None else self.embed(queries), int(depths.max()))

        documents = np.where(np.arange(positions.shape[1]) < depths[:, None], self._document[positions], -1)
        tensors = map(torch.from_numpy, (documents, indptr, excluded))
        most = min(max(o.k for o in operations), len(self.corpus) or 1)
        ranks = first_unseen(*tensors, most, distinct=False).ranks.tolist()
        return [
            self._retrieved([(p[rank], s[rank]) for rank in row[: o.k] if rank >= 0])
            for o, p, s, row in zip(operations, positions.tolist(), scores.tolist(), ranks, strict=True)
        ]

    def _retrieve_within(self, operations: Sequence[Retrieve]) -> list[Retrieved]:
        """Each row among the passages of its own documents: few, so they are all scored."""
        if not operations:
            return []
        queries = [o.query for o in operations]
        results = []
        for o, query in zip(operations, queries if self.encoder is None else self.embed(queries), strict=True):
            own = [self._by_document[self._first[n] : self._first[n + 1]] for doc in o.within if (n := self._number.get(doc)) is not None]
            positions, scores = self.index.rank(query, np.concatenate(own) if own else np.empty(0, np.int64))
            ranked = list(zip(positions.tolist(), scores.tolist(), strict=True))[: None if o.refill else o.k]
            results.append(self._retrieved([(p, s) for p, s in ranked if self.corpus.doc_ids[p] not in o.exclude][: o.k]))
        return results

    def _excluded(self, operations: Sequence[Retrieve]) -> tuple[np.ndarray, np.ndarray]:
        """The excluded documents that the corpus has, by number, as CSR: indptr `[B + 1]`, numbers `[nnz]`."""
        rows = [[self._number[doc] for doc in o.exclude if doc in self._number] for o in operations]
        flat = [number for row in rows for number in row]
        return np.cumsum([0, *map(len, rows)]), np.array(flat, dtype=np.int64)

    def _retrieved(self, chosen: Sequence[tuple[int, float]]) -> Retrieved:
        """The result of a row from its (position, score) pairs."""
        of = self.corpus
        passages = tuple(Passage(of.ids[p], of.doc_ids[p], of.titles[p], of.contents[p], score) for p, score in chosen)
        if self.encoder is not None:
            for (position, _), passage in zip(chosen, passages, strict=True):
                self._returned.put(passage.contents, position)
        return Retrieved(passages)

    def embed(self, queries: Sequence[str]) -> torch.Tensor:
        """Query vectors `[B, D]`; a query that was asked before keeps its vector."""
        vectors = {query: self._queries.get(query) for query in queries}
        if new := [query for query, vector in vectors.items() if vector is None]:
            for query, vector in zip(new, self.encoder.encode_queries(new), strict=True):
                vectors[query] = vector
                self._queries.put(query, vector)
        return torch.stack([vectors[query] for query in queries])


def _fault(operation: Retrieve) -> Failure | None:
    if not operation.query.strip():
        return Failure("error", "the retrieval query is blank: nothing can be searched for")
    if operation.k < 1:
        return Failure("error", f"retrieval asks for k = {operation.k} passages; expected at least 1")
    return None
