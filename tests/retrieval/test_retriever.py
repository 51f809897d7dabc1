"""The executor: exclusion, refill, rows that fail alone, and vectors that need no second encoding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrieval_cases import WORDS, ask, brute_force, corpus_of, hash_retriever, random_texts

from evoctx_torch.errors import UsageError
from evoctx_torch.isolation import answer_each
from evoctx_torch.operations import Failure, Retrieved
from evoctx_torch.retrieval.build import make_retriever
from evoctx_torch.retrieval.executor import Retriever
from evoctx_torch.retrieval.hashing import HashEncoder
from evoctx_torch.retrieval.sparse import SparseIndex


def ids(result: Retrieved | Failure) -> list[str]:
    assert isinstance(result, Retrieved), result
    return [p.id for p in result.passages]


RANDOM = corpus_of(random_texts(40), [f"doc {i % 13}" for i in range(40)])
KINDS = ("dense", "sparse")


@pytest.fixture(scope="module")
def retrievers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Retriever]:
    from evoctx_torch.retrieval.cache import corpus_vectors
    from evoctx_torch.retrieval.dense import DenseIndex

    encoder = HashEncoder()
    vectors = corpus_vectors(RANDOM, encoder, folder=tmp_path_factory.mktemp("vectors"))
    return {"dense": Retriever(RANDOM, DenseIndex(vectors), encoder), "sparse": Retriever(RANDOM, SparseIndex(RANDOM.contents))}


OPERATIONS = st.builds(
    ask,
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
    st.integers(1, 60),
    st.frozensets(st.sampled_from([f"doc {i}" for i in range(13)] + ["no such doc"]), max_size=13),
    st.booleans(),
    st.none() | st.frozensets(st.sampled_from([f"doc {i}" for i in range(13)] + ["no such doc"]), max_size=5),
)


@pytest.mark.parametrize("kind", KINDS)
@given(batch=st.lists(OPERATIONS, min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_the_law_of_exclusion(retrievers: dict[str, Retriever], kind: str, batch: list) -> None:
    """With refill: the first k unseen of the whole ranking. Without: the unseen of the first k. In any company; inside the
    documents of `within` where that is given."""
    retriever = retrievers[kind]
    for pending, result in zip(batch, retriever.answer(batch), strict=True):
        o = pending.operation
        ranking = retriever.search_one(o.query, len(RANDOM))
        assert len(ranking) == len(RANDOM)
        ranking = [p for p in ranking if o.within is None or p.doc_id in o.within]
        unseen = [p for p in (ranking if o.refill else ranking[: o.k]) if p.doc_id not in o.exclude]
        assert ids(result) == [p.id for p in unseen[: o.k]]
        assert [p.score for p in result.passages] == [p.score for p in unseen[: o.k]]


def test_scores_are_cosines_of_contents_and_query(retrievers: dict[str, Retriever]) -> None:
    query, encoder = "amber fjord kelp", HashEncoder()
    expected, scores = brute_force(encoder.encode(RANDOM.contents).numpy(), encoder.encode([query])[0].numpy(), 7)
    found = retrievers["dense"].search_one(query, 7)
    assert [RANDOM.position(p.id) for p in found] == expected
    np.testing.assert_allclose([p.score for p in found], scores, atol=1e-12)
    assert [(p.title, p.contents) for p in found] == [(RANDOM[i].title, RANDOM[i].contents) for i in expected]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_trap_11_every_row_gets_its_own_passages(retrievers: dict[str, Retriever], kind: str, size: int) -> None:
    """Rows that are blank, exclude much or repeat a query stand between the others."""
    batch = [ask("amber", 3), ask(" ", 3), ask("kelp jade", 2, ["doc 1"]), ask("amber", 3), ask("mesa", 40, ["doc 2"]), ask("dune", 1)]
    alone = [retrievers[kind].answer([p])[0] for p in batch]
    grouped = [r for i in range(0, len(batch), size) for r in retrievers[kind].answer(batch[i : i + size])]
    assert grouped == alone
    assert isinstance(grouped[1], Failure)
    assert len({tuple(ids(grouped[i])) for i in (0, 2, 4, 5)}) == 4


def test_trap_16_duplicates_under_other_ids_come_in_corpus_order() -> None:
    corpus = corpus_of(["kelp reef", "dune", "kelp reef", "amber", "kelp reef"])
    retriever = hash_retriever(corpus)
    for size in (1, 3, 8):
        for result in retriever.answer([ask("kelp reef", 2)] * size):
            assert ids(result) == ["p0", "p2"]
    assert ids(retriever.answer([ask("kelp reef", 2, ["doc 0"])])[0]) == ["p2", "p4"]


def test_a_corpus_smaller_than_k() -> None:
    retriever = hash_retriever(corpus_of(["kelp", "dune", "amber"]))
    assert sorted(p.id for p in retriever.search_one("kelp", 500)) == ["p0", "p1", "p2"]
    assert ids(retriever.answer([ask("kelp", 3, ["doc 0", "doc 1", "doc 2"])])[0]) == []


def test_a_blank_query_and_a_k_below_one_fail_alone_and_say_why() -> None:
    retriever = hash_retriever(corpus_of(["kelp", "dune"]))
    blank, good, none = retriever.answer([ask(" \n", 1), ask("dune", 1), ask("dune", 0)])
    assert isinstance(blank, Failure)
    assert blank.reason == "error"
    assert "blank" in blank.message
    assert ids(good) == ["p1"]
    assert isinstance(none, Failure)
    assert "k = 0" in none.message
    with pytest.raises(UsageError, match="blank"):
        retriever.search_one("", 1)


def test_a_row_whose_search_raises_fails_alone() -> None:
    class Flaky(HashEncoder):
        def encode(self, texts, window="head"):
            vectors = super().encode(texts, window)
            vectors[[i for i, t in enumerate(texts) if "bad" in t]] = float("nan")
            return vectors

    retriever = make_retriever(corpus_of(["kelp", "dune", "amber"]), Flaky())
    bad, *good = answer_each(retriever, [ask("bad", 1), ask("dune", 1), ask("amber", 1), ask("kelp", 1)])
    assert isinstance(bad, Failure)
    assert "NaN" in bad.message
    assert [ids(r) for r in good] == [["p1"], ["p2"], ["p0"]]


def test_known_vectors_are_those_of_returned_passages(retrievers: dict[str, Retriever]) -> None:
    encoder = HashEncoder()
    retriever = hash_retriever(RANDOM)
    assert retriever.known_vector(RANDOM.contents[0]) is None
    for p in retriever.search_one("amber", 4):
        assert (retriever.known_vector(p.contents) == encoder.encode([p.contents])[0].numpy()).all()
    assert retriever.known_vector("amber") is None
    found = retrievers["sparse"].search_one("amber", 1)[0]
    assert retrievers["sparse"].known_vector(found.contents) is None


def test_a_query_is_encoded_once() -> None:
    calls: list[list[str]] = []

    class Counting(HashEncoder):
        def encode(self, texts, window="head"):
            calls.append(list(texts))
            return super().encode(texts, window)

    retriever = make_retriever(corpus_of(["kelp", "dune"]), Counting())
    calls.clear()
    retriever.answer([ask("kelp", 1), ask("dune", 1), ask("kelp", 1)])
    retriever.answer([ask("dune", 1), ask("amber", 1)])
    assert calls == [["kelp", "dune"], ["amber"]]


def test_index_and_corpus_of_different_size_are_refused() -> None:
    with pytest.raises(UsageError, match="2 passages"):
        Retriever(corpus_of(["a kelp"]), SparseIndex(["dune", "kelp"]))
