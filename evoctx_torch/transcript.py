"""A prompt is an ordered list of segments that only grows at its end (design, rule 3: token in, token out).

Order: head (the question and what all roles of the episode share), then passages, sub-queries and thoughts
as they arrived, then the instruction of this call. So one role's prompts share all but their last segment
from round to round, each segment is tokenized once, and a cached prefix stays valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a prompt that is tokenized as one unit.

    `source` tells whose tokens these are (prompt, policy, observation): masks come from it, never from ids.
    `ids` are set for what a model generated: it goes back as the same tokens, never through text. `logprobs` are theirs,
    natural log. `passage_id` marks what truncation may drop.
    """

    text: str
    source: str = "prompt"
    passage_id: str | None = None
    ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """Segments in order. With `chat` they are one user message in the model's chat template, after `system`
    (None: the template's own default); without it they are plain text to be continued.

    `turns` follow: what the model has written of its reply so far and what was put between (observations of a tool),
    which it goes on from in the same assistant message.
    """

    segments: tuple[Segment, ...]
    chat: bool = False
    system: str | None = None
    turns: tuple[Segment, ...] = ()

    @property
    def text(self) -> str:
        return "".join(segment.text for segment in (*self.segments, *self.turns))

    @property
    def passage_ids(self) -> tuple[str, ...]:
        """The passages in it, by id: what truncation may drop."""
        return tuple(s.passage_id for s in (*self.segments, *self.turns) if s.passage_id is not None)


class Tokens(NamedTuple):
    """A finished reply as training reads it: three lists of one length, one entry a token.

    `policy` is True where the model generated the token; `logprobs` are natural logs, 0.0 where it did not.
    """

    ids: list[int]
    policy: list[bool]
    logprobs: list[float]


def reply_tokens(turns: Iterable[Segment], encode: Callable[[Segment], Sequence[int]]) -> Tokens:
    """The tokens of `Prompt.turns`, whose observations `encode` turns into ids (PAPERS section 3: they are kept out of the loss).

    The mask comes from each segment's source and length. These are the tokens that the model saw unless truncation
    dropped passages (`Completion.dropped`). Raises `ValueError` for a policy segment without ids or log-probabilities of
    the same number: its tokens would have to be guessed from text.
    """
    ids, policy, logprobs = [], [], []
    for segment in turns:
        own = segment.source == "policy"
        if own and (segment.ids is None or segment.logprobs is None or len(segment.ids) != len(segment.logprobs)):
            raise ValueError(f"the turn {segment.text[-80:]!r} has no token ids with log-probabilities: use a backend that gives both")
        tokens = segment.ids if own else encode(segment)
        ids += tokens
        policy += [own] * len(tokens)
        logprobs += segment.logprobs if own else [0.0] * len(tokens)
    return Tokens(ids, policy, logprobs)


class OverLength(Exception):
    """The prompt does not fit its budget even without any passage."""


def truncate(prompt: Prompt, budget: int, length: Callable[[Segment], int], extra: int = 0) -> tuple[Prompt, tuple[str, ...]]:
    """Drop whole oldest passages until the prompt fits `budget` tokens; never the question or an instruction.

    `length` gives a segment's tokens, `extra` those around the segments (chat markup). Returns the prompt that
    fits and the ids of the dropped passages, oldest first. Raises `OverLength` when nothing is left to drop.
    """
    total = extra + sum(length(segment) for segment in (*prompt.segments, *prompt.turns))
    if total <= budget:
        return prompt, ()
    dropped: list[str] = []

    def kept(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
        nonlocal total
        rest: list[Segment] = []
        for segment in segments:
            if total > budget and segment.passage_id is not None:
                total -= length(segment)
                dropped.append(segment.passage_id)
            else:
                rest.append(segment)
        return tuple(rest)

    shorter = replace(prompt, segments=kept(prompt.segments), turns=kept(prompt.turns))
    if total > budget:
        raise OverLength(f"{total} tokens without any passage, the budget is {budget}")
    return shorter, tuple(dropped)


