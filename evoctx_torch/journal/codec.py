"""Results as rows of a table and back, bit for bit: JSON for what is read by people, packed numbers for ids and log-probabilities."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from evoctx_torch.operations import Completion, Decision, Failure, Noted, Passage, Result, Retrieved, Scored, Thought


class Row(NamedTuple):
    """A result as stored: its kind, its JSON, and its packed numbers (int32 ids, then float64 log-probabilities)."""

    kind: str
    body: str
    data: bytes | None = None


def encode(result: Result) -> Row:
    """The row of a result. The passages of a `Retrieved` are stored apart, by id (`passage_body`)."""
    match result:
        case Completion():
            body, data = _completion(result)
            return Row("completion", _json(body), data)
        case Scored(probabilities, counts, completion, majority):
            body, data = _completion(completion)
            return Row("scored", _json([probabilities, counts, majority, body]), data)
        case Retrieved(passages):
            return Row("retrieved", _json([[p.id, p.score] for p in passages]))
        case Decision():
            return Row("decision", _json([result.near, result.centroid, result.tail, result.score, result.action, result.probe, result.nearest]))
        case Noted():
            return Row("noted", "[]")
        case Failure(reason, message, dropped):
            return Row("failure", _json([reason, message, dropped]))


def decode(row: Row, passage: Callable[[str], Passage]) -> Result:
    """The result of a row; `passage(id)` gives a stored passage without its score. Raises `ValueError` for an unknown kind."""
    body = json.loads(row.body)
    match row.kind:
        case "completion":
            return _read_completion(body, row.data)
        case "scored":
            probabilities, counts, majority, completion = body
            return Scored(tuple(probabilities), tuple(counts), _read_completion(completion, row.data), tuple(majority))
        case "retrieved":
            return Retrieved(tuple(_scored(passage(name), score) for name, score in body))
        case "decision":
            return Decision(*body)
        case "noted":
            return Noted()
        case "failure":
            return Failure(body[0], body[1], tuple(body[2]))
    raise ValueError(f"unknown kind of result: {row.kind!r}")


def passage_body(passage: Passage) -> str:
    """A passage without its score, which belongs to a retrieval."""
    own: dict[str, Any] = {"doc_id": passage.doc_id, "title": passage.title, "contents": passage.contents}
    if isinstance(passage, Thought):
        own |= {"level": passage.level, "provenance": passage.provenance}
    return _json(own)


def read_passage(name: str, body: str) -> Passage:
    """The passage of `passage_body`."""
    own: Mapping[str, Any] = json.loads(body)
    plain = name, own["doc_id"], own["title"], own["contents"], None
    return Thought(*plain, own["level"], tuple(own["provenance"])) if "level" in own else Passage(*plain)


def _scored(passage: Passage, score: float | None) -> Passage:
    if isinstance(passage, Thought):
        return Thought(passage.id, passage.doc_id, passage.title, passage.contents, score, passage.level, passage.provenance)
    return Passage(passage.id, passage.doc_id, passage.title, passage.contents, score)


def _completion(c: Completion) -> tuple[list[Any], bytes | None]:
    counts = [None if c.token_ids is None else len(c.token_ids), None if c.logprobs is None else len(c.logprobs)]
    body = [c.text, c.finish_reason, c.prompt_tokens, c.computed_prompt_tokens, c.completion_tokens, c.dropped, c.pieces, c.stopped_by, *counts]
    data = array("i", c.token_ids or ()).tobytes() + array("d", c.logprobs or ()).tobytes()
    return body, data or None


def _read_completion(body: list[Any], data: bytes | None) -> Completion:
    text, reason, prompt, computed, written, dropped, pieces, stopped_by, ids, logprobs = body
    numbers, width = data or b"", array("i").itemsize * (ids or 0)
    return Completion(
        text, reason, prompt, computed, written,
        token_ids=None if ids is None else tuple(array("i", numbers[:width])),
        logprobs=None if logprobs is None else tuple(array("d", numbers[width:])),
        dropped=tuple(dropped), pieces=None if pieces is None else tuple(pieces), stopped_by=stopped_by,
    )


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))  # NaN and Infinity as Python writes and reads them; ASCII, so half a surrogate is safe
