"""A fingerprint of an operation: what was asked, so that a result is never given back for another question."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

from evoctx_torch.operations import Decide, Generate, Operation, Recall, Remember, Retrieve, Score
from evoctx_torch.transcript import Prompt, Segment

SIZE = 16  # bytes


def digest(operation: Operation) -> bytes:
    """16 bytes (blake2b) of everything in the operation: kind, role, prompt, query, boundary, rule …

    Texts and segments that come again (passages, boundaries) are read once.
    """
    match operation:
        case Generate(role, prompt, max_new_tokens, stop, pieces):
            parts = role, max_new_tokens, stop, pieces, _prompt(prompt)
        case Score(role, prompt, options, samples, baseline):
            parts = role, options, samples, _prompt(prompt), None if baseline is None else _prompt(baseline)
        case Retrieve(query, k, exclude, refill, within):
            parts = query, k, sorted(exclude), refill, None if within is None else sorted(within)
        case Recall(query, k, depth, max_similarity, within):
            parts = query, k, depth, max_similarity, None if within is None else sorted(within)
        case Remember(thought, sources, max_similarity):
            parts = thought, sources, max_similarity
        case Decide(trace, boundary, rule):
            parts = trace, _joined(map(_text, boundary)), rule
    return blake2b(repr((type(operation).__name__, *parts)).encode("utf-8", "surrogatepass"), digest_size=SIZE).digest()


def _prompt(prompt: Prompt) -> tuple[bytes, bytes, bool, str | None]:
    return _joined(map(_segment, prompt.segments)), _joined(map(_segment, prompt.turns)), prompt.chat, prompt.system


def _joined(digests: Iterable[bytes]) -> bytes:
    return blake2b(b"".join(digests), digest_size=SIZE).digest()


@lru_cache(maxsize=1 << 16)
def _segment(segment: Segment) -> bytes:
    words = repr((segment.text, segment.source, segment.passage_id, segment.ids))
    return blake2b(words.encode("utf-8", "surrogatepass"), digest_size=SIZE).digest()


@lru_cache(maxsize=1 << 16)
def _text(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=SIZE).digest()
