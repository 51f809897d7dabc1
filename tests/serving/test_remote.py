"""The client: what a good server gives, and what becomes of rows when a server is bad."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from bad_server import BadServer, documents, sound
from serving_cases import SHELF, Shelf, book, serving

from evoctx_torch.errors import UsageError
from evoctx_torch.operations import Failure, Pending, Retrieve, Retrieved
from evoctx_torch.retrieval.breaker import Breaker
from evoctx_torch.retrieval.remote import RemoteRetriever


def ask(query: str, k: int = 2, exclude: Sequence[str] = (), refill: bool = True, within: frozenset[str] | None = None) -> Pending:
    return Pending(f"q-{query}", 3, Retrieve(query, k, frozenset(exclude), refill, within))


def answers(url: str, pending: Sequence[Pending], check: bool = False, **how: Any) -> list[Retrieved | Failure]:
    with RemoteRetriever(url, **{"timeout_s": 5.0, "first_pause_s": 0.01, **how}) as retriever:
        if check:
            retriever.check_reachable()
        return retriever.answer(pending)


def against(reply: Callable[[dict, int], Any], pending: Sequence[Pending], **how: Any) -> tuple[list[Retrieved | Failure], BadServer]:
    with BadServer(reply) as server:
        return answers(server.url, pending, **how), server


def ids(result: Retrieved | Failure) -> list[str]:
    assert isinstance(result, Retrieved), result
    return [p.id for p in result.passages]


def failed(result: Retrieved | Failure, *words: str) -> bool:
    assert isinstance(result, Failure) and result.reason == "error", result
    assert all(word in result.message for word in (*words, "question 'q-")), result.message
    return True


# ---------------------------------------------------------------- our own server

@pytest.fixture(scope="module")
def url():
    with serving(Shelf(), about={"passages": SHELF, "max_topk": 30}, max_topk=30, batch_ms=0) as address:
        yield address


def test_passages_come_as_they_are_in_the_index(url):
    found = answers(url, [ask("ab", 3), ask("abcd", 1)])
    assert [list(result.passages) for result in found] == [[book(0, 2.0), book(1, 2.0), book(2, 2.0)], [book(0, 4.0)]]


def test_exclusion_goes_deeper_until_k_are_unseen_or_the_corpus_ends(url):
    """Two passages a document: one more for every excluded document is not enough."""
    rows = [ask("a", 2, ["d0"]), ask("b", 2, ["d0", "d1", "d2", "d3"]), ask("c", 3, [f"d{i}" for i in range(9)]), ask("d", 2, ["d0"], refill=False),
            ask("e", 3, ["d1"], refill=False), ask("f", 4, ["nowhere"])]
    for check in (False, True):  # whether or not it is known how many there are
        assert list(map(ids, answers(url, rows, check))) == [["p2", "p3"], ["p8", "p9"], ["p18", "p19"], [], ["p0", "p1"], ["p0", "p1", "p2", "p3"]]


def test_a_servers_limit_is_no_end_of_the_corpus():
    with serving(Shelf(), about={"passages": SHELF, "max_topk": 6}, max_topk=6) as url:
        row = ask("a", 3, ["d0", "d1"])
        assert failed(answers(url, [row], check=True)[0], "at most 6 passages a query", "only 2 of them")
        assert failed(answers(url, [row])[0], "HTTP 422", "from 1 to 6")
        assert ids(answers(url, [ask("a", 3, ["d0"])], check=True)[0]) == ["p2", "p3", "p4"], "the limit itself may be asked for"


def test_the_token_of_the_environment_is_sent_and_a_wrong_one_is_never_shown(monkeypatch):
    with serving(Shelf(), token="right-token-1") as url:
        monkeypatch.setenv("EVOCTX_RETRIEVER_TOKEN", "right-token-1")
        assert ids(answers(url, [ask("x", 1)], check=True)[0]) == ["p0"]
        monkeypatch.setenv("EVOCTX_RETRIEVER_TOKEN", "wrong-token-1")
        assert failed(answers(url, [ask("x"), ask("y")])[0], "HTTP 401", "EVOCTX_RETRIEVER_TOKEN")
        with pytest.raises(UsageError, match="401") as error:
            answers(url, [], check=True)
        assert "wrong-token-1" not in str(error.value)


def test_a_row_that_no_server_can_answer_is_not_sent():
    found, server = against(sound, [ask(" "), ask("x", 0), ask("y", within=frozenset({"d"})), ask("z", 1)])
    assert ids(found[3]) == ["p0"] and [body["queries"] for body in server.asked] == [["z"]]
    assert "blank" in found[0].message and "k = 0" in found[1].message and "own documents" in found[2].message


def test_one_query_that_breaks_the_search_fails_alone(url):
    found = answers(url, [ask("a"), ask("b"), ask("poison"), ask("c"), ask("d")], max_tries=2)
    assert failed(found.pop(2), "HTTP 500", "breaks the search", "q-poison")
    assert list(map(ids, found)) == [["p0", "p1"]] * 4


def test_a_query_that_is_refused_fails_alone_and_is_not_tried_again():
    def reply(body: dict, number: int) -> Any:
        return (413, {"detail": "too long"}, {}) if any(len(q) > 9 for q in body["queries"]) else sound(body, number)
    found, server = against(reply, [ask("a"), ask("b"), ask("much too long"), ask("c")])
    assert failed(found[2], "HTTP 413: too long") and [ids(found[i]) for i in (0, 1, 3)] == [["p0", "p1"]] * 3
    assert [body["queries"] for body in server.asked].count(["much too long"]) == 1


# ---------------------------------------------------------------- other servers

def test_trap_9_a_server_that_gives_no_scores():
    found, _ = against(lambda body, _: (200, documents(body, scores=False), {}), [ask("x", 2, ["p0"])])
    assert [(p.id, p.doc_id, p.title, p.score) for p in found[0].passages] == [("p1", "p1", "", None), ("p2", "p2", "", None)]


def test_numbers_as_ids_and_scores_of_another_server():
    found, server = against(lambda body, _: (200, documents(body, ids=int), {}), [ask("x", 2)])
    assert [(p.id, p.score) for p in found[0].passages] == [("0", 1.0), ("1", 0.99)]
    assert server.asked[0] == {"queries": ["x"], "topk": 2, "return_scores": True} and server.headers[0]["Content-Type"] == "application/json"


@pytest.mark.parametrize(("given", "asked"), [("", "/retrieve"), ("/", "/retrieve"), ("/v1/search", "/v1/search")])
def test_an_address_without_a_path_means_retrieve(given, asked):
    assert RemoteRetriever(f"http://127.0.0.1:1{given}").url == f"http://127.0.0.1:1{asked}"


def test_many_rows_go_out_in_few_requests_one_depth_each():
    found, server = against(sound, [ask(f"x{i}", 1 + i % 2) for i in range(150)])
    assert sorted((body["topk"], len(body["queries"])) for body in server.asked) == [(1, 11), (1, 64), (2, 11), (2, 64)]
    assert [result.passages[0].contents for result in found] == [f'"T0"\ntext of x{i}' for i in range(150)], "trap 11: rows mixed up"


# ---------------------------------------------------------------- faults

HTML = b"<html><body>502 Bad Gateway</body></html>"


@pytest.mark.parametrize(("fault", "words"), [
    ((200, HTML, {}), "no JSON: <html>"), ((502, HTML, {}), "HTTP 502: <html>"), (None, "no connection"), ("stall", "no complete reply within 0.2 s"),
    ((200, {"error": "down"}, {}), "without a list of results"), ((200, {"result": []}, {}), "0 lists of passages for 1 queries"),
    ((503, {"error": "busy"}, {"Retry-After": "0"}), "HTTP 503: busy"), ((200, b'{"result": [[', {}), "no JSON"),
], ids=["html", "html-502", "reset", "stall", "other", "rows", "busy", "torn"])
def test_trap_8_html_stalls_and_resets_are_tried_again_then_the_row_fails(fault, words):
    found, server = against(lambda *_: fault, [ask("x")], max_tries=3, timeout_s=0.2)
    assert failed(found[0], words) and len(server.asked) == 3
    found, server = against(lambda body, number: fault if number < 3 else sound(body, number), [ask("x")], max_tries=3, timeout_s=0.2)
    assert ids(found[0]) == ["p0", "p1"] and len(server.asked) == 3, "it was better at the third try"


def test_a_server_that_drips_does_not_get_longer_than_the_time_limit():
    import socket
    import threading
    with socket.create_server(("127.0.0.1", 0)) as listening:
        def drip() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                try:
                    while True:
                        connection.sendall(b" ")
                        time.sleep(0.02)
                except OSError:
                    pass
        threading.Thread(target=drip, daemon=True).start()
        began = time.monotonic()
        found = answers(f"http://127.0.0.1:{listening.getsockname()[1]}", [ask("x")], max_tries=1, timeout_s=0.3)
        assert failed(found[0], "no complete reply within 0.3 s") and time.monotonic() - began < 3


@pytest.mark.parametrize(("row", "words"), [
    ([], "too few: 0 passages came where 2 were asked for"),
    ([{"document": {"id": "a", "contents": "x"}, "score": 1}], "too few: 1 passages"),
    ("text", "str in place of a list"), ([1, 2], "int in place of a passage"), ([{"id": "a"}] * 2, "without id and contents"),
    ([{"document": {"contents": "x"}}] * 2, "without id and contents, its fields are contents"), ([{"id": "a", "contents": "x"}] * 2, "stands twice"),
    ([{"document": {"id": "a", "contents": "x"}, "score": "high"}] * 2, "'high', which is no number"),
    ([{"document": {"id": "a", "contents": "x"}, "score": float("nan")}] * 2, "nan"),
])
def test_too_few_or_broken_passages_fail_their_row_alone(row, words):
    def reply(body: dict, _: int) -> Any:
        rows = documents(body)["result"]
        rows[1] = row
        return 200, {"result": rows}, {}
    found, _ = against(reply, [ask("a"), ask("b"), ask("c")])
    assert failed(found[1], words, "q-b") and ids(found[0]) == ids(found[2]) == ["p0", "p1"]


def test_fewer_than_the_corpus_has_are_too_few_where_its_size_is_known():
    class Forgetful(Shelf):
        def answer(self, pending: Sequence[Pending]) -> list[Any]:
            return [Retrieved(result.passages[:3]) for result in super().answer(pending)]
    with serving(Forgetful(), about={"passages": SHELF}) as url:
        assert failed(answers(url, [ask("a", 2, ["d0", "d1"])], check=True)[0], "3 passages came where 4 of 20")


def test_a_redirection_is_not_followed_and_gets_no_token(monkeypatch):
    monkeypatch.setenv("EVOCTX_RETRIEVER_TOKEN", "a-secret-token")
    with BadServer(sound) as elsewhere:
        found, server = against(lambda *_: (307, {}, {"Location": f"{elsewhere.url}/retrieve"}), [ask("x"), ask("y")])
        assert failed(found[0], "HTTP 307", "not followed") and failed(found[1], "HTTP 307")
        assert len(server.asked) == 1 and not elsewhere.asked


def test_no_proxy_stands_before_loopback(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert ids(against(sound, [ask("x")])[0][0]) == ["p0", "p1"]


def test_the_token_is_blotted_out_where_a_server_echoes_it(monkeypatch):
    monkeypatch.setenv("EVOCTX_RETRIEVER_TOKEN", "a-secret-token")
    found, _ = against(lambda *_: (400, {"error": "you sent a-secret-token"}, {}), [ask("x")])
    assert failed(found[0], "you sent ***")


def test_a_server_that_is_gone_is_left_alone_and_found_again():
    """Three requests fail with all their tries; then nothing is sent for a while, and one request decides."""
    down = [True]
    with BadServer(lambda body, number: None if down[0] else sound(body, number)) as server:
        breaker = Breaker(threshold=3, first_s=0.3)
        with RemoteRetriever(server.url, 5.0, 2, 0.01, breaker=breaker) as retriever:
            for _ in range(3):
                assert failed(retriever.answer([ask("x")])[0], "no connection")
            assert len(server.asked) == 6 and breaker.open
            began = time.monotonic()
            found = retriever.answer([ask(f"x{i}", 1 + i) for i in range(5)])
            assert time.monotonic() - began > 0.2, "it did not wait"
            assert len(server.asked) == 7, "one request decides"
            assert all(failed(result, "no connection") for result in found) and "has been failing" in found[4].message
            down[0] = False
            assert [len(ids(result)) for result in retriever.answer([ask(f"x{i}", 1 + i) for i in range(5)])] == [1, 2, 3, 4, 5]
            assert not breaker.open and len(server.asked) == 12


def test_a_batch_that_always_fails_does_not_become_a_flood():
    found, server = against(lambda *_: (200, HTML, {}), [ask(f"x{i}") for i in range(64)], max_tries=2, breaker=Breaker(first_s=0.01))
    assert all(failed(result) for result in found) and len(server.asked) <= 2 * (1 + 2 + 4)


@pytest.mark.parametrize("address", ["127.0.0.1:8000", "ftp://h/", "http://", "http://h:99999", "http://a b"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(UsageError, match=r"--retriever is .*expected an address like http"):
        RemoteRetriever(address)


def test_an_address_with_a_password_is_refused_without_showing_it():
    with pytest.raises(UsageError, match="EVOCTX_RETRIEVER_TOKEN") as error:
        RemoteRetriever("http://me:secret@h:1")
    assert "secret" not in str(error.value)
