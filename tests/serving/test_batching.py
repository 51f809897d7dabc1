"""Many clients, few searches; nobody waits for nobody, and a row that fails fails alone."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from serving_cases import Shelf, post, serving, until

from evoctx_torch.operations import Failure
from evoctx_torch.serving.batching import Full, MicroBatcher


def ids(rows):
    return [[p.id for p in row] for row in rows]


def together(shelf: Shelf, requests: list[tuple[list[str], int]], **how):
    async def run():
        async with MicroBatcher(shelf, **{"window_s": 0.05, "max_batch": 64, "max_waiting": 1000, **how}) as batcher:
            return await asyncio.gather(*(batcher.search(*request) for request in requests), return_exceptions=True)
    return asyncio.run(run())


def test_requests_of_many_clients_become_one_search():
    shelf = Shelf()
    found = together(shelf, [([f"q{i}"], 1 + i % 3) for i in range(40)])
    assert len(shelf.calls) == 1 and len(shelf.calls[0]) == 40
    assert [len(row) for [row] in found] == [1 + i % 3 for i in range(40)]


def test_every_client_gets_its_own_passages():
    found = together(Shelf(), [(["x" * i, "y" * (i + 50)], 1) for i in range(1, 20)], max_batch=7)
    assert [[row[0].score for row in rows] for rows in found] == [[i, i + 50] for i in range(1, 20)]


def test_a_search_is_no_larger_than_max_batch_and_a_full_one_does_not_wait():
    shelf = Shelf()
    together(shelf, [([f"q{i}" for i in range(10)], 1)], window_s=5.0, max_batch=5)
    assert list(map(len, shelf.calls)) == [5, 5]


def test_one_query_waits_no_longer_than_the_window():
    async def run():
        async with MicroBatcher(Shelf(), 0.02, 64, 1000) as batcher:
            await asyncio.wait_for(batcher.search(["x"], 1), 5)
            await asyncio.wait_for(batcher.search(["y"], 1), 5)
    asyncio.run(run())


def test_more_than_may_wait_is_refused_and_the_others_are_answered():
    found = together(Shelf(), [(["a"] * 3, 1), (["b"] * 3, 1), (["c"], 1)], max_waiting=4)
    assert isinstance(found[1], Full) and ids(found[0]) == [["p0"]] * 3 and ids(found[2]) == [["p0"]]


def test_a_query_that_breaks_the_search_fails_alone():
    found = together(Shelf(), [(["a"], 1), (["poison"], 1), (["b"], 1)])
    assert ids(found[0]) == ids(found[2]) == [["p0"]]
    assert isinstance(found[1][0], Failure) and "breaks the search" in found[1][0].message


def test_a_request_that_is_given_up_is_not_searched_for():
    shelf = Shelf()

    async def run():
        async with MicroBatcher(shelf, 0.05, 64, 1000) as batcher:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(batcher.search(["gone"], 1), 0.01)
            await batcher.search(["here"], 1)
    asyncio.run(run())
    assert shelf.calls == [["here"]]


def test_over_http_clients_share_searches():
    shelf = Shelf(delay_s=0.02)
    with serving(shelf, batch_ms=20.0) as url, ThreadPoolExecutor(16) as clients:
        answers = list(clients.map(lambda i: post(url, {"queries": [f"{'q' * i}"], "topk": 1, "return_scores": True}).json(), range(1, 33)))
    assert [answer["result"][0][0]["score"] for answer in answers] == list(range(1, 33))
    assert sum(map(len, shelf.calls)) == 32 and len(shelf.calls) <= 16, [len(call) for call in shelf.calls]


def test_a_full_queue_says_when_to_come_back_and_a_broken_query_is_its_own_requests():
    shelf = Shelf()
    shelf.gate.clear()
    with serving(shelf, batch_ms=0, max_batch=1, max_queries=2, max_waiting=2) as url, ThreadPoolExecutor(3) as clients:
        first = clients.submit(post, url, {"queries": ["a"]})
        until(lambda: shelf.calls)  # the search is under way, the queue is empty
        second = clients.submit(post, url, {"queries": ["b", "poison"]})
        third = threading.Event()

        def refused():
            answer = post(url, {"queries": ["c"]})
            return answer if answer.status_code == 503 else third.wait(0.02) and None
        answer = None
        while answer is None:
            answer = refused()
        shelf.gate.set()
        assert answer.headers["retry-after"] == "1" and "2 queries wait already" in answer.json()["error"]
        assert first.result().status_code == 200
        assert second.result().status_code == 500 and "query 1" in second.result().json()["error"]
