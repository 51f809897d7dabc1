"""The Search-R1 protocol (PAPERS section 3) in bytes: what a request must be, and what a reply is.

    {"queries": [text, …], "topk": 3, "return_scores": true}  ->  {"result": [[{"document": {"id", "contents", …}, "score": s}, …], …]}

Without `return_scores` the inner items are the documents themselves. `topk` and `return_scores` may be absent or null, as in
the original server; what else stands in a request is ignored, as there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evoctx_torch.operations import Passage
from evoctx_torch.serving.options import ServeOptions

TOPK = 3  # where a request names none
SHOWN = 80  # characters of a client's value in a message


class Refused(Exception):
    """A request that gets no passages: the HTTP status, what was expected and what came, and headers of the reply."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, {name.replace("_", "-"): value for name, value in headers.items()}


@dataclass(frozen=True, slots=True)
class Request:
    """A request within the limits. Blank queries are allowed: they find nothing."""

    queries: tuple[str, ...]
    topk: int = TOPK
    scores: bool = False


def read_request(body: bytes, limits: ServeOptions) -> Request:
    """The request in a body. Raises `Refused`: 400 no JSON object, 413 more than the limits allow, 422 wrong types or values."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        words = str(error) if isinstance(error, json.JSONDecodeError) else type(error).__name__
        raise Refused(400, f"the body is no JSON ({words}); expected an object like {{\"queries\": [\"text\"], \"topk\": 3}}, got {_shown(body)}") from None
    if not isinstance(given, dict):
        raise Refused(400, f"the body is {_kind(given)}; expected an object with queries")
    queries, topk, scores = given.get("queries"), given.get("topk"), given.get("return_scores")
    if not isinstance(queries, list):
        raise Refused(422, f"queries is {_kind(queries) if 'queries' in given else 'missing'}; expected a list of texts")
    for number, query in enumerate(queries):
        if not isinstance(query, str):
            raise Refused(422, f"query {number} (from 0) is {_kind(query)}; expected a text")
    topk, scores = TOPK if topk is None else topk, False if scores is None else scores
    if not isinstance(topk, int) or isinstance(topk, bool) or not 1 <= topk <= limits.max_topk:
        raise Refused(422, f"topk is {_kind(topk)}; expected a whole number from 1 to {limits.max_topk}")
    if not isinstance(scores, bool):
        raise Refused(422, f"return_scores is {_kind(scores)}; expected true or false")
    if len(queries) > limits.max_queries:
        raise Refused(413, f"{len(queries)} queries; expected at most {limits.max_queries} in one request")
    if len(queries) * topk > limits.max_passages:
        raise Refused(413, f"{len(queries)} queries with topk {topk} would bring {len(queries) * topk} passages; expected at most "
                           f"{limits.max_passages} in one reply: send fewer queries at once")
    for number, query in enumerate(queries):
        if len(query) > limits.max_query_chars:
            raise Refused(413, f"query {number} (from 0) has {len(query)} characters; expected at most {limits.max_query_chars}")
        if not query.isascii() and any("\ud800" <= c <= "\udfff" for c in query):
            raise Refused(422, f"query {number} (from 0) holds half of a surrogate pair; expected text that UTF-8 can write")
    return Request(tuple(queries), topk, scores)


def reply(found: Sequence[Sequence[Passage]], scores: bool) -> bytes:
    """The body of a reply: a list of passages for each query, best first."""
    return json.dumps({"result": [[item(passage, scores) for passage in row] for row in found]}, ensure_ascii=False).encode()


def item(passage: Passage, scores: bool) -> dict[str, Any]:
    """A passage as the protocol shows it. `title` and `doc_id` are ours: other clients do not look at them."""
    document = {"id": passage.id, "contents": passage.contents, "title": passage.title, "doc_id": passage.doc_id}
    return {"document": document, "score": passage.score} if scores else document


def _kind(value: Any) -> str:
    """A client's value in a few words."""
    match value:
        case list():
            return "a list"
        case dict():
            return "an object"
    return _shown(json.dumps(value))


def _shown(value: str | bytes) -> str:
    text = value[: SHOWN + 1] if isinstance(value, str) else repr(value[: SHOWN + 1].decode("utf-8", "replace"))
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
