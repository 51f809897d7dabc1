"""A generator that replies what a function says: for unit tests, and for benchmarks in which a model costs nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from evoctx_torch.generation.settings import Roles
from evoctx_torch.generation.stop import cut
from evoctx_torch.operations import Completion, Failure, Generate, Pending, Score, Scored
from evoctx_torch.transcript import Prompt


@dataclass(slots=True)
class ScriptedGenerator:
    """Answers `Generate` operations with `reply(pending)`; its tokens are words (`str.split`).

    A reply that is text is treated as what a model would have gone on to write: cut before the first stop string
    (finish reason `stop`), then after `max_new_tokens` words (`length`); blank text is `empty`, anything else `eos`.
    A `Completion` or a `Failure` is passed on as it is. `score(pending)` answers `Score` operations: how many draws each
    option gets, or a `Scored` or `Failure`; draws become probabilities. `requests` records everything asked, in order.
    """

    reply: Callable[[Pending], str | Failure | Completion]
    roles: Roles = field(default_factory=Roles)
    score: Callable[[Pending], Sequence[int] | Scored | Failure] | None = None
    requests: list[Pending] = field(default_factory=list)

    def answer(self, pending: Sequence[Pending]) -> list[Completion | Scored | Failure]:
        """One result a row, in the order of `pending`. Raises `TypeError` for a `Score` without `score`."""
        self.requests.extend(pending)
        return [self._scored(p) if isinstance(p.operation, Score) else self._replied(p) for p in pending]

    def _replied(self, pending: Pending) -> Completion | Failure:
        reply = self.reply(pending)
        return self._complete(pending.operation, reply) if isinstance(reply, str) else reply

    def _scored(self, pending: Pending) -> Scored | Failure:
        if self.score is None:
            raise TypeError("this generator is asked to score, and has no function `score`")
        counts = self.score(pending)
        if isinstance(counts, (Scored, Failure)):
            return counts
        read = words(pending.operation.prompt)
        return Scored(tuple(count / sum(counts) for count in counts), tuple(counts), Completion("", "scored", read, read, 0))

    def _complete(self, operation: Generate, written: str) -> Completion:
        prompt_tokens = words(operation.prompt)
        text, stopped = cut(written, operation.stop)
        kept = first_words(text, self.roles.max_new_tokens(operation))
        if not kept.strip():
            reason = "empty"
        elif kept != text:
            reason = "length"
        else:
            reason = "stop" if stopped else "eos"
        return Completion(kept, reason, prompt_tokens, prompt_tokens, len(kept.split()), stopped_by=stopped if reason == "stop" else None)


def words(prompt: Prompt) -> int:
    """How many words a prompt has."""
    return len((prompt.system or "").split()) + len(prompt.text.split())


def first_words(text: str, limit: int) -> str:
    """The text up to the end of its `limit`-th word, unchanged when it has no more words than that."""
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    return text if len(ends) <= limit else text[: ends[limit - 1] if limit > 0 else 0]
