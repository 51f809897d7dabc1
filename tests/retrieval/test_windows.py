"""Which part of a long text is embedded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoctx_torch.errors import UsageError
from evoctx_torch.retrieval.hashing import HashEncoder
from evoctx_torch.retrieval.windows import Pieces, split


def pieces(text: str) -> Pieces:
    """Words at blanks, each in pieces of up to three letters."""
    found, start = [], 0
    for number, word in enumerate(text.split(" ")):
        found += [(start + i, start + min(i + 3, len(word)), number) for i in range(0, len(word), 3)]
        start += len(word) + 1
    return found


def names(text: str) -> list[tuple[str, bool]]:
    """What the model would read: every piece, and whether it begins a word."""
    spans = pieces(text)
    return [(text[a:b], i == 0 or spans[i - 1][2] != word) for i, (a, b, word) in enumerate(spans)]


TEXTS = st.lists(st.text("abcdefgh", min_size=1, max_size=9), max_size=20).map(" ".join)  # at most three pieces a word


@given(TEXTS, st.integers(3, 12))
def test_windows_are_what_the_model_reads(text: str, capacity: int) -> None:
    everything = names(text)
    (head,) = split(text, "head", capacity, pieces)
    assert text.startswith(head)
    assert names(head) == everything[:capacity]
    (tail,) = split(text, "tail", capacity, pieces)
    assert text.endswith(tail)
    assert names(tail) == everything[len(everything) - len(names(tail)) :]
    assert min(capacity, len(everything)) - 2 <= len(names(tail)) <= capacity  # a cut word loses at most two pieces
    windows = split(text, "mean", capacity, pieces)
    assert [name for window in windows for name in names(window)] == everything
    assert all(len(names(window)) <= capacity for window in windows)


def test_a_word_longer_than_the_window_is_cut() -> None:
    assert split("abcdefghi", "head", 2, pieces) == ["abcdef"]
    assert split("abcdefghi", "tail", 2, pieces) == ["defghi"]
    assert split("abcdefghi", "mean", 2, pieces) == ["abcdef", "ghi"]


def test_the_hash_encoder_reads_its_window() -> None:
    encoder = HashEncoder(max_length=3)
    text = "amber kelp dune jade reef"
    assert encoder.probe(text) == "amber kelp dune"
    assert encoder.probe(text, "tail") == "dune jade reef"
    assert encoder.probe(text, "mean") == text
    assert (encoder.encode([text]) == encoder.encode(["amber kelp dune"])).all()
    mean = encoder.encode(["amber kelp dune", "jade reef"]).mean(0)
    assert (encoder.encode([text], "mean")[0] - mean / mean.norm()).abs().max() < 1e-6
    with pytest.raises(UsageError, match="middle"):
        encoder.encode([text], "middle")


def test_the_hash_encoder_is_alike_in_any_company() -> None:
    encoder = HashEncoder()
    texts = ["Amber kelp", "", "dune  DUNE", "amber KELP"]
    together = encoder.encode(texts)
    assert all((encoder.encode([text])[0] == row).all() for text, row in zip(texts, together, strict=True))
    assert (together.norm(dim=1) - 1).abs().max() < 1e-6
    assert (together[0] == together[3]).all()
    assert encoder.encode([]).shape == (0, 256)
    assert encoder.encode([], "mean").shape == (0, 256)
