"""Requests to a retrieval server: time limits, tries, pauses, and a breaker for a server that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from evoctx_torch.errors import MissingExtra
from evoctx_torch.generation.backoff import Backoff, Trouble
from evoctx_torch.generation.openai_request import well_formed
from evoctx_torch.generation.openai_server import without_key
from evoctx_torch.operations import Pending
from evoctx_torch.retrieval.breaker import Breaker
from evoctx_torch.retrieval.remote_reply import ServerTrouble, read_rows, refusal

try:
    import httpx
except ImportError as error:
    raise MissingExtra("httpx", "serve", "--retriever") from error

REACH_S = 10.0  # seconds for a connection
IN_FLIGHT = 8  # requests under way
LARGEST = 256 << 20  # bytes of a reply
EXCERPT = 300  # characters of a server's words that go into a message


class RemoteClient:
    """Speaks Search-R1's protocol with `url`. No complete reply within `timeout_s` seconds, 408, 409, 429, 5xx and bodies that are
    no result are tried again as `backoff` says, and what fails with all its tries is told to `breaker`.

    `token` goes as Bearer and nowhere else. Proxies of the environment are used unless `loopback`; redirections are not followed.
    """

    def __init__(self, url: str, token: str, loopback: bool, timeout_s: float, backoff: Backoff, breaker: Breaker, seed: int) -> None:
        self.url, self.timeout_s, self.backoff, self.breaker, self.seed = url, timeout_s, backoff, breaker, seed
        self._token, self._places = token, asyncio.Semaphore(IN_FLIGHT)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.http = httpx.AsyncClient(headers=headers, trust_env=not loopback, follow_redirects=False,
                                      timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, REACH_S)))

    async def search(self, rows: Sequence[Pending], topk: int, tries: int | None = None) -> list[Any]:
        """The server's rows for these queries, not yet read. Raises the last `Trouble` when all tries have failed."""
        body = {"queries": [well_formed(row.operation.query) for row in rows], "topk": topk, "return_scores": True}
        failed, most = 0, tries or self.backoff.tries
        async with self._places:  # kept between tries: a server that asks for patience gets fewer requests
            while True:
                try:
                    found = read_rows(await self.send("POST", self.url, body), len(rows))
                except Trouble as trouble:
                    failed += 1
                    if trouble.tries is not None:  # it said no: it is there
                        self.breaker.succeeded()
                    if failed < min(most, trouble.tries or most) and not self.breaker.open:
                        await asyncio.sleep(self.backoff.pause(failed, trouble.wait_s, self.seed, rows[0].question_id, rows[0].number))
                        continue
                    if trouble.tries is None:
                        self.breaker.failed(self.told(trouble))
                    raise
                self.breaker.succeeded()
                return found

    async def send(self, method: str, url: str, body: Any = None) -> bytes:
        """The body of a reply with status 2xx; `Trouble` for all else. The time limit is for the whole exchange."""
        try:
            async with asyncio.timeout(self.timeout_s), self.http.stream(method, url, json=body) as reply:
                content = bytearray()
                async for piece in reply.aiter_bytes():
                    content += piece
                    if len(content) > LARGEST:
                        raise Trouble(f"a reply of more than {LARGEST} bytes", tries=1)
        except (TimeoutError, httpx.TimeoutException):
            raise ServerTrouble(f"no complete reply within {self.timeout_s:g} s") from None
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise ServerTrouble(f"no connection: {str(error) or type(error).__name__}") from None
        if reply.is_success:
            return bytes(content)
        raise refusal(reply.status_code, bytes(content), reply.headers)

    def told(self, cause: object) -> str:
        """A cause as one short line without the token, which a server may have echoed."""
        line = " ".join(without_key(well_formed(str(cause)), self._token).split())
        return line if len(line) <= EXCERPT else line[:EXCERPT] + "…"
