"""What Search-R1's clients send and read, and what is refused."""

from __future__ import annotations

import json
import socket

import pytest
from serving_cases import SHELF, Shelf, post, serving

from evoctx_torch.serving.options import ServeOptions
from evoctx_torch.serving.protocol import Refused, read_request


@pytest.fixture(scope="module")
def url():
    with serving(Shelf(), max_queries=8, max_topk=30, max_passages=40, max_query_chars=100, max_body=2000, batch_ms=0) as address:
        yield address


def test_with_scores_every_item_is_a_document_and_its_score(url):
    body = post(url, {"queries": ["ab", "abcd"], "topk": 3, "return_scores": True}).json()
    assert [[item["document"]["id"] for item in row] for row in body["result"]] == [["p0", "p1", "p2"]] * 2
    assert [row[0]["score"] for row in body["result"]] == [2.0, 4.0], "a row got another row's scores"
    assert body["result"][0][1]["document"] == {"id": "p1", "contents": "T1\ntext 1", "title": "T1", "doc_id": "d0"}


@pytest.mark.parametrize("more", [{"return_scores": False}, {}, {"return_scores": None}])
def test_without_scores_the_items_are_the_documents(url, more):
    [row] = post(url, {"queries": ["x"], "topk": 2, **more}).json()["result"]
    assert [item["contents"] for item in row] == ["T0\ntext 0", "T1\ntext 1"] and "score" not in row[0]


def test_topk_is_3_where_none_is_named_and_a_corpus_that_is_smaller_gives_all(url):
    assert len(post(url, {"queries": ["x"], "topk": None}).json()["result"][0]) == len(post(url, {"queries": ["x"]}).json()["result"][0]) == 3
    assert len(post(url, {"queries": ["x"], "topk": 30}).json()["result"][0]) == SHELF


def test_no_queries_and_blank_queries_find_nothing(url):
    assert post(url, {"queries": []}).json() == {"result": []}
    assert list(map(len, post(url, {"queries": ["x", " ", "y", ""], "topk": 1}).json()["result"])) == [1, 0, 1, 0]


@pytest.mark.parametrize(("body", "status", "words"), [
    (b"{not json", 400, ("no JSON", "expected an object", "{not json")),
    (b"", 400, ("no JSON",)),
    (b"\xff\xfe{}", 400, ("no JSON",)),
    (b"[" * 1900, 400, ("no JSON",)),
    (b'{"queries": ["x"], "topk": ' + b"9" * 1900 + b"}", 422, ("topk", "expected a whole number from 1 to 30")),
    (["x"], 400, ("a list", "expected an object")),
    ({}, 422, ("queries is missing", "expected a list of texts")),
    ({"queries": "a string"}, 422, ('queries is "a string"', "expected a list of texts")),
    ({"queries": ["x", 7]}, 422, ("query 1", "is 7", "expected a text")),
    ({"queries": [None]}, 422, ("query 0", "null")),
    ({"queries": [{"a": 1}]}, 422, ("an object",)),
    ({"queries": ["x"], "topk": 0}, 422, ("topk is 0", "from 1 to 30")),
    ({"queries": ["x"], "topk": -1}, 422, ("topk is -1",)),
    ({"queries": ["x"], "topk": 10**9}, 422, ("topk is 1000000000",)),
    ({"queries": ["x"], "topk": True}, 422, ("topk is true",)),
    ({"queries": ["x"], "topk": "3"}, 422, ('topk is "3"',)),
    ({"queries": ["x"], "topk": 2.5}, 422, ("topk is 2.5",)),
    ({"queries": ["x"], "return_scores": "yes"}, 422, ("return_scores", "expected true or false")),
    ({"queries": ["x"] * 9, "topk": 1}, 413, ("9 queries", "at most 8")),
    ({"queries": ["x"] * 5, "topk": 9}, 413, ("45 passages", "at most 40")),
    ({"queries": ["y" * 101]}, 413, ("101 characters", "at most 100")),
    (b'{"queries": ["\\ud800"]}', 422, ("half of a surrogate pair",)),
    ({"queries": ["y" * 3000]}, 413, ("larger than 2000 bytes",)),
])
def test_what_is_wrong_is_refused_with_what_was_expected_and_the_server_lives(url, body, status, words):
    answer = post(url, body)
    assert answer.status_code == status and answer.headers["content-type"] == "application/json"
    said = answer.json()["error"]
    assert all(word in said for word in words) and len(said) < 400, said
    assert post(url, {"queries": ["still alive"], "topk": 1}).status_code == 200


def test_a_megabyte_query_is_refused_by_the_default_limits():
    with pytest.raises(Refused) as refused:
        read_request(json.dumps({"queries": ["y" * (1 << 20)]}).encode(), ServeOptions())
    assert refused.value.status == 413


def test_a_body_that_never_ends_is_cut_off():
    """Chunked, without a length: counted as it comes, and given up after a while."""
    with serving(Shelf(), max_body=1000, body_timeout=0.2) as url:
        with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), timeout=10) as client:
            client.sendall(b"POST /retrieve HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"que\r\n")
            assert client.recv(4096).startswith(b"HTTP/1.1 408")


def test_other_paths_and_methods_are_no_retrieval(url):
    import httpx
    with httpx.Client(base_url=url, trust_env=False) as client:
        assert client.get("/retrieve").status_code == 405
        for path in ("/", "/docs", "/openapi.json", "/retrieve/../../etc/passwd", "/..%2f..%2fetc/passwd"):
            assert client.get(path).status_code in (404, 405)
