"""Traps that users of similar projects fell into (field notes, section F), each by its number."""

from __future__ import annotations

import pytest
import torch
from tiny_lm import QUESTIONS, ask, ask_all, completions, generator, outcome, roles, tiny_model, tiny_tokenizer

from evoctx_torch.operations import Generate, Pending
from evoctx_torch.transcript import Prompt, Segment


def free_run(tokens: int = 16) -> list:
    return completions(generator(settings=roles(tokens)).answer(ask_all()))


def with_eos(token: int, pad: int | None = None):
    """The tiny model for which one more token, which it does generate, ends a row."""
    model = tiny_model()
    model.generation_config.eos_token_id = [tiny_tokenizer().eos_token_id, token]
    model.generation_config.pad_token_id = pad
    return model


def repeated_token(run: list) -> int:
    """A token that several rows generate, not first, not last, at different places."""
    return max(range(5, 205), key=lambda t: len({c.token_ids.index(t) for c in run if t in c.token_ids[1:-1]}))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_trap_1_left_padding_gives_no_nan_in_low_precision(dtype):
    found = completions(generator(tiny_model().to(dtype)).answer(ask_all()))
    assert all(c.completion_tokens == 16 and c.text.strip() for c in found)


def test_trap_1_a_row_is_the_same_alone_and_left_padded():
    made = generator()
    long, short = ask(QUESTIONS[2], "long"), ask(QUESTIONS[3], "short")
    assert [outcome(c) for c in made.answer([long, short])] == [outcome(made.answer([x])[0]) for x in (long, short)]


def test_trap_2_pad_equal_to_eos_keeps_the_real_eos():
    run = free_run()
    token = repeated_token(run)
    found = completions(generator(with_eos(token, pad=token)).answer(ask_all()))
    ended = 0
    for free, c in zip(run, found, strict=True):
        if token in free.token_ids:
            ended += 1
            place = free.token_ids.index(token)
            assert c.token_ids == free.token_ids[: place + 1], "the eos counts and is the last token"
            assert c.finish_reason == ("eos" if place else "empty")
        else:
            assert outcome(c) == outcome(free)
    assert 2 <= ended < 8


def test_trap_2_an_eos_inside_the_prompt_ends_nothing():
    token = repeated_token(free_run())
    made = generator(with_eos(token, pad=token))
    prompt = Prompt((Segment("The bridge"), Segment("", ids=(token, token)), Segment("and")))
    alone = made.answer([Pending("q", 0, Generate("generator", prompt))])[0]
    together = made.answer([Pending("q", 0, Generate("generator", prompt)), ask(QUESTIONS[2])])[0]
    assert outcome(alone) == outcome(together)
    assert alone.prompt_tokens == 2 + sum(len(tiny_tokenizer()(t).input_ids) for t in ("The bridge", "and"))


def test_trap_3_without_eos_the_padding_is_no_response():
    made = generator()
    pending = [ask(QUESTIONS[0], max_new_tokens=3), ask(QUESTIONS[1], max_new_tokens=20)]
    short, long = completions(made.answer(pending))
    assert (short.completion_tokens, long.completion_tokens) == (3, 20)
    assert short.finish_reason == long.finish_reason == "length"


def test_trap_3_an_empty_response_is_reported_as_such():
    first = completions(generator(settings=roles(1)).answer([ask(QUESTIONS[0])]))[0].token_ids[0]
    found = completions(generator(with_eos(first)).answer([ask(QUESTIONS[0]), ask(QUESTIONS[1])]))
    assert (found[0].text, found[0].finish_reason, found[0].completion_tokens, found[0].token_ids) == ("", "empty", 1, (first,))
    assert found[1].finish_reason != "empty"


def test_trap_4_a_stop_string_ends_its_own_row_only():
    run = free_run()
    stop = next(run[0].text[i:i + 2] for i in range(4, 20) if run[0].text[i:i + 2].isalpha())
    pending = [ask(text, f"q{i}", stop=(stop,) if i == 0 else ()) for i, text in enumerate(QUESTIONS)]
    found = completions(generator().answer(pending))
    assert found[0].finish_reason == "stop"
    assert found[0].text == run[0].text[: run[0].text.index(stop)]
    assert found[0].completion_tokens < 16
    assert found[0].token_ids == run[0].token_ids[: found[0].completion_tokens]
    assert [outcome(c) for c in found[1:]] == [outcome(c) for c in run[1:]]


def test_trap_4_a_stop_string_split_over_two_tokens_is_found():
    """The end of one token and the start of the next make the stop string; the text is cut before it."""
    decode = tiny_tokenizer().decode
    for question, free in zip(QUESTIONS, free_run(), strict=True):
        pieces = [decode([t]) for t in free.token_ids]
        split = [i for i in range(1, 15) if len(pieces[i]) > 1 and len(pieces[i + 1]) > 1 and "\ufffd" not in pieces[i] + pieces[i + 1]]
        for i in split:
            stop = pieces[i][-1] + pieces[i + 1][0]
            if free.text.index(stop) != len(decode(free.token_ids[: i + 1])) - 1:
                continue  # it stands earlier too
            c = completions(generator().answer([ask(question, stop=(stop,))]))[0]
            assert (c.text, c.finish_reason, c.completion_tokens) == (decode(free.token_ids[: i + 1])[:-1], "stop", i + 2)
            return
    pytest.fail("no row offered a stop string over two tokens")


def test_trap_5_what_was_generated_goes_back_as_the_same_tokens():
    """A byte-level model generates tokens that its tokenizer would not choose for the same text."""
    made = generator()
    free = next(c for c in free_run() if tuple(tiny_tokenizer()(c.text).input_ids) != c.token_ids)
    prompt = Prompt((Segment("and"), Segment(free.text, source="policy", ids=free.token_ids)))
    ids, _ = made.tokens.encode(prompt, 400)
    assert tuple(ids) == (*tiny_tokenizer()("and").input_ids, *free.token_ids)
    assert made.answer([Pending("q", 0, Generate("generator", prompt))])[0].prompt_tokens == len(ids)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7])
def test_trap_10_nothing_leaks_from_one_call_to_the_next(rows):
    fresh = [outcome(generator(settings=roles(8, 0.9)).answer([item])[0]) for item in ask_all()]
    made = generator(settings=roles(8, 0.9))
    pending = ask_all()
    for start in (0, 1, 0):
        chosen = [(start + i) % 8 for i in range(rows)]
        assert [outcome(c) for c in made.answer([pending[i] for i in chosen])] == [fresh[i] for i in chosen]


@pytest.mark.parametrize("pad", [None, -1])
def test_trap_2_a_checkpoint_without_a_usable_pad_token_pads_all_the_same(pad):
    model = tiny_model()
    model.generation_config.pad_token_id = pad
    assert [outcome(c) for c in generator(model).answer(ask_all())] == [outcome(c) for c in free_run()]
