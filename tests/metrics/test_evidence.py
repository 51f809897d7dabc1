"""Chunks of a gold passage count as that passage, and only they."""

from __future__ import annotations

from evoctx_torch.metrics.evidence import evidence_recall, gold_ids


def test_a_chunk_counts_as_the_gold_passage_that_it_was_cut_from() -> None:
    assert gold_ids(["d#3", "d#0", "e#1", "x", "d"], ["d"]) == ["d", "d", "e#1", "x", "d"]
    assert gold_ids(["a#0", "a#0#2", "a"], ["a#0"]) == ["a#0", "a#0", "a"]  # a gold id may hold the mark itself
    assert evidence_recall(gold_ids(["d#3", "e#1"], ["d", "f"]), ["d", "f"]) == 0.5
    assert gold_ids(["d#3"], []) == ["d#3"]
