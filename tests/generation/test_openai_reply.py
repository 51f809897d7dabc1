"""Reading a server's reply and planning the next try: pure functions on bytes and numbers."""

from __future__ import annotations

import json
from email.utils import formatdate
from time import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import completed

from evoctx_torch.generation.backoff import Backoff, Trouble, retry_after
from evoctx_torch.generation.openai_reply import TooLong, read_completion, refusal
from evoctx_torch.generation.openai_request import estimated_tokens
from evoctx_torch.generation.openai_server import is_loopback
from evoctx_torch.operations import Completion
from evoctx_torch.transcript import Segment


def read(body, stop=()):
    return read_completion(json.dumps(body).encode(), stop)


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize(
    ("text", "finish", "choice", "reason"),
    [
        ("word", "stop", {}, "eos"),
        ("word", "eos_token", {}, "eos"),
        ("word", "stop", {"stop_reason": None}, "eos"),
        ("word", "stop", {"stop_reason": 151645}, "eos"),
        ("word", "stop", {"stop_reason": "\n"}, "stop"),
        ("word", "stop", {"matched_stop": "\n"}, "stop"),
        ("word", "stop", {"stop_reason": ["\n"]}, "eos"),
        ("word", "stop_sequence", {}, "stop"),
        ("word", "length", {}, "length"),
        ("word\nmore", "length", {}, "stop"),
        (" \t", "stop", {}, "empty"),
        ("", "length", {}, "empty"),
        ("\nword", "stop", {}, "empty"),
    ],
)
def test_finish_reasons(chat, text, finish, choice, reason):
    result = read(completed(text, finish, chat=chat, **choice), stop=("\n",))
    assert (result.text, result.finish_reason) == (text.split("\n")[0], reason)


def test_an_absent_content_is_an_empty_completion():
    assert read(completed(None)).finish_reason == "empty"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_a_reasoning_parsers_field_goes_back_in_front(field):
    result = read(completed("Paris\nmore", message={field: "France,\nso"}), stop=("\n",))
    assert (result.text, result.finish_reason) == ("<think>France,\nso</think>Paris", "stop")
    assert read(completed(None, "length", message={field: "France"})).text == "<think>France</think>"


def test_cached_tokens_are_not_computed():
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}}
    assert read(completed("x", usage=usage)) == Completion("x", "eos", 100, 36, 7)
    assert read(completed("x", usage={**usage, "prompt_tokens_details": None})).computed_prompt_tokens == 100


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 3}, {"prompt_tokens": "3", "completion_tokens": 1}, {"prompt_tokens": 3, "completion_tokens": -1}, 5])
def test_unusable_token_counts_are_trouble_worth_one_more_try(usage):
    with pytest.raises(Trouble, match="token counts") as caught:
        read(completed("x", usage=usage))
    assert caught.value.tries == 2


@pytest.mark.parametrize("finish", ["content_filter", "tool_calls", "abort", None, 3])
def test_an_unknown_end_is_trouble(finish):
    with pytest.raises(Trouble, match="finish_reason"):
        read(completed("x", finish))


def test_an_error_with_status_200_is_told():
    with pytest.raises(Trouble, match="upstream is down"):
        read({"error": {"message": "upstream is down"}})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["choices", "message", "content", "text", "finish_reason", "usage", "error", "prompt_tokens", "stop_reason"]), inner, max_size=5),
    max_leaves=15,
)


@given(st.one_of(JSON.map(lambda body: json.dumps(body).encode()), st.binary()), st.integers(400, 599))
def test_whatever_a_server_sends_is_a_completion_or_trouble(content, status):
    try:
        result = read_completion(content, ("\n", "stop"))
    except Trouble:
        pass
    else:
        assert result.prompt_tokens >= 0
    assert isinstance(refusal(status, content, {}), Trouble)


def test_deeply_nested_json_is_trouble():
    with pytest.raises(Trouble, match="no JSON"):
        read_completion(b"[" * 200_000, ())


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"message": "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens"}}),
        (400, {"object": "error", "message": "The input (9000 tokens) is longer than the model's context length (4096 tokens)."}),
        (400, {"error": {"message": "too big", "code": "context_length_exceeded"}}),
        (400, {"error": {"message": "no", "type": "exceed_context_size_error", "n_ctx": 256}}),
        (500, {"error": {"code": 500, "message": "the request exceeds the available context size. try increasing the context size"}}),
        (400, {"error": {"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."}}),
        (400, {"detail": "Requested tokens (2285) exceed context window of 2048"}),
        (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096.", "error_type": "validation"}),
    ],
)
def test_servers_words_for_too_long(status, body):
    assert isinstance(refusal(status, json.dumps(body).encode(), {}), TooLong)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, {"error": {"message": "Rate limit: 30000 tokens per minute for context length above 8k"}}),
        (422, {"detail": [{"msg": "field required", "input": {"prompt": "What is a context length?"}}]}),  # an echoed prompt
        (400, {"error": {"message": "unknown parameter: seed"}}),
    ],
)
def test_what_is_not_too_long(status, body):
    assert not isinstance(refusal(status, json.dumps(body).encode(), {}), TooLong)


@given(st.integers(1, 6), st.floats(0, 100), st.integers(), st.text(), st.integers(0, 99))
def test_pauses_double_within_bounds_and_depend_only_on_who_asks(failed, wait, seed, question, number):
    backoff = Backoff(tries=7, first_s=0.25, longest_s=5)
    pause = backoff.pause(failed, wait, seed, question, number)
    doubled = 0.25 * 2 ** (failed - 1)
    assert min(5, max(wait, doubled / 2)) <= pause <= min(5, max(wait, doubled))
    assert pause == backoff.pause(failed, wait, seed, question, number)


def test_rows_that_failed_together_come_back_apart():
    assert len({Backoff().pause(1, 0, 7, f"q{i}", 0) for i in range(50)}) == 50


def test_retry_after_as_number_as_date_and_as_nonsense():
    assert retry_after({"retry-after": "2.5"}) == 2.5
    assert 8 < retry_after({"retry-after": formatdate(time() + 10, usegmt=True)}) <= 10
    assert retry_after({"retry-after": formatdate(time() - 10, usegmt=True)}) == 0
    assert [retry_after({"retry-after": value}) for value in ("soon", "", "nan", "-3")] == [0, 0, 0, 0]
    assert retry_after({}) == 0


def test_estimated_tokens_count_bytes():
    assert [estimated_tokens(Segment(text)) for text in ("", "abcde", "abcdef", "汉字", "\ud83d")] == [0, 2, 3, 3, 1]


def test_loopback_hosts():
    assert [is_loopback(h) for h in ("127.0.0.1", "127.9.9.9", "::1", "localhost", "a.localhost")] == [True] * 5
    assert [is_loopback(h) for h in ("10.0.0.1", "example.com", "localhost.example.com")] == [False] * 3
