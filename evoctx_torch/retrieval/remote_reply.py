"""What a retrieval server's reply means: lists of passages, or trouble. Bytes in, no client needed (PAPERS section 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from evoctx_torch.generation.backoff import Trouble, retry_after
from evoctx_torch.generation.openai_reply import MAY_PASS, message_of, parse, readable
from evoctx_torch.generation.openai_request import well_formed
from evoctx_torch.operations import Passage

TOKEN = "EVOCTX_RETRIEVER_TOKEN"
HINTS = {
    401: f" (is {TOKEN} set, and right for this server?)",
    403: f" (is {TOKEN} right for this server?)",
    404: " (does --retriever name the server's retrieval, often …/retrieve?)",
    405: " (does --retriever name the server's retrieval, often …/retrieve?)",
}
BUSY = frozenset({429, 503})


class ServerTrouble(Trouble):
    """Trouble that lies with the server, whatever it is asked: asking for fewer queries at once would not help."""


class Unreadable(Exception):
    """The passages of one query cannot be used; those of others can."""


def refusal(status: int, content: bytes, headers: Mapping[str, str]) -> Trouble:
    """What a reply with another status than 2xx means; it is tried again if it may pass."""
    if 300 <= status < 400:  # it could lead anywhere, and take the token along
        return ServerTrouble(f"HTTP {status}, a redirection to {headers.get('location', 'nowhere')}, which is not followed: give that address", tries=1)
    try:
        words = message_of(parse(content))
    except Trouble:
        words = ""
    message = f"HTTP {status}{HINTS.get(status, '')}: {words or readable(content)}"
    kind = ServerTrouble if status in HINTS or status in BUSY else Trouble
    if status in MAY_PASS or status >= 500:
        return kind(message, wait_s=retry_after(headers))
    return kind(message, tries=1)


def read_rows(content: bytes, queries: int) -> list[Any]:
    """The rows of a reply, one a query, not yet read. Raises `Trouble` for anything else, an HTML page among it."""
    match parse(content):
        case {"result": [*rows]} if len(rows) == queries:
            return rows
        case {"result": [*rows]}:  # nobody can tell whose passages these are
            raise Trouble(f"{len(rows)} lists of passages for {queries} queries")
    raise Trouble(f"a reply without a list of results: {readable(content)}")


def read_passages(row: Any) -> list[Passage]:
    """The passages of a row, best first. Items are `{"document": …, "score": …}`, or documents alone where a server gives no scores.

    `title` and `doc_id` default as in a corpus file: "", and the title, else the id. Raises `Unreadable`.
    """
    if not isinstance(row, list):
        raise Unreadable(f"{type(row).__name__} in place of a list of passages")
    passages = list(map(_passage, row))
    if len({p.id for p in passages}) < len(passages):
        raise Unreadable("a passage stands twice in one list")
    return passages


def _passage(item: Any) -> Passage:
    match item:
        case {"document": {**document}}:
            score = item.get("score")
        case {**document}:
            score = None
        case _:
            raise Unreadable(f"{type(item).__name__} in place of a passage")
    id, contents, title = document.get("id"), document.get("contents"), document.get("title") or ""
    if isinstance(id, int) and not isinstance(id, bool):
        id = str(id)
    if not (isinstance(id, str) and id.strip() and isinstance(contents, str) and contents.strip() and isinstance(title, str)):
        raise Unreadable(f"a passage without id and contents, its fields are {', '.join(map(str, document)) or 'none'}")
    if score is not None and (isinstance(score, bool) or not isinstance(score, (int, float)) or not math.isfinite(score)):
        raise Unreadable(f"the score {score!r}, which is no number")
    doc_id = document.get("doc_id") or title or id
    return Passage(well_formed(id), well_formed(str(doc_id)), well_formed(title), well_formed(contents), None if score is None else float(score))
