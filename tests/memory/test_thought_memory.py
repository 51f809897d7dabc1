"""Recall over corpus and thoughts, waves, the check at store time, levels and provenance (PAPERS section 4)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from memory_cases import ENCODER, TEXTS, ids, memory, recall, remember, retriever

from evoctx_torch.errors import UsageError
from evoctx_torch.memory.executor import ThoughtMemory
from evoctx_torch.memory.store import ThoughtStore
from evoctx_torch.operations import Failure, Noted, Passage, Pending, Recall, Thought

MAYOR, FISH = "whoever asks for the mayor of ostrand means tobin", "fish was sold long ago"


def stored(memory: ThoughtMemory) -> list[str]:
    return [thought.text for thought in memory.store.thoughts]


def test_without_thoughts_a_recall_is_a_dense_search():
    m = memory()
    m.begin_wave(0, ["q"])
    found = recall(m, "mayor of ostrand").passages
    assert list(found) == retriever().search_one("mayor of ostrand", 3)
    assert all(isinstance(p, Passage) and not isinstance(p, Thought) for p in found)


def test_a_thought_is_seen_by_the_next_wave_and_ranked_by_its_cosine():
    m = memory()
    m.begin_wave(0, ["q"])
    assert isinstance(remember(m, MAYOR, ["p0", "p1"]), Noted)
    assert "thought-1" not in ids(recall(m, MAYOR, number=3))
    m.end_wave()
    assert "thought-1" not in ids(recall(m, MAYOR, question="other")), "seen within its own wave"
    m.begin_wave(1, ["r"])
    first, *rest = recall(m, MAYOR, question="r").passages
    assert (first.id, first.contents, first.level, first.provenance) == ("thought-1", MAYOR, 2.0, ("p0", "p1"))
    expected = {text: float(ENCODER.encode([MAYOR])[0].double() @ ENCODER.encode([text])[0].double()) for text in [MAYOR, *TEXTS]}
    assert [p.score for p in (first, *rest)] == pytest.approx([expected[p.contents] for p in (first, *rest)], abs=1e-6)
    assert [p.score for p in (first, *rest)] == sorted((p.score for p in (first, *rest)), reverse=True)


def test_candidates_are_the_nearest_of_both_and_a_diverse_part_is_kept():
    texts = ["a b c d e f g h", "a b c d e f g h i", "a b c x y", "a q", "z"]  # the second is .94 near the first
    m = ThoughtMemory(retriever(texts), ThoughtStore(None, memory().store.encoder))
    m.begin_wave(0, [])
    assert ids(recall(m, "a b c d e f g h", k=3, depth=5)) == ["p0", "p2", "p3"]
    assert ids(recall(m, "a b c d e f g h", k=3, depth=5, bound=1.0)) == ["p0", "p1", "p2"]
    assert ids(recall(m, "a b c d e f g h", k=3, depth=2)) == ["p0"], "what is not among the depth nearest is no candidate"


def test_rows_of_a_batch_are_answered_apart():
    m = memory()
    m.begin_wave(0, [])
    operations = [Recall("mayor of ostrand", 2, 10), Recall("  ", 2, 10), Recall("pella lake", 1, 10, 0.2),
                  Recall("fish", 2, 10, within=frozenset({"d1"}))]
    together = m.answer([Pending(f"q{i}", 0, o) for i, o in enumerate(operations)])
    alone = [m.answer([Pending(f"q{i}", 0, o)])[0] for i, o in enumerate(operations)]
    assert together == alone and isinstance(together[1], Failure) and "blank" in together[1].message
    assert ids(together[3]) == ["p1"]


def test_documents_restrict_passages_and_never_thoughts():
    m = memory()
    m.begin_wave(0, ["q"])
    remember(m, MAYOR)
    m.end_wave()
    m.begin_wave(1, ["r"])
    assert ids(recall(m, MAYOR, within=frozenset({"d4"}))) == ["thought-1", "p4"]


def test_copies_of_what_was_shown_and_of_what_is_stored_are_rejected_in_question_order():
    m = memory()
    m.begin_wave(0, ["q0", "q1", "q2", "q3"])
    remember(m, MAYOR, question="q3")  # arrives first, and is last in the order of the questions
    remember(m, TEXTS[0], question="q1")
    remember(m, FISH, ["p1"], question="q2")
    remember(m, MAYOR.upper(), question="q0")
    m.end_wave()
    assert stored(m) == [MAYOR.upper(), FISH]
    assert m.store.outcomes() == {"stored": 2, "copy": 1, "redundant": 1}
    m.begin_wave(1, ["r"])
    remember(m, FISH + " ago", ["p4"], question="r")
    m.end_wave()
    assert stored(m) == [MAYOR.upper(), FISH] and m.store.outcomes()["redundant"] == 2


def test_the_bound_is_exclusive_at_store_time_and_inclusive_at_query_time():
    m = memory()
    m.begin_wave(0, ["q"])
    similarity = float(ENCODER.encode(["tobin hale"])[0] @ ENCODER.encode([TEXTS[0]])[0])
    remember(m, "tobin hale", bound=similarity)
    m.end_wave()
    assert m.store.outcomes() == {"copy": 1}
    remember(m, "tobin hale", number=9, bound=float(np.nextafter(np.float32(similarity), np.float32(1))))
    m.end_wave()
    assert stored(m) == ["tobin hale"]


def test_levels_and_provenance_follow_the_sources_down_to_the_passages():
    m = memory()
    m.begin_wave(0, ["q"])
    remember(m, MAYOR, ["p0", "p1"])
    m.end_wave()
    m.begin_wave(1, ["r"])
    remember(m, "zebra", ["p4", "thought-1", "p1"], question="r")
    m.end_wave()
    second = m.store.thoughts[1]
    assert second.level == 1 + (1 + 2 + 1) / 3
    assert second.provenance == ("p4", "p0", "p1") and second.sources == ("p4", 1, "p1")


@pytest.mark.parametrize(("thought", "sources", "words"), [
    ("", ["p0"], "without text"), ("x", [], "without sources"), ("x", ["nowhere"], "'nowhere'"), ("x", ["thought-1"], "'thought-1'")])
def test_what_cannot_be_remembered_fails_alone(thought, sources, words):
    m = memory()
    m.begin_wave(0, ["q"])
    assert words in remember(m, thought, sources).message
    m.end_wave()
    assert not m.store.thoughts


def test_a_thought_whose_vector_is_not_finite_is_counted_and_not_stored(monkeypatch):
    m = memory()
    m.begin_wave(0, ["q", "r"])
    remember(m, "strange")
    remember(m, FISH, question="r")
    inner = ENCODER.encode_passages
    nan = torch.full((1, 4096), torch.nan)
    monkeypatch.setattr(m.encoder, "encode_passages", lambda texts: nan if texts == ["strange"] else inner(texts))
    m.end_wave()
    assert stored(m) == [FISH] and m.store.outcomes() == {"invalid": 1, "stored": 1}


def test_a_second_try_of_an_episode_replaces_what_it_offered():
    m = memory()
    m.begin_wave(0, ["q"])
    recall(m, "x")
    remember(m, MAYOR)
    recall(m, "x")  # the episode again, after a crash; this time it offers something else
    remember(m, FISH)
    m.end_wave()
    assert stored(m) == [FISH]


def test_what_was_decided_stays_decided():
    m = memory()
    m.begin_wave(0, ["q"])
    remember(m, MAYOR)
    m.end_wave()
    recall(m, "x")
    remember(m, MAYOR)
    m.end_wave()
    assert m.store.outcomes() == {"stored": 1}


def test_a_frozen_memory_is_read_and_left_alone(tmp_path):
    first = memory(tmp_path / "m")
    first.begin_wave(0, ["q"])
    remember(first, MAYOR)
    first.end_wave()
    before = (tmp_path / "m").read_bytes()
    m = memory(tmp_path / "m", frozen=True)
    m.begin_wave(0, ["r"])
    assert ids(recall(m, MAYOR, question="r"))[0] == "thought-1"
    assert isinstance(remember(m, FISH, question="r"), Noted)
    m.end_wave()
    assert (tmp_path / "m").read_bytes() == before


def test_another_run_sees_everything_and_a_continued_one_only_what_it_would_have_seen(tmp_path):
    first = memory(tmp_path / "m", run="one")
    first.begin_wave(0, ["q"])
    remember(first, MAYOR)
    first.end_wave()
    other = memory(tmp_path / "m", run="two")
    other.begin_wave(0, ["s"])
    assert ids(recall(other, MAYOR, question="s"))[0] == "thought-1"
    remember(other, FISH, question="s")
    other.end_wave()
    again = memory(tmp_path / "m", run="one", known=0)
    again.begin_wave(0, ["q"])
    assert not again.visible
    again.begin_wave(1, ["r"])
    assert [thought.text for thought in again.visible] == [MAYOR]
    limited = memory(tmp_path / "m", run="three", known=1)
    limited.begin_wave(0, [])
    assert [thought.text for thought in limited.visible] == [MAYOR]


def test_what_has_no_vectors_and_ids_that_thoughts_have_are_refused():
    from evoctx_torch.data.corpus import Corpus
    from evoctx_torch.retrieval.executor import Retriever

    class Sparse:
        def __len__(self):
            return 1
    corpus = Corpus([Passage("p", "d", "", "text")])
    with pytest.raises(UsageError, match="has none"):
        ThoughtMemory(Retriever(corpus, Sparse()), ThoughtStore(None))
    with pytest.raises(UsageError, match="thought-0"):
        ThoughtMemory(retriever(prefix="thought-"), ThoughtStore(None))
