"""The HTTP side: POST /retrieve, GET /health, GET /metrics."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from evoctx_torch.errors import MissingExtra
from evoctx_torch.operations import Executor, Failure, Passage
from evoctx_torch.serving.batching import Full, MicroBatcher
from evoctx_torch.serving.metrics import Metrics
from evoctx_torch.serving.options import ServeOptions
from evoctx_torch.serving.protocol import Refused, read_request, reply

try:
    from fastapi import FastAPI, Request, Response
    from starlette.requests import ClientDisconnect
except ImportError as error:
    raise MissingExtra("fastapi", "serve", "evoctx serve") from error

log = logging.getLogger(__name__)
DISCARDED = 64 << 20  # bytes of a body that is too large that are still read, so that its sender hears why


def make_app(retriever: Executor, options: ServeOptions, token: str | None = None, about: Mapping[str, Any] | None = None) -> FastAPI:
    """The application: `retriever` answers, `about` says what in GET /health, `token` guards all but that."""
    metrics = Metrics()
    batcher = MicroBatcher(retriever, options.batch_ms / 1000, options.max_batch, options.max_waiting, metrics.search)
    metrics.waiting = lambda: batcher.waiting

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with batcher:
            yield

    app = FastAPI(title="evoctx retrieval", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)

    async def passages(request: Request) -> bytes:
        check_token(request, token)
        try:
            asked = read_request(await read_body(request, options), options)
        except TimeoutError:
            raise Refused(408, f"the body was not all there after {options.body_timeout:g} s") from None
        sought = [query for query in asked.queries if query.strip()]
        try:
            found = iter(await batcher.search(sought, asked.topk))
        except Full:
            raise Refused(503, f"{options.max_waiting} queries wait already; come back later", Retry_After="1") from None
        rows: list[tuple[Passage, ...]] = []
        for number, query in enumerate(asked.queries):
            row = next(found) if query.strip() else ()  # a model may search for nothing; that finds nothing, and hurts nobody else
            if isinstance(row, Failure):
                raise Refused(500, f"query {number} (from 0): {row.message}")
            rows.append(row)
        return reply(rows, asked.scores)

    @app.post("/retrieve")
    async def retrieve(request: Request) -> Response:
        began, answer = time.perf_counter(), None
        try:
            answer = Response(await passages(request), media_type="application/json")
        except Refused as refused:
            answer = refusal(refused)
        except ClientDisconnect:
            answer = Response(status_code=499)  # nobody reads it; as other servers count it
        except Exception as error:
            log.exception("a request failed")
            answer = refusal(Refused(500, f"{type(error).__name__}; the server's log has more"))
        metrics.request(answer.status_code, time.perf_counter() - began)
        return answer

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {"status": "ok", **(about or {})}

    @app.get("/metrics")
    async def measured(request: Request) -> Response:
        try:
            check_token(request, token)
        except Refused as refused:
            return refusal(refused)
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return app


def refusal(refused: Refused) -> Response:
    """The reply to a request that gets no passages: `{"error": words}`."""
    return Response(json.dumps({"error": refused.message}), refused.status, refused.headers, "application/json")


def check_token(request: Request, token: str | None) -> None:
    """Raise `Refused` (401) unless the request carries the token; how long that takes tells nothing of it."""
    if token is None:
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    if not right or scheme.lower() != "bearer":
        raise Refused(401, "the token is missing or wrong; expected the header Authorization: Bearer TOKEN", WWW_Authenticate="Bearer")


async def read_body(request: Request, options: ServeOptions) -> bytes:
    """The body, if it is small enough. Raises `Refused` (413), and `TimeoutError`."""
    too_large = Refused(413, f"the body is larger than {options.max_body} bytes; expected at most that", Connection="close")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > max(DISCARDED, options.max_body):
        raise too_large
    parts, size = [], 0
    async with asyncio.timeout(options.body_timeout):
        async for part in request.stream():
            size += len(part)
            if size <= options.max_body:
                parts.append(part)
            elif size > max(DISCARDED, options.max_body):
                raise too_large
    if size > options.max_body:
        raise too_large
    return b"".join(parts)
