"""Ranking metrics and evidence recall against their definitions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evoctx_torch.metrics.evidence import evidence_recall, gold_passages
from evoctx_torch.metrics.ranking import average_precision, hits_at, reciprocal_rank

IDS = st.sampled_from([f"p{i}" for i in range(15)])
RANKED = st.lists(IDS, max_size=15, unique=True)
GOLD = st.sets(IDS, min_size=1, max_size=12)


@given(RANKED, GOLD, st.integers(1, 12))
@settings(max_examples=50)
def test_average_precision_equals_its_definition(ranked: list[str], gold: set[str], k: int) -> None:
    total = 0.0
    for rank in range(1, min(k, len(ranked)) + 1):
        if ranked[rank - 1] in gold:
            total += sum(passage in gold for passage in ranked[:rank]) / rank
    assert math.isclose(average_precision(ranked, gold, k), total / len(gold), abs_tol=1e-12)


@given(RANKED, GOLD, st.integers(1, 12))
def test_hits_and_reciprocal_rank_equal_their_definitions(ranked: list[str], gold: set[str], k: int) -> None:
    ranks = [rank for rank, passage in enumerate(ranked, 1) if passage in gold and rank <= k]
    assert hits_at(ranked, gold, k) == bool(ranks)
    assert reciprocal_rank(ranked, gold, k) == (1 / min(ranks) if ranks else 0)


@given(st.lists(IDS, max_size=20), GOLD)
@settings(max_examples=30)
def test_a_passage_counts_at_its_first_place_only(ranked: list[str], gold: set[str]) -> None:
    once = list(dict.fromkeys(ranked))
    for metric in (average_precision, reciprocal_rank, lambda r, g: hits_at(r, g, 4)):
        assert metric(ranked, gold) == metric(once, gold)


@pytest.mark.parametrize(("ranked", "gold", "ap", "rr"), [
    (["a", "b", "c", "d"], {"a", "b", "c", "d"}, 1.0, 1.0),  # MultiHop-RAG's own MAP gives 0.52 here
    (["x", "a", "y", "b"], {"a", "b"}, (1 / 2 + 2 / 4) / 2, 1 / 2),
    (["a"], {"a", "b"}, 1 / 2, 1.0),
    ([f"x{i}" for i in range(10)] + ["a"], {"a"}, 0.0, 0.0),
    ([], {"a"}, 0.0, 0.0),
])
def test_known_lists(ranked: list[str], gold: set[str], ap: float, rr: float) -> None:
    assert average_precision(ranked, gold) == pytest.approx(ap)
    assert reciprocal_rank(ranked, gold) == rr


def test_without_gold_there_is_no_value() -> None:
    assert average_precision(["a"], ()) is reciprocal_rank(["a"], ()) is hits_at(["a"], (), 4) is evidence_recall(["a"], ()) is None


@given(st.lists(IDS), GOLD, IDS)
def test_evidence_recall_is_a_share_that_only_grows(retrieved: list[str], gold: set[str], more: str) -> None:
    recall = evidence_recall(retrieved, gold)
    assert recall == sum(passage in retrieved for passage in gold) / len(gold)
    assert evidence_recall([*retrieved, more], gold) >= recall
    assert evidence_recall([*retrieved, *gold], gold) == 1


def test_gold_passages_of_the_metadata() -> None:
    assert gold_passages({"supporting_passage_ids": ["6", "4", "6"]}) == ("6", "4")
    assert gold_passages({}) == gold_passages({"supporting_passage_ids": None}) == ()
