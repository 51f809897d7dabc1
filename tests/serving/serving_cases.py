"""A retriever that costs nothing and counts its calls, and a server around it on loopback."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from evoctx_torch.operations import Failure, Passage, Pending, Retrieved
from evoctx_torch.serving.options import ServeOptions
from evoctx_torch.serving.server import listen, make_server

SHELF = 20  # passages


class Shelf:
    """Twenty passages, always in the same order; the scores tell which query was asked. `gate` holds searches back."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.calls: list[list[str]] = []
        self.delay_s, self.gate = delay_s, threading.Event()
        self.gate.set()

    def answer(self, pending: Sequence[Pending]) -> list[Retrieved | Failure]:
        self.calls.append([p.operation.query for p in pending])
        self.gate.wait(10)
        time.sleep(self.delay_s)
        if any(p.operation.query == "poison" for p in pending):
            raise RuntimeError("this query breaks the search")
        return [Retrieved(tuple(book(i, len(p.operation.query)) for i in range(min(p.operation.k, SHELF)))) for p in pending]


def book(number: int, of: float | None = None) -> Passage:
    """Two passages a document: 0 and 1 are document 0."""
    return Passage(f"p{number}", f"d{number // 2}", f"T{number}", f"T{number}\ntext {number}", None if of is None else of - number)


@contextmanager
def serving(retriever: Any, token: str | None = None, about: dict | None = None, **options: Any) -> Iterator[str]:
    """The address of a running server."""
    with listen("127.0.0.1", 0) as bound:
        server = make_server(retriever, ServeOptions(**options), token, about)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        until(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive(), "the server did not end"


def until(true: Any, seconds: float = 10.0) -> None:
    """Wait until `true()`."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def post(url: str, body: Any, **headers: str) -> httpx.Response:
    """POST /retrieve, as JSON or as bytes."""
    content = {"content": body} if isinstance(body, bytes) else {"json": body}
    return httpx.post(f"{url}/retrieve", **content, headers=headers, timeout=20, trust_env=False)
