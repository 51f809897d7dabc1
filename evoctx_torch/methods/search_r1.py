"""Search-R1 (arXiv 2503.09516; loop as in arXiv 2603.12396): the model searches and answers by writing tags. PAPERS section 3.

One reply, token in, token out: the model writes up to `</search>` or `</answer>`; a search's passages are put after it
between `<information>` tags, and the model goes on in the same message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evoctx_torch.methods.base import Episode, Method, Steps
from evoctx_torch.methods.turns import ANSWER, INVALID, as_written, observed, said, stopping_at
from evoctx_torch.operations import RETRIEVE, Passage
from evoctx_torch.options import option
from evoctx_torch.trajectory import Round
from evoctx_torch.transcript import Segment

TAGS = {"<search>": "</search>", "<answer>": "</answer>"}
ACTION = re.compile(r"<(search|answer)>(.*?)</\1>", re.DOTALL)
TRY_AGAIN = ("\nThat was no valid action. A search is written <search>what to look for</search>, the final answer <answer>the answer</answer>. "
             "Go on with one of the two.\n")


@dataclass(frozen=True, slots=True)
class SearchR1Options:
    """Options of Search-R1. The length of a turn is the generator's `--max-new-tokens`, 500 by default."""

    max_turns: int = option(4, "turns that may search, before a last one that may not", unit="turns", paper="4", low=0)
    top_k: int = option(3, "passages a search brings", unit="passages", paper="3", low=1)


def search_r1(episode: Episode, options: SearchR1Options) -> Steps:
    """Turn after turn until one answers: a search is done, anything else called invalid. The last turn can only answer."""
    record, opening = episode.record, stopping_at(episode.generate("generator", "search_r1"), *TAGS.values())
    record.transcript, record.prediction, record.columns["turns"] = opening.prompt, "", 1
    for left in range(options.max_turns, -1, -1):
        completion = yield replace(opening, prompt=record.transcript)
        text = as_written(completion, TAGS)
        action, content = first_action(text)
        step = Round(text, action=action)
        record.rounds.append(step)
        if action == ANSWER or not left:
            break
        record.columns["turns"] += 1
        if action == RETRIEVE:
            step.query = content
            step.passages = yield from episode.retrieve(content, options.top_k)
            seen = information(step.passages, episode.extracts)
        else:
            seen = observed(TRY_AGAIN)
        record.transcript = said(record.transcript, text, completion, *seen)
    record.transcript = said(record.transcript, text, completion)
    if action == ANSWER:
        record.prediction = content
    elif action == RETRIEVE:  # it would have gone on searching
        step.action, step.notes["ignored_search"], record.finish_reason = INVALID, content, "max_turns"
    else:
        record.finish_reason = "no_answer"
    return completion


def first_action(text: str) -> tuple[str, str]:
    """(action, what stands in its tag) of a turn, by the first tag that is opened and closed.

    A blank search is invalid, since nothing can be looked for; a blank answer is an answer.
    """
    found = ACTION.search(text)
    tag, content = (found[1], found[2].strip()) if found else ("", "")
    if tag == "answer":
        return ANSWER, content
    return (RETRIEVE, content) if content else (INVALID, "")


def information(passages: Sequence[Passage], extracts: Sequence[str]) -> tuple[Segment, ...]:
    """The observation of a search: the new passages, each a segment of its own, then the contextualizer's whole cache."""
    lines = [Segment(document(i, passage), "observation", passage.id) for i, passage in enumerate(passages, 1)]
    lines += observed(*([] if passages else ["No further passage was found."]), *(f"\nNote: {extract}" for extract in extracts))
    return (*observed("\n\n<information>"), *lines, *observed("</information>\n\n"))


def document(number: int, passage: Passage) -> str:
    """One passage on a line of its own, as the published checkpoints know it; its title is the first line of its contents."""
    title, _, text = passage.contents.partition("\n")
    return f"{'' if number == 1 else chr(10)}Doc {number}(Title: {title}) {text}"


SEARCH_R1 = Method("search-r1", "one reply in turns: <search> brings passages, <answer> ends", "arXiv 2503.09516, 2603.12396",
                   SearchR1Options, search_r1, instructions=("search_r1",), head="no_head",
                   defaults={"generator": {"max_new_tokens": 500}})
