"""The OpenAI-compatible generator against a server on loopback: requests, order, concurrency, failures, retries."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from loopback import Loopback, Reply, completed

from evoctx_torch.errors import MissingExtra, UsageError
from evoctx_torch.generation.openai_client import OpenAIGenerator
from evoctx_torch.generation.settings import Roles, RoleSettings
from evoctx_torch.keys import row_seed
from evoctx_torch.operations import Completion, Failure, Generate, Pending
from evoctx_torch.transcript import Prompt, Segment

KEY = "sk-unit-test-0123456789"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def ask(text="hello", question="q0", number=0, role="generator", chat=True, system=None, passages=(), **options):
    segments = (Segment(text), *(Segment(words, passage_id=name) for name, words in passages))
    return Pending(question, number, Generate(role, Prompt(segments, chat, system), **options))


def generator(server, **options):
    settings = {"roles": Roles(), "seed": 7, "first_pause_s": 0.001, **options}
    return OpenAIGenerator("m", server.url if isinstance(server, Loopback) else server, **settings)


def answers(server, *pending, **options):
    with generator(server, **options) as model:
        return model.answer(pending)


def test_chat_request_and_reply():
    roles = Roles(RoleSettings(64), {"decider": RoleSettings(9, temperature=0.7, top_p=0.9)})
    with Loopback(lambda asked: f"re: {asked.prompt}") as server:
        results = answers(server, ask("a", system="be brief", stop=("\n", "Q:")), ask("b", "q1", 3, role="decider"), roles=roles)
    assert results == [Completion("re: a", "eos", 11, 11, 3), Completion("re: b", "eos", 11, 11, 3)]
    first, second = sorted(server.requests, key=lambda asked: asked.prompt)
    assert first.path == "/v1/chat/completions"
    assert first.headers["Authorization"] == f"Bearer {KEY}"
    seed = row_seed(7, "q0", 0) & 0x7FFFFFFF
    turns = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "a"}]
    assert first.body == {"model": "m", "temperature": 0, "max_tokens": 64, "seed": seed, "stop": ["\n", "Q:"], "messages": turns}
    seed = row_seed(7, "q1", 3) & 0x7FFFFFFF
    turns = [{"role": "user", "content": "b"}]
    assert second.body == {"model": "m", "temperature": 0.7, "top_p": 0.9, "max_tokens": 9, "seed": seed, "messages": turns}


def test_completions_request_and_reply():
    with Loopback(lambda asked: f"re: {asked.prompt}") as server:
        (result,) = answers(server, ask("Q: who? A:", chat=False, max_new_tokens=5, passages=[("p", " text")]), api="completions")
    (asked,) = server.requests
    assert asked.path == "/v1/completions"
    assert asked.body == {"model": "m", "temperature": 0, "max_tokens": 5, "seed": row_seed(7, "q0", 0) & 0x7FFFFFFF, "prompt": "Q: who? A: text"}
    assert result == Completion("re: Q: who? A: text", "eos", 11, 11, 3)


@pytest.mark.parametrize(("api", "chat", "asked_for"), [("chat", True, True), ("completions", False, 1)])
def test_logprobs_are_asked_for_only_where_the_operation_needs_pieces(api, chat, asked_for):
    logprobs = {"content": [{"token": "x", "logprob": -0.5, "bytes": [120]}], "tokens": ["x"], "token_logprobs": [-0.5]}
    with Loopback(lambda asked: Reply(completed("x", chat=chat, logprobs=logprobs))) as server:
        results = answers(server, ask("a", pieces=True, chat=chat), ask("b", "q1", chat=chat), api=api)
    first, second = sorted(server.requests, key=lambda asked: asked.prompt)
    assert first.body["logprobs"] == asked_for and type(first.body["logprobs"]) is type(asked_for) and "logprobs" not in second.body
    assert [(r.pieces, r.logprobs) for r in results] == [(("x",), (-0.5,)), (None, None)]


def test_results_keep_their_order_whatever_finishes_first():
    with Loopback(lambda asked: Reply(completed(f"re: {asked.prompt}"), delay_s=0.15 - 0.01 * int(asked.prompt))) as server:
        results = answers(server, *(ask(str(i), f"q{i}") for i in range(15)))
    assert [r.text for r in results] == [f"re: {i}" for i in range(15)]


@pytest.mark.parametrize("places", [1, 3])
def test_at_most_max_in_flight_requests_are_under_way(places):
    with Loopback(lambda asked: Reply(completed("x"), delay_s=0.05)) as server:
        answers(server, *(ask(str(i)) for i in range(9)), max_in_flight=places)
    assert server.peak == places


def test_trap_8_a_broken_reply_is_tried_again_and_then_fails_its_row_alone():
    broken = {
        "status": Reply({"error": {"message": "boom"}}, 500),
        "html": Reply(b"<html>proxy error</html>"),
        "choices": Reply({"choices": []}),
        "hang up": Reply(hang_up=True),
        "limit": Reply({"error": {"message": "slow down"}}, 429),
        "torn": Reply({"choices": [{"message": {}}]}),
    }
    told = {"status": "HTTP 500: boom", "html": "<html>proxy error</html>", "choices": "without a choice", "hang up": "no connection",
            "limit": "HTTP 429: slow down", "torn": "without a choice"}
    names = [*broken, "fine", "also fine"]
    with Loopback(lambda asked: broken.get(asked.prompt, "good")) as server:
        results = answers(server, *(ask(name, f"id of {name}") for name in names), max_tries=3)
    for name, result in zip(names, results, strict=True):
        if name in broken:
            assert isinstance(result, Failure)
            assert result.reason == "error"
            assert f"'id of {name}'" in result.message
            assert told[name] in result.message
            assert "\n" not in result.message
            assert server.tries(name) == 3
        else:
            assert result.text == "good"
            assert server.tries(name) == 1


def test_trap_8_a_reply_that_never_comes_fails_its_row_alone():
    with Loopback(lambda asked: Reply(completed("good"), delay_s=60 if asked.prompt == "late" else 0)) as server:
        late, fine = answers(server, ask("late"), ask("fine", "q1"), timeout_s=2, max_tries=1)
    assert (late.reason, fine.text) == ("error", "good")
    assert "no reply within 2 s" in late.message


def test_a_timeout_is_tried_again():
    with Loopback(lambda asked: Reply(completed("late"), delay_s=60)) as server:
        (late,) = answers(server, ask(), timeout_s=0.3, max_tries=2)
    assert late.reason == "error"
    assert "2 of 2 tries: no reply within 0.3 s" in late.message


@pytest.mark.parametrize("first", [Reply({"error": {"message": "slow down"}}, 429), Reply(b"<html>starting</html>", 503), Reply(hang_up=True), Reply(b"{")])
def test_a_passing_trouble_leaves_no_trace(first):
    with Loopback(lambda asked: first if asked.number == 1 else "good") as server:
        (result,) = answers(server, ask())
    assert result == Completion("good", "eos", 11, 11, 3)
    first_try, second_try = server.requests
    assert first_try.body == second_try.body


def test_retry_after_is_waited_for():
    with Loopback(lambda asked: Reply({}, 429, {"Retry-After": "0.4"}) if asked.number == 1 else "good") as server:
        start = time.monotonic()
        (result,) = answers(server, ask())
    assert result.text == "good"
    assert time.monotonic() - start >= 0.4


def test_a_server_that_is_gone_fails_every_row():
    with Loopback(lambda asked: "x") as server:
        url = server.url
    results = answers(url, ask("a"), ask("b", "q1"), max_tries=2)
    assert [r.reason for r in results] == ["error", "error"]
    assert all("no connection" in r.message and "2 of 2 tries" in r.message for r in results)


def test_a_reply_without_usage_is_asked_for_once_more_and_then_fails():
    with Loopback(lambda asked: Reply(completed("text", usage=None))) as server:
        (result,) = answers(server, ask(question="q5"))
    assert server.tries("hello") == 2
    assert result.reason == "error"
    assert "'q5'" in result.message
    assert "token counts" in result.message


def test_trap_4_a_server_that_ignores_stop_strings_is_cut_row_by_row():
    with Loopback(lambda asked: "one</s>two\nthree") as server:
        results = answers(server, ask("a", stop=("\n", "</s>")), ask("b", "q1", stop=("\n",)), ask("c", "q2"))
    assert [(r.text, r.finish_reason) for r in results] == [("one", "stop"), ("one</s>two", "stop"), ("one</s>two\nthree", "eos")]


def test_a_refusal_for_length_is_over_length_and_not_tried_again():
    words = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"
    with Loopback(lambda asked: Reply({"error": {"message": words, "code": "context_length_exceeded"}}, 400)) as server:
        (result,) = answers(server, ask())
    assert (result.reason, server.tries("hello")) == ("over_length", 1)
    assert words in result.message


@pytest.mark.parametrize(("status", "hint"), [(400, "HTTP 400: no"), (401, "OPENAI_API_KEY"), (403, "OPENAI_API_KEY"), (404, "--base-url"), (422, "no")])
def test_other_refusals_are_not_tried_again(status, hint):
    with Loopback(lambda asked: Reply({"error": {"message": "no"}}, status)) as server:
        (result,) = answers(server, ask())
    assert (result.reason, server.tries("hello")) == ("error", 1)
    assert hint in result.message


@pytest.mark.parametrize("padding", range(260, 300, 7))
def test_the_key_is_in_no_message_even_if_the_server_echoes_it(padding):
    echo = "x" * padding + KEY
    with Loopback(lambda asked: Reply({"error": {"message": echo}}, 401) if asked.prompt == "a" else Reply(echo.encode())) as server:
        results = answers(server, ask("a"), ask("b", "q1"), max_tries=1)
    assert all(KEY[:6] not in r.message for r in results)


def test_without_a_key_a_placeholder_is_sent(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with Loopback(lambda asked: "EMPTY is a word") as server:
        (result,) = answers(server, ask())
    assert server.requests[0].headers["Authorization"] == "Bearer EMPTY"
    assert result.text == "EMPTY is a word"


@pytest.mark.parametrize("bad", ["schlüssel-0123456789", "two\nlines-0123456789"])
def test_a_key_that_no_header_can_hold_is_refused_unseen(monkeypatch, bad):
    monkeypatch.setenv("OPENAI_API_KEY", bad)
    with pytest.raises(UsageError, match="OPENAI_API_KEY holds characters") as caught:
        generator("http://127.0.0.1:9/v1")
    assert bad not in str(caught.value)


def test_no_proxy_stands_before_loopback(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with Loopback(lambda asked: "direct") as server:
        (result,) = answers(server, ask(), max_tries=1)
    assert result.text == "direct"


def test_half_a_surrogate_pair_ends_neither_row_nor_run():
    with Loopback(lambda asked: Reply(completed("broken \ud83d end"))) as server:
        (result,) = answers(server, ask("odd \ud83d prompt"))
    assert server.requests[0].prompt == "odd ? prompt"
    assert result.text == "broken ? end"


def test_context_length_drops_the_oldest_passages_and_says_which():
    passages = [(name, "x" * 250) for name in ("old", "new")]  # 100 estimated tokens each
    with Loopback(lambda asked: "fine") as server:
        kept, lost = answers(server, ask("q", passages=passages, max_new_tokens=50), ask("q" * 1000, "q1", passages=passages), context_length=200)
    assert kept.dropped == ("old",)
    assert server.requests[0].prompt == "q" + "x" * 250
    assert (lost.reason, lost.dropped) == ("over_length", ("old", "new"))
    assert len(server.requests) == 1


def test_a_chat_prompt_is_refused_by_the_completions_endpoint_before_anything_is_sent():
    with Loopback(lambda asked: "x") as server, generator(server, api="completions") as model:
        with pytest.raises(UsageError, match="--api chat"):
            model.answer([ask(chat=False), ask(chat=True)])
    assert not server.requests


@pytest.mark.parametrize(
    ("options", "words"),
    [({"api": "responses"}, "--api is 'responses'"), ({"max_in_flight": 0}, "at least 1"), ({"max_tries": 0}, "at least 1")],
)
def test_impossible_arguments(options, words):
    with pytest.raises(UsageError, match=words):
        generator("http://127.0.0.1:9/v1", **options)


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host/v1", "http://", "http://host:port/v1", "http://me:secret@host/v1", "http://a b/v1"])
def test_impossible_addresses(url):
    with pytest.raises(UsageError, match="--base-url") as caught:
        generator(url)
    assert "secret" not in str(caught.value)


def test_check_reachable_asks_for_the_models_only(caplog):
    with Loopback(lambda asked: "x") as server, generator(server) as model, caplog.at_level(logging.WARNING):
        model.check_reachable()
    assert server.gets == ["/v1/models"]
    assert not server.requests
    assert not caplog.messages


def test_check_reachable_warns_of_an_unlisted_model(caplog):
    listed = Reply({"data": [{"id": "other"}, {"id": "third"}]})
    with Loopback(lambda asked: "x", models=listed) as server, generator(server) as model, caplog.at_level(logging.WARNING):
        model.check_reachable()
    assert "'m'" in caplog.messages[0]
    assert "other, third" in caplog.messages[0]


@pytest.mark.parametrize(
    ("models", "words"),
    [(Reply(b"<html>hi</html>"), "no JSON"), (Reply({"hello": 1}), "no list of models"), (Reply({"error": {"message": f"bad key {KEY}"}}, 401), "OPENAI_API_KEY")],
)
def test_check_reachable_refuses_what_is_no_such_server(models, words):
    with Loopback(lambda asked: "x", models=models) as server, generator(server) as model:
        with pytest.raises(UsageError, match=words) as caught:
            model.check_reachable()
    assert f"--base-url {server.url}" in str(caught.value)
    assert KEY not in str(caught.value)


def test_check_reachable_names_the_option_when_nobody_listens():
    with Loopback(lambda asked: "x") as server:
        url, root = server.url, server.url.removesuffix("/v1")
        with generator(root) as model, pytest.raises(UsageError, match="often /v1"):
            model.check_reachable()
    with generator(url) as model, pytest.raises(UsageError, match=f"--base-url {url}: no connection"):
        model.check_reachable()


def test_it_works_inside_a_running_loop_and_again_and_closes_twice():
    with Loopback(lambda asked: "x") as server:
        model = generator(server)

        async def notebook():
            return [model.answer([ask()])[0].text for _ in range(3)]

        assert asyncio.run(notebook()) == ["x", "x", "x"]
        assert model.answer([]) == []
        model.close()
        model.close()


def test_ctrl_c_ends_a_waiting_program_at_once():
    program = textwrap.dedent("""
        import sys
        from evoctx_torch.generation.openai_client import OpenAIGenerator
        from evoctx_torch.generation.settings import Roles
        from evoctx_torch.operations import Generate, Pending
        from evoctx_torch.transcript import Prompt, Segment
        assert "torch" not in sys.modules
        with OpenAIGenerator("m", sys.argv[1], Roles(), 0) as model:
            try:
                model.answer([Pending(str(i), 0, Generate("generator", Prompt((Segment("x"),), True))) for i in range(5)])
            except KeyboardInterrupt:
                print("interrupted")
    """)
    with Loopback(lambda asked: Reply(completed("x"), delay_s=60)) as server:
        child = subprocess.Popen([sys.executable, "-c", program, server.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
        deadline = time.monotonic() + 30
        while len(server.requests) < 5 and time.monotonic() < deadline:
            time.sleep(0.02)
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    assert (child.returncode, out, err) == (0, "interrupted\n", "")
    assert time.monotonic() - start < 5


def test_the_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.delitem(sys.modules, "evoctx_torch.generation.openai_client")
    with pytest.raises(MissingExtra, match=r"evoctx-torch\[openai\]"):
        __import__("evoctx_torch.generation.openai_client")
