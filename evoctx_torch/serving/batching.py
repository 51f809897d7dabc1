"""Many clients' queries in one search: whoever comes within a few milliseconds, or while a search runs, is answered together."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from evoctx_torch.isolation import answer_each
from evoctx_torch.operations import Executor, Failure, Passage, Pending, Retrieve

log = logging.getLogger(__name__)


class Full(Exception):
    """So many queries wait that no more are taken."""


class Batches(Protocol):
    """Told of every search."""

    def __call__(self, queries: int, seconds: float) -> None: ...


class MicroBatcher:
    """Answers queries by `retriever`, in one thread, at most `max_batch` in a search.

    The first query of a batch waits `window_s` seconds for others; a search that runs longer than that gathers the next batch
    meanwhile. At most `max_waiting` queries wait. `told(queries, seconds)` hears of every search. A query's passages never
    depend on its company (`Retriever`), and a row that fails fails alone (`isolation`).
    """

    def __init__(self, retriever: Executor, window_s: float, max_batch: int, max_waiting: int, told: Batches = lambda queries, seconds: None) -> None:
        self.retriever, self.window_s, self.max_batch, self.max_waiting, self.told = retriever, window_s, max_batch, max_waiting, told
        self._waiting: deque[tuple[Retrieve, asyncio.Future[tuple[Passage, ...] | Failure]]] = deque()
        self._arrived, self._filled = asyncio.Event(), asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "evoctx-search")  # one: a model and its device are not shared between threads
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Queries that wait for a search."""
        return len(self._waiting)

    async def __aenter__(self) -> MicroBatcher:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """End; whoever still waits is cancelled. The server comes here when it has answered all requests."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for _, future in self._waiting:
            future.cancel()
        await asyncio.to_thread(self._thread.shutdown)

    async def search(self, queries: Sequence[str], topk: int) -> list[tuple[Passage, ...] | Failure]:
        """The passages of each query, best first. Raises `Full`, and then has taken none."""
        if len(self._waiting) + len(queries) > self.max_waiting:
            raise Full
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in queries]
        self._waiting.extend(zip((Retrieve(query, topk) for query in queries), futures, strict=True))
        self._arrived.set()
        if len(self._waiting) >= self.max_batch:
            self._filled.set()
        try:
            return list(await asyncio.gather(*futures))
        finally:  # a request that was given up is not searched for
            for future in futures:
                future.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            if self.window_s and len(self._waiting) < self.max_batch:
                self._filled.clear()
                try:
                    async with asyncio.timeout(self.window_s):
                        await self._filled.wait()
                except TimeoutError:
                    pass
            batch = []
            while self._waiting and len(batch) < self.max_batch:
                operation, future = self._waiting.popleft()
                if not future.cancelled():
                    batch.append((operation, future))
            if not self._waiting:
                self._arrived.clear()
            if batch:
                await self._answer(loop, batch)

    async def _answer(self, loop: asyncio.AbstractEventLoop, batch: list[tuple[Retrieve, asyncio.Future]]) -> None:
        began = loop.time()
        rows = [Pending("", number, operation) for number, (operation, _) in enumerate(batch)]
        try:
            results = await loop.run_in_executor(self._thread, answer_each, self.retriever, rows)
        except Exception as error:  # not a row's fault (an index that is damaged): these clients hear of it, the server goes on
            log.exception("a search failed")
            results = [Failure("error", f"{type(error).__name__}: {error}")] * len(rows)
        self.told(len(rows), loop.time() - began)
        for (_, future), result in zip(batch, results, strict=True):
            if not future.cancelled():
                future.set_result(result if isinstance(result, Failure) else result.passages)
