"""What ends a row, token by token, without a model."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_lm import LINES, tiny_tokenizer

from evoctx_torch.generation.endings import RowEnding, Vocabulary

TOKENIZER = tiny_tokenizer()
VOCABULARY = Vocabulary(TOKENIZER, [TOKENIZER.eos_token_id])


def encode(text: str) -> list[int]:
    return TOKENIZER(text, add_special_tokens=False).input_ids


def feed(ids: list[int], stop: tuple[str, ...] = (), limit: int = 1000) -> RowEnding:
    """Feed tokens until the row ends or they do."""
    row = RowEnding(VOCABULARY, limit, stop)
    for token in ids:
        row.add(token, -1.0)
        if row.reason:
            break
    return row


def by_hand(ids: list[int], stop: tuple[str, ...]) -> tuple[str, int]:
    """The definition: decode everything after every token and look for a stop string."""
    for n in range(1, len(ids) + 1):
        text = VOCABULARY.text(ids[:n])
        found = [text.index(s) for s in stop if s in text]
        if found:
            return text[: min(found)], n
    return VOCABULARY.text(ids), len(ids)


ANY_IDS = st.lists(st.integers(0, len(TOKENIZER) - 1).filter(lambda i: i != TOKENIZER.eos_token_id), min_size=1, max_size=40)


@given(data=st.data(), ids=ANY_IDS | st.sampled_from([encode(line) for line in LINES]))
@settings(deadline=None, max_examples=300)
def test_stop_strings_are_found_as_by_decoding_everything(data, ids):
    """Any tokens (broken characters and special tokens among them), stop strings cut from their text."""
    text = VOCABULARY.text(ids)
    spans = st.tuples(st.integers(0, max(len(text) - 1, 0)), st.integers(1, 12)).map(lambda s: text[s[0]:s[0] + s[1]])
    stop = tuple(s for s in data.draw(st.lists(spans, min_size=1, max_size=3)) if s and "\ufffd" not in s) or ("Answer",)
    row = feed(ids, stop)
    assert (row.text, len(row.ids)) == by_hand(ids, stop)
    assert row.reason == ("stop" if any(s in text for s in stop) else None)


def test_a_stop_string_inside_a_token_keeps_the_token_and_cuts_the_text():
    ids = encode("the mayor")
    piece = TOKENIZER.decode([ids[-1]])
    assert len(piece) >= 3
    row = feed(ids, (piece[1:-1],))
    assert row.reason == "stop"
    assert row.ids == ids
    assert row.text == TOKENIZER.decode(ids)[: TOKENIZER.decode(ids).index(piece[1:-1])]


def test_a_stop_string_of_split_characters_is_found_when_its_last_byte_comes():
    ids = encode("Zoë said 日本茶.")
    row = feed(ids, ("日本",))
    assert row.reason == "stop"
    assert row.text == "Zoë said "
    assert "日本" in VOCABULARY.text(row.ids)
    assert "日本" not in VOCABULARY.text(row.ids[:-1])


def test_the_earliest_of_several_stop_strings_cuts():
    assert feed(encode("The bridge over the river"), ("bridge", "e br")).text == "Th"


def test_special_tokens_have_no_text_and_hide_no_stop_string():
    user = TOKENIZER.convert_tokens_to_ids("<|user|>")
    half = encode("har"), encode("bour town")
    row = feed([*half[0], *[user] * 30, *half[1]], ("rbo",))
    assert row.reason == "stop"
    assert row.text == "ha"


@pytest.mark.parametrize(("ids", "limit", "stop", "reason", "text"), [
    ([*encode("and"), TOKENIZER.eos_token_id], 20, (), "eos", "and"),
    (encode("The bridge over"), 2, (), "length", TOKENIZER.decode(encode("The bridge over")[:2])),
    ([*encode("and"), TOKENIZER.eos_token_id], len(encode("and")) + 1, (), "eos", "and"),
    ([TOKENIZER.eos_token_id], 20, (), "empty", ""),
    (encode("\n\nThe"), 20, ("\n\n",), "empty", ""),
    (encode("and"), 20, ("",), "length", "and"),
])
def test_finish_reasons(ids, limit, stop, reason, text):
    row = feed([*ids, *encode("more and more and more")] if reason == "length" and limit < 20 else ids, stop, limit if limit < 20 else len(ids))
    assert (row.finish_reason, row.text) == (reason, text)


def test_a_generated_eos_counts_and_a_nan_ends_the_row():
    assert feed([*encode("and"), TOKENIZER.eos_token_id]).ids == [*encode("and"), TOKENIZER.eos_token_id]
    row = RowEnding(VOCABULARY, 5)
    row.add(encode("and")[0], -0.5)
    row.add(encode("and")[0], float("nan"))
    assert row.reason == "nan"
    assert len(row.ids) == len(row.logprobs) == 1


@given(ids=ANY_IDS | st.sampled_from([encode(line) for line in LINES]), eos=st.booleans())
@settings(deadline=None, max_examples=50)
def test_pieces_are_one_a_token_and_together_the_text(ids, eos):
    ids = [*ids, TOKENIZER.eos_token_id] if eos else ids
    pieces = VOCABULARY.pieces(ids)
    assert len(pieces) == len(ids) and "".join(pieces) == VOCABULARY.text(ids)


def test_a_piece_is_what_its_token_says():
    ids = encode("the mayor of")
    assert VOCABULARY.pieces(ids) == tuple(TOKENIZER.decode([i]) for i in ids)
    assert VOCABULARY.pieces([]) == ()


def test_a_character_of_several_tokens_belongs_to_the_one_that_completes_it():
    ids = encode("茶🙂 本é 25")
    assert len(ids) == 12, "the tokenizer splits these characters"
    assert VOCABULARY.pieces([*ids, TOKENIZER.eos_token_id]) == ("", "茶", "", "", "🙂", " ", "", "", "本", "", "é", " 25", "")
    assert VOCABULARY.pieces(ids[:4]) == ("", "茶", "\ufffd", ""), "cut in the middle of a character"
