"""Tokens with their log-probabilities in a server's reply: texts that together are the reply's, or trouble."""

from __future__ import annotations

import json

import pytest
from loopback import completed

from evoctx_torch.generation.backoff import Trouble
from evoctx_torch.generation.openai_reply import read_completion
from evoctx_torch.generation.openai_tokens import read_tokens


def chat(*tokens, logprob=-0.5):
    """A chat choice's logprobs: tokens as text, or as bytes where they are no whole characters."""
    return {"content": [{"token": t if isinstance(t, str) else "?", "logprob": logprob, "bytes": list(t) if isinstance(t, bytes) else None,
                         "top_logprobs": []} for t in tokens]}


def plain(*tokens):
    return {"tokens": list(tokens), "token_logprobs": [-0.25] * len(tokens), "top_logprobs": None, "text_offset": []}


@pytest.mark.parametrize(("logprobs", "written", "texts"), [
    (chat("The", " town", "."), "The town.", ("The", " town", ".")),
    (plain("The", " town", "."), "The town.", ("The", " town", ".")),
    (chat("The", " town", "<|im_end|>"), "The town", ("The", " town", "")),
    (chat("The", " town", "\nFollow"), "The town", ("The", " town", "")),
    (chat("The", " town Q:", "x"), "The town", ("The", " town", "")),
    (chat("hm", "</think>", "\n\nThe", " town"), "The town", ("", "", "The", " town")),
    (chat(b"caf\xc3", b"\xa9", b"!"), "café!", ("caf", "é", "!")),
    (chat(b"caf\xc3", b"\xa9", "!"), "café!", ("caf", "é", "!")),
    (chat("x"), "", ("",)),
    (chat(), "", ()),
])
def test_texts_of_tokens_are_the_text(logprobs, written, texts):
    found = read_tokens({"logprobs": logprobs}, written)
    assert found is not None and found[0] == texts and len(found[1]) == len(texts) and "".join(texts) == written


@pytest.mark.parametrize("choice", [{}, {"logprobs": None}, {"logprobs": {}}, {"logprobs": {"content": None}}, {"logprobs": "no"}])
def test_a_reply_without_them_has_none(choice):
    assert read_tokens(choice, "text") is None


@pytest.mark.parametrize(("logprobs", "words"), [
    (chat("other"), "do not give its text"),
    (chat("text", logprob=None), "a text and a number"),
    (chat("text", logprob=True), "a text and a number"),
    ({"content": [{"logprob": -1}]}, "without text"),
    ({"content": ["text"]}, "without text"),
    ({"tokens": ["text"], "token_logprobs": []}, "a text and a number"),
    ({"tokens": [3], "token_logprobs": [-1.0]}, "a text and a number"),
])
def test_lists_that_do_not_give_the_text_are_trouble(logprobs, words):
    with pytest.raises(Trouble, match=words) as caught:
        read_tokens({"logprobs": logprobs}, "text")
    assert caught.value.tries == 1


@pytest.mark.parametrize("as_chat", [True, False])
def test_they_are_read_where_they_were_asked_for(as_chat):
    body = json.dumps(completed("a b\nc", chat=as_chat, logprobs=chat("a", " b", "\nc") if as_chat else plain("a", " b", "\nc"))).encode()
    asked, unasked = read_completion(body, ("\n",), pieces=True), read_completion(body, ("\n",))
    assert (asked.text, asked.pieces, len(asked.logprobs)) == ("a b", ("a", " b", "\nc"), 3), "the pieces are the text before the cut"
    assert unasked.pieces is None and unasked.logprobs is None
