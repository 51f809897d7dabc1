"""One long reply in turns: what the model writes, stopped at a closing tag, and what is put between (Search-R1, Search-o1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evoctx_torch.operations import Completion, Generate
from evoctx_torch.transcript import Prompt, Segment

ANSWER, INVALID = "ANSWER", "INVALID"  # actions of a turn besides RETRIEVE


def stopping_at(opening: Generate, *closing: str) -> Generate:
    """The opening call, ended by these tags whatever its template says: they are the protocol, and a user's file may be the
    plain text of a published prompt."""
    return replace(opening, stop=tuple(dict.fromkeys((*closing, *opening.stop))))


def as_written(completion: Completion, tags: Mapping[str, str]) -> str:
    """A turn's text with the stop string that ended it, which `Completion.text` leaves out. `tags`: opening tag -> closing tag.

    A server that hides its tokens seldom says which stop string it met. There the tag that stands open at the end, after any
    `</think>`, is taken for the one that was cut, unless the reply was cut for its length.
    """
    text = completion.text
    if completion.stopped_by is not None:
        return text + completion.stopped_by
    if completion.token_ids is None and completion.finish_reason != "length":
        rest = text.rpartition("</think>")[2]
        opening = max(tags, key=rest.rfind)
        if rest.rfind(opening) > rest.rfind(tags[opening]):
            return text + tags[opening]
    return text


def said(prompt: Prompt, text: str, completion: Completion, *observation: Segment) -> Prompt:
    """The prompt with a turn of the model's and, where the reply goes on, the observation after it.

    The turn keeps its tokens as generated; the last may reach past the stop string. A reply that goes on after its eos goes
    on without that token, as in Search-R1, which decodes, cuts and encodes again without special tokens; the eos is known by
    the reason that it ended the turn, never by its id. A blank turn adds nothing: its reason does not tell whether its last
    token was an eos.
    """
    ids, logprobs = completion.token_ids, completion.logprobs
    if observation and ids is not None and completion.stopped_by is None and completion.finish_reason != "length":
        kept = 0 if completion.finish_reason == "empty" else len(ids) - 1
        ids, logprobs = ids[:kept], logprobs and logprobs[:kept]
    return replace(prompt, turns=(*prompt.turns, Segment(text, "policy", ids=ids, logprobs=logprobs), *observation))


def observed(*texts: str) -> tuple[Segment, ...]:
    """An observation of plain text."""
    return tuple(Segment(text, "observation") for text in texts)
