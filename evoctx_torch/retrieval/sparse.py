"""BM25 through bm25s, with the order of results that dense search has: by (-score, position)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evoctx_torch.errors import MissingExtra, UsageError


class SparseIndex:
    """BM25 scores of a corpus's texts: Lucene's variant, k1 = 1.5, b = 0.75, lower-cased words of two letters and more,
    English stop words left out, no stemming (the defaults of bm25s; Lù 2024, arXiv 2407.03618).

    Args:
        texts: text i belongs to the corpus's passage i.

    Raises:
        MissingExtra: bm25s is not installed.
        UsageError: no text has a word.
    """

    def __init__(self, texts: Sequence[str], k1: float = 1.5, b: float = 0.75) -> None:
        bm25s = _bm25s()
        words = bm25s.tokenize(list(texts), stopwords="english", show_progress=False)
        if not any(words.ids):
            raise UsageError("no passage of the corpus has a word that BM25 could index; use --kind flat")
        self._model = bm25s.BM25(k1=k1, b=b, method="lucene")
        self._model.index(words, show_progress=False)

    @classmethod
    def read(cls, folder: Path) -> SparseIndex:
        """The index that `write` left in `folder`. Raises `UsageError` when it is damaged."""
        bm25s, self = _bm25s(), cls.__new__(cls)
        try:
            self._model = bm25s.BM25.load(folder, mmap=True, allow_pickle=False, show_progress=False)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{folder} holds no readable BM25 index: build it again with evoctx index --kind bm25") from error
        return self

    def write(self, folder: Path) -> None:
        """Write arrays as .npy and the rest as JSON; no pickle."""
        self._model.save(folder, allow_pickle=False, show_progress=False)

    def __len__(self) -> int:
        return int(self._model.scores["num_docs"])

    @property
    def options(self) -> dict[str, Any]:
        """What the index was built with."""
        return {"k1": self._model.k1, "b": self._model.b, "method": self._model.method, "stopwords": "english", "stemmer": None}

    def search(self, queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best of each query: positions int64 and BM25 scores float64, both `[B, min(k, N)]`.

        Best first, equal scores in order of position. A passage that shares no word with the query has score 0 and ranks
        last, so there are k results whenever the corpus has k passages.
        """
        k = min(k, len(self))
        positions, scores = np.empty((len(queries), k), np.int64), np.empty((len(queries), k))
        for row, query in enumerate(queries):
            every = self._scores(query)
            positions[row] = best(every, k)
            scores[row] = every[positions[row]]
        return positions, scores

    def rank(self, query: str, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Just these passages, ranked for one query: their positions `[n]` and scores float64 `[n]`, as `search` orders them."""
        scores = self._scores(query)[positions].astype(np.float64)
        order = np.lexsort((positions, -scores))
        return positions[order], scores[order]

    def _scores(self, query: str) -> np.ndarray:
        (words,) = _bm25s().tokenize([query], stopwords="english", return_ids=False, show_progress=False)
        return self._model.get_scores_from_ids(self._model.get_tokens_ids(words))


def best(scores: np.ndarray, k: int) -> np.ndarray:
    """Positions of the k highest of `scores` `[N]`, best first, ties in order of position, in O(N + k log k)."""
    if k == 0:
        return np.empty(0, np.int64)
    threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
    above = np.flatnonzero(scores > threshold)
    above = above[np.argsort(-scores[above], kind="stable")]
    return np.concatenate((above, np.flatnonzero(scores == threshold)[: k - len(above)]))


def _bm25s() -> Any:
    try:
        import bm25s
    except ImportError:
        raise MissingExtra("bm25s", "bm25", "BM25 retrieval") from None
    return bm25s
