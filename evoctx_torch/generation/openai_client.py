"""Generation by any server that speaks OpenAI's HTTP interface (vLLM, SGLang, llama.cpp, TGI, the hosted ones)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self

from evoctx_torch.errors import MissingExtra, UsageError
from evoctx_torch.generation.background import BackgroundLoop
from evoctx_torch.generation.backoff import Backoff, Trouble
from evoctx_torch.generation.openai_reply import TooLong, parse, read_completion, refusal
from evoctx_torch.generation.openai_request import check_api, fitted, messages, request_body, well_formed
from evoctx_torch.generation.openai_server import api_key, check_url, is_loopback, without_key
from evoctx_torch.generation.settings import Roles
from evoctx_torch.operations import Completion, Failure, Pending, Score
from evoctx_torch.transcript import OverLength

try:
    import openai
except ImportError as error:
    raise MissingExtra("openai", "openai", "--backend openai") from error

log = logging.getLogger(__name__)

REACH_S = 10.0  # seconds for a connection, and for GET /models
EXCERPT = 300  # characters of a server's words that go into a message


class OpenAIGenerator:
    """Answers `Generate` operations with one request each, at most `max_in_flight` of them under way.

    `model` is the server's name for it, `base_url` the root of its interface (often `…/v1`). A prompt goes to the
    chat endpoint as an optional system message and one user message, to the completions endpoint as plain text. Sent
    always: temperature, token limit, the row's seed, stop strings if any; `top_p` when it is not 1. Nothing is
    streamed. Token counts are the server's; token ids are None, log-probabilities too unless the operation asks for `pieces`.

    Connection errors, no complete reply within `timeout_s` seconds, 408, 409, 429, 5xx and unusable bodies are tried
    again, at most `max_tries` times in all, after pauses that double from `first_pause_s` seconds (see `Backoff`);
    then that row alone is `Failure("error")`, with a message that names row and cause and never holds the key. Any
    other refusal is not tried again; one for the prompt's length is `Failure("over_length")`.

    With `context_length` (tokens) the oldest passages are dropped before sending, by an estimate (`estimated_tokens`);
    without it the server's own limit decides. The key is OPENAI_API_KEY, from the environment only.

    Raises `UsageError` for an impossible argument.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        roles: Roles,
        seed: int,
        api: str = "chat",
        max_in_flight: int = 32,
        timeout_s: float = 600.0,
        max_tries: int = 4,
        first_pause_s: float = 0.25,
        context_length: int | None = None,
    ) -> None:
        host = check_url(base_url)
        check_api(api)
        if max_in_flight < 1 or max_tries < 1:
            raise UsageError(f"max_in_flight is {max_in_flight}, max_tries is {max_tries}; expected at least 1 of each")
        self.model, self.base_url, self.roles, self.seed, self.api = model, base_url, roles, seed, api
        self.timeout_s, self.context_length = timeout_s, context_length
        self._backoff = Backoff(max_tries, first_pause_s)
        # OpenAI's own chat models refuse the older name, most other servers know no other
        self._limit = "max_completion_tokens" if api == "chat" and host.endswith("openai.com") else "max_tokens"
        self._key = api_key()
        self._client = openai.AsyncOpenAI(
            api_key=self._key or "EMPTY",  # the library wants one, servers without a key ignore it
            base_url=base_url,
            max_retries=0,  # retried here: keyed, bounded, and for bodies that the library takes for good
            timeout=openai.Timeout(timeout_s, connect=min(timeout_s, REACH_S)),
            http_client=openai.DefaultAsyncHttpxClient(trust_env=not is_loopback(host)),  # no proxy stands before loopback
        )
        self._places = asyncio.Semaphore(max_in_flight)
        self._loop = BackgroundLoop()

    def answer(self, pending: Sequence[Pending]) -> list[Completion | Failure]:
        """One result a row, in the order of `pending`. Raises `UsageError` for a chat prompt at the completions endpoint."""
        for p in pending:
            if isinstance(p.operation, Score):
                raise UsageError(f"{self.base_url} cannot score votes: a server does not show its logits; use a model in this process (--backend hf)")
            check_api(self.api, p.operation.prompt.chat)
        return self._loop.run(self._rows(pending))

    def check_reachable(self) -> None:
        """GET /models and nothing else: `UsageError` unless a list comes back, a warning if the model is not in it."""
        expected = "expected a running OpenAI-compatible server that answers GET /models"
        try:
            body = parse(self._loop.run(self._send(self._client.models.with_raw_response.list, min(self.timeout_s, REACH_S))))
        except Trouble as trouble:
            raise UsageError(f"--base-url {self.base_url}: {self._told(trouble)}; {expected}") from None
        match body:
            case {"data": [*models]}:
                names = [m["id"] for m in models if isinstance(m, dict) and isinstance(m.get("id"), str)]
            case _:
                raise UsageError(f"--base-url {self.base_url}: no list of models; {expected}")
        if self.model not in names:  # no error: some servers hide names or load models on demand
            log.warning("%s does not list the model %r, only: %s", self.base_url, self.model, self._told(", ".join(names) or "none"))

    def close(self) -> None:
        """Close all connections and end the thread; a second call does nothing."""
        if not self._client.is_closed():
            self._loop.run(self._client.close())
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _rows(self, pending: Sequence[Pending]) -> list[Completion | Failure]:
        return await asyncio.gather(*map(self._row, pending))

    async def _row(self, p: Pending) -> Completion | Failure:
        where = f"question {p.question_id!r}, call {p.number} ({p.operation.role}) to {self.base_url}"
        try:
            prompt, dropped = fitted(p.operation, self.roles, self.context_length)
        except OverLength as error:
            return Failure("over_length", f"{where}: {error}", p.operation.prompt.passage_ids)
        body = request_body(p, self.roles, self.seed, self.model, self._limit)
        if self.api == "chat":
            endpoint, body["messages"] = self._client.chat.completions, messages(prompt)
        else:
            endpoint, body["prompt"] = self._client.completions, well_formed(prompt.text)
        if p.operation.pieces:
            body["logprobs"] = True if self.api == "chat" else 1
        failed = 0
        async with self._places:  # kept between tries: a server that asks for patience gets fewer requests
            while True:
                try:
                    content = await self._send(lambda: endpoint.with_raw_response.create(**body), self.timeout_s)
                    return read_completion(content, p.operation.stop, dropped, p.operation.pieces)
                except TooLong as error:
                    return Failure("over_length", f"{where}: {self._told(error)}", dropped)
                except Trouble as trouble:
                    failed += 1
                    if failed >= min(self._backoff.tries, trouble.tries or self._backoff.tries):
                        return Failure("error", f"{where}, {failed} of {self._backoff.tries} tries: {self._told(trouble)}", dropped)
                    await asyncio.sleep(self._backoff.pause(failed, trouble.wait_s, self.seed, p.question_id, p.number))

    async def _send(self, call: Callable[[], Awaitable[Any]], timeout_s: float) -> bytes:
        """The body of a reply with status 2xx; `TooLong` or `Trouble` for all else. `timeout_s` is for the whole exchange."""
        try:
            async with asyncio.timeout(timeout_s):
                return (await call()).content
        except (TimeoutError, openai.APITimeoutError):
            raise Trouble(f"no reply within {timeout_s:g} s") from None
        except openai.APIConnectionError as error:
            raise Trouble(f"no connection: {error.__cause__ or error}") from None
        except openai.APIStatusError as error:
            raise refusal(error.status_code, error.response.content, error.response.headers) from None

    def _told(self, cause: object) -> str:
        """A cause as one short line without the key, which a server may have echoed."""
        line = " ".join(without_key(well_formed(str(cause)), self._key).split())
        return line if len(line) <= EXCERPT else line[:EXCERPT] + "…"
