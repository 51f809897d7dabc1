"""BM25: its scores, and the order of what scores the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import random_texts

from evoctx_torch.errors import UsageError
from evoctx_torch.retrieval.sparse import SparseIndex, best


def lucene_bm25(texts: list[str], query: str, k1: float = 1.5, b: float = 0.75) -> list[float]:
    """Robertson & Zaragoza 2009 in Lucene's variant, written out."""
    docs = [[w for w in t.lower().split() if len(w) > 1] for t in texts]
    mean = sum(map(len, docs)) / len(docs)

    def term(word: str, doc: list[str]) -> float:
        df, tf = sum(word in d for d in docs), doc.count(word)
        idf = math.log(1 + (len(docs) - df + 0.5) / (df + 0.5))
        return idf * tf / (tf + k1 * (1 - b + b * len(doc) / mean))

    return [sum(term(w, doc) for w in query.lower().split() if any(w in d for d in docs)) for doc in docs]


def test_scores_are_lucenes() -> None:
    texts = random_texts(40)
    index = SparseIndex(texts)
    for query in ("amber kelp", "Basalt basalt fjord unknownword"):
        positions, scores = index.search([query], 40)
        expected = np.array(lucene_bm25(texts, query))
        np.testing.assert_allclose(scores[0], expected[positions[0]], atol=1e-5)
        assert sorted(positions[0].tolist()) == list(range(40))


def test_ties_and_passages_without_a_shared_word_are_in_order_of_position() -> None:
    index = SparseIndex(["dune kelp", "amber jade", "dune kelp", "cedar mesa", "dune kelp"])
    together, scores = index.search(["kelp", "zzz", "the", "kelp"], 5)
    assert together.tolist() == [[0, 2, 4, 1, 3], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 2, 4, 1, 3]]
    assert scores[1].tolist() == [0] * 5
    assert (index.search(["kelp"], 3)[0] == together[:1, :3]).all()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.data())
def test_best_is_the_stable_sort(values: list[int], data: st.DataObject) -> None:
    scores, k = np.array(values, np.float32), data.draw(st.integers(0, len(values)))
    assert best(scores, k).tolist() == np.argsort(-scores, kind="stable")[:k].tolist()


def test_k_above_the_corpus() -> None:
    assert SparseIndex(["dune", "kelp"]).search(["kelp"], 9)[0].tolist() == [[1, 0]]


def test_written_without_pickle_and_read_again(tmp_path) -> None:
    index = SparseIndex(random_texts(30))
    index.write(tmp_path / "bm25")
    for path in (tmp_path / "bm25").iterdir():
        if path.suffix == ".npy":
            assert np.load(path, allow_pickle=False).dtype != object
        else:
            assert path.suffix == ".json"
    again = SparseIndex.read(tmp_path / "bm25")
    assert [a.tolist() for a in again.search(["kelp jade"], 30)] == [a.tolist() for a in index.search(["kelp jade"], 30)]
    (tmp_path / "bm25" / "vocab.index.json").write_text("{")
    with pytest.raises(UsageError, match="bm25"):
        SparseIndex.read(tmp_path / "bm25")


def test_a_corpus_without_words_is_refused() -> None:
    with pytest.raises(UsageError, match="no passage"):
        SparseIndex(["a", "!"])
