"""Chunks: nothing is lost, nothing is out of order, neighbours overlap exactly."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoctx_torch.data.chunks import chunk, source_id
from evoctx_torch.data.corpus import Corpus
from evoctx_torch.errors import UsageError
from evoctx_torch.operations import Passage

TEXT = st.lists(st.tuples(st.sampled_from(["a", "bb", "c,", "é", "#", "\u2028x"]), st.sampled_from([" ", "\n", "  ", "\n\n"])), max_size=40)


@given(TEXT, st.integers(1, 9), st.integers(0, 8), st.booleans())
def test_every_word_is_in_a_chunk_in_order_and_neighbours_share_the_overlap(pieces, words: int, overlap: int, titled: bool) -> None:
    overlap = min(overlap, words - 1)
    text = "".join(word + blank for word, blank in pieces)
    title = "The title" if titled else ""
    passage = Passage("d7", "D", title, f"{title}\n{text}")
    parts = list(chunk([passage], words, overlap))
    bodies = [part.contents.removeprefix(f"{title}\n") for part in parts]
    cut = [body.split() for body in bodies]
    joined = cut[0] + [word for body in cut[1:] for word in body[overlap:]]
    assert joined == text.split()
    assert all(len(body) <= words for body in cut)
    assert all(len(body) == words for body in cut[:-1])
    assert all(len(body) > overlap for body in cut[1:])  # every chunk says something new
    assert all(left[len(left) - overlap :] == right[:overlap] for left, right in pairwise(cut))
    assert all(body in text for body in bodies)  # blanks and line breaks inside are kept
    assert [part.id for part in parts] == [f"d7#{i}" for i in range(len(parts))]
    assert {(part.doc_id, part.title, source_id(part.id)) for part in parts} == {("D", title, "d7")}


def test_contents_keep_their_title_line_only_where_they_have_one() -> None:
    parts = [part.contents for part in chunk([Passage("a", "a", "T", "T\none two three"), Passage("b", "b", "T", "one two three")], 2, 1)]
    assert parts == ["T\none two", "T\ntwo three", "one two", "two three"]


@given(st.lists(st.text("a#0", min_size=1, max_size=4), unique=True, min_size=1, max_size=8), st.integers(1, 2))
def test_ids_of_chunks_never_meet(ids: list[str], words: int) -> None:
    corpus = Corpus(chunk([Passage(id, id, "", "x y z") for id in ids], words))
    assert [source_id(id) for id in corpus.ids[:: len(corpus) // len(ids)]] == ids


@pytest.mark.parametrize(("words", "overlap", "said"), [(0, 0, "chunk-words is 0"), (-1, 0, "chunk-words"), (5, 5, "0 to 4"), (5, -1, "0 to 4")])
def test_impossible_sizes_are_refused_at_once(words: int, overlap: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        chunk([], words, overlap)
