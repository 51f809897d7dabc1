"""A generator that replies what a function says: for unit tests, and for benchmarks in which a model costs nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from evoctx_torch.generation.settings import Roles
from evoctx_torch.generation.stop import cut
from evoctx_torch.operations import Completion, Failure, Generate, Pending


@dataclass(slots=True)
class ScriptedGenerator:
    """Answers `Generate` operations with `reply(pending)`; its tokens are words (`str.split`).

    A reply that is text is treated as what a model would have gone on to write: cut before the first stop string
    (finish reason `stop`), then after `max_new_tokens` words (`length`); blank text is `empty`, anything else `eos`.
    A `Completion` or a `Failure` is passed on as it is. `requests` records everything asked, in order.
    """

    reply: Callable[[Pending], str | Failure | Completion]
    roles: Roles = field(default_factory=Roles)
    requests: list[Pending] = field(default_factory=list)

    def answer(self, pending: Sequence[Pending]) -> list[Completion | Failure]:
        """One result a row, in the order of `pending`."""
        self.requests.extend(pending)
        replies = map(self.reply, pending)
        return [self._complete(p.operation, r) if isinstance(r, str) else r for p, r in zip(pending, replies, strict=True)]

    def _complete(self, operation: Generate, written: str) -> Completion:
        prompt_tokens = len((operation.prompt.system or "").split()) + len(operation.prompt.text.split())
        text, stopped = cut(written, operation.stop)
        kept = first_words(text, self.roles.max_new_tokens(operation))
        if not kept.strip():
            reason = "empty"
        elif kept != text:
            reason = "length"
        else:
            reason = "stop" if stopped else "eos"
        return Completion(kept, reason, prompt_tokens, prompt_tokens, len(kept.split()), stopped_by=stopped if reason == "stop" else None)


def first_words(text: str, limit: int) -> str:
    """The text up to the end of its `limit`-th word, unchanged when it has no more words than that."""
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    return text if len(ends) <= limit else text[: ends[limit - 1] if limit > 0 else 0]
