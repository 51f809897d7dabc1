"""Retrieval by a server that speaks Search-R1's protocol: `evoctx serve`, Search-R1's own, and others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

from evoctx_torch.errors import UsageError
from evoctx_torch.generation.background import BackgroundLoop
from evoctx_torch.generation.backoff import Backoff, Trouble
from evoctx_torch.generation.openai_reply import parse
from evoctx_torch.generation.openai_server import api_key, check_url, is_loopback
from evoctx_torch.operations import Failure, Passage, Pending, Retrieve, Retrieved
from evoctx_torch.retrieval.breaker import Breaker
from evoctx_torch.retrieval.remote_client import RemoteClient
from evoctx_torch.retrieval.remote_reply import TOKEN, ServerTrouble, Unreadable, read_passages, read_rows

TOGETHER = 64  # queries of one request

Found = list[Passage] | Failure


class RemoteRetriever:
    """Answers `Retrieve` from the server at `url`; without a path there, `/retrieve` is asked.

    Queries of one depth go out together, at most 64 a request. A request that fails with all its `max_tries` (`RemoteClient`) is
    made again in halves, so that a query that a server cannot take fails alone; where the server is gone or refuses everybody,
    its rows fail with the reason. Three such requests in a row open a `Breaker`: a call then waits until one request may be
    sent, and that one decides for all rows of the call.

    `exclude` with refill asks for k passages and one more for every excluded document, then for twice as many while too few
    unseen ones came, until the server has no more. `within` cannot be asked for: such a row fails. The token is
    EVOCTX_RETRIEVER_TOKEN, from the environment only.

    Raises `UsageError` for an impossible address or token.
    """

    def __init__(
        self, url: str, timeout_s: float = 30.0, max_tries: int = 4, first_pause_s: float = 0.25, seed: int = 0, breaker: Breaker | None = None,
    ) -> None:
        host = check_url(url, "--retriever", "http://127.0.0.1:8000", TOKEN)
        self.url = url if urlsplit(url).path.strip("/") else urljoin(url, "/retrieve")
        self.passages: int | None = None  # how many there are, and the most a query may ask for, where the server says so
        self.max_topk: int | None = None
        self.breaker = breaker or Breaker()
        self._client = RemoteClient(self.url, api_key(TOKEN), is_loopback(host), timeout_s, Backoff(max_tries, first_pause_s), self.breaker, seed)
        self._loop = BackgroundLoop()

    def answer(self, pending: Sequence[Pending]) -> list[Retrieved | Failure]:
        """One result a row, in the order of `pending`."""
        return self._loop.run(self._answer(pending))

    def check_reachable(self, k: int = 1) -> None:
        """Search once, and ask what is served. Raises `UsageError` unless passages come back, and `k` may be asked for."""
        try:
            content = self._loop.run(self._client.send("POST", self.url, {"queries": ["test"], "topk": 1, "return_scores": True}))
            read_passages(read_rows(content, 1)[0])
        except (Trouble, Unreadable) as trouble:
            raise UsageError(f"--retriever {self.url}: {self._client.told(trouble)}; expected a running server with Search-R1's protocol, "
                             "for instance `evoctx serve --index DIR`") from None
        try:
            about = parse(self._loop.run(self._client.send("GET", urljoin(self.url, "health"))))
        except Trouble:  # another server, which need not say
            return
        if isinstance(about, dict):
            self.passages, self.max_topk = (n if isinstance(n := about.get(key), int) and n > 0 else None for key in ("passages", "max_topk"))
        for most, words in ((self.passages, "has only {} passages"), (self.max_topk, "gives at most {} passages a query")):
            if most is not None and most < k:
                raise UsageError(f"--top-k is {k}, and --retriever {self.url} {words.format(most)}")

    def close(self) -> None:
        """Close all connections and end the thread; a second call does nothing."""
        if not self._client.http.is_closed:
            self._loop.run(self._client.http.aclose())
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _answer(self, pending: Sequence[Pending]) -> list[Retrieved | Failure]:
        results = [unanswerable(p.operation) for p in pending]
        todo = {row: self._allowed(p.operation, depth(p.operation)) for row, p in enumerate(pending) if results[row] is None}
        while todo:
            found, deeper = await self._search(pending, todo), {}
            for row, passages in found.items():
                operation, asked = pending[row].operation, todo[row]
                if isinstance(passages, Failure):
                    results[row] = passages
                    continue
                unseen = [p for p in passages if p.doc_id not in operation.exclude]
                if not operation.refill or len(unseen) >= operation.k or len(passages) < asked:
                    results[row] = Retrieved(tuple(unseen[: operation.k]))
                elif (deeper_yet := self._allowed(operation, 2 * asked)) > asked:
                    deeper[row] = deeper_yet
                else:
                    results[row] = self._failure(pending[row], f"the server gives at most {asked} passages a query, and only {len(unseen)} of "
                                                               f"them are of documents not seen before; {operation.k} were asked for")
            todo = deeper
        return results

    def _allowed(self, operation: Retrieve, asked: int) -> int:
        return asked if self.max_topk is None else max(operation.k, min(asked, self.max_topk))

    async def _search(self, pending: Sequence[Pending], todo: Mapping[int, int]) -> dict[int, Found]:
        """What the server has for each row at the depth that `todo` says; rows of one depth are asked for together."""
        by_depth: dict[int, list[int]] = {}
        for row, asked in todo.items():
            by_depth.setdefault(asked, []).append(row)
        parts = [(asked, rows[i : i + TOGETHER]) for asked, rows in by_depth.items() for i in range(0, len(rows), TOGETHER)]
        found: dict[int, Found] = {}
        if self.breaker.open:
            await asyncio.sleep(self.breaker.wait_s)
            found = await self._part(pending, *parts.pop(0), tries=1)
        for part in await asyncio.gather(*(self._part(pending, *part) for part in parts)):
            found |= part
        return found

    async def _part(self, pending: Sequence[Pending], asked: int, rows: list[int], tries: int | None = None) -> dict[int, Found]:
        """The passages of these rows; `tries` is for the one request of an open breaker."""
        if self.breaker.open and tries is None:
            return {row: self._failure(pending[row], f"not asked, the server has been failing: {self.breaker.reason}") for row in rows}
        try:
            contents = await self._client.search([pending[row] for row in rows], asked, tries)
        except Trouble as trouble:
            if isinstance(trouble, ServerTrouble) or len(rows) == 1 or self.breaker.open:
                return {row: self._failure(pending[row], trouble) for row in rows}
            half = len(rows) // 2
            first, second = await asyncio.gather(self._part(pending, asked, rows[:half]), self._part(pending, asked, rows[half:]))
            return first | second
        return {row: self._read(pending[row], content, asked) for row, content in zip(rows, contents, strict=True)}

    def _read(self, p: Pending, content: Any, asked: int) -> Found:
        try:
            passages = read_passages(content)
        except Unreadable as error:
            return self._failure(p, error)
        # Where it is not known how many passages there are, a few that were asked for because of the excluded may be missing.
        expected = p.operation.k if self.passages is None else min(asked, self.passages)
        if len(passages) < expected:
            of = "" if self.passages is None else f" of {self.passages}"
            return self._failure(p, f"too few: {len(passages)} passages came where {asked}{of} were asked for")
        return passages[:asked]

    def _failure(self, p: Pending, why: object) -> Failure:
        return Failure("error", f"question {p.question_id!r}, call {p.number} (retrieval) to {self.url}: {self._client.told(why)}")


def depth(operation: Retrieve) -> int:
    """How many passages are asked for first: most documents have one."""
    return operation.k + (len(operation.exclude) if operation.refill else 0)


def unanswerable(operation: Retrieve) -> Failure | None:
    """The failure of a row that no server needs to be asked about."""
    if operation.within is not None:
        return Failure("error", "a retrieval server cannot restrict a search to a question's own documents: use --index or --corpus")
    if not operation.query.strip():
        return Failure("error", "the retrieval query is blank: nothing can be searched for")
    if operation.k < 1:
        return Failure("error", f"retrieval asks for k = {operation.k} passages; expected at least 1")
    return None
