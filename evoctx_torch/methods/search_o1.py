r"""Search-o1 (arXiv 2501.05366): searches inside long reasoning, whose documents a second call condenses first.

The model reasons in one long reply. Where it writes `<|begin_search_query|>…<|end_search_query|>` it is stopped; a reader
condenses what the search brought in view of the reasoning so far (reason-in-documents), and only that goes into the reply.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from evoctx_torch.evidence import Evidence, Extract, Line, SubQuery
from evoctx_torch.methods.base import Asking, Episode, Method, Steps
from evoctx_torch.methods.turns import ANSWER, INVALID, as_written, observed, said, stopping_at
from evoctx_torch.metrics.extract import extract, split_thinking
from evoctx_torch.operations import RETRIEVE
from evoctx_torch.options import option
from evoctx_torch.trajectory import Round
from evoctx_torch.transcript import Prompt

QUERY, END_QUERY = "<|begin_search_query|>", "<|end_search_query|>"
RESULT, END_RESULT = "<|begin_search_result|>", "<|end_search_result|>"
BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
PLAIN = re.compile(r"\\(?:text|textbf|mathrm)\{(.*)\}", re.DOTALL)
NO_QUERY = f"No query stands before this. A search is written {QUERY}what to look for{END_QUERY}."
LIMIT = "The limit of searches is reached: no further search is possible. Go on with what is known."
REPEATED = "This was searched before. What it brought stands above."
NOTHING = "Nothing helpful was found."
LAST_STEPS = 4  # steps of the reasoning so far that the reader sees besides the first and those with searches


@dataclass(frozen=True, slots=True)
class SearchO1Options:
    """Options of Search-o1; the defaults are those of its public code for multi-hop questions."""

    max_turns: int = option(15, "calls that write the reply", unit="calls", paper="15", low=1)
    max_searches: int = option(10, "searches of a question", unit="searches", paper="10; 5 for single-hop questions", low=0)
    top_k: int = option(10, "passages a search brings", unit="passages", paper="10", low=1)


def search_o1(episode: Episode, options: SearchO1Options) -> Steps:
    """Reason; at each query search, condense and go on; the reply ends where a turn ends without a query."""
    record, opening = episode.record, stopping_at(episode.generate("generator", "search_o1"), END_QUERY)
    record.transcript, record.prediction = opening.prompt, ""
    searched: set[str] = set()
    for _ in range(options.max_turns):
        completion = yield replace(opening, prompt=record.transcript)
        text = as_written(completion, {QUERY: END_QUERY})
        step = Round(text, action=INVALID)
        record.rounds.append(step)
        ended = not text.endswith(END_QUERY)
        if ended:
            record.transcript = said(record.transcript, text, completion)
            break
        step.query = text.removesuffix(END_QUERY).rpartition(QUERY)[2].strip() if QUERY in text else ""
        if refusal := refused(step.query, searched, options.max_searches):
            step.notes["refused"] = refusal
            found = f"\n{RESULT}\n{refusal}\n{END_RESULT}\n"
        else:
            searched.add(step.query)
            condensed = yield from search(episode, step, options.top_k)
            found = f"\n\n{RESULT}{condensed}{END_RESULT}\n\n"
        record.transcript = said(record.transcript, text, completion, *observed(found))
    whole = ended and completion.finish_reason != "length"
    record.prediction = final_answer(record.transcript, completion.text if whole else "")
    if not ended:
        record.finish_reason = "max_turns"
    elif record.prediction:
        step.action = ANSWER
    elif not whole:
        record.finish_reason = "no_answer"
    return completion


def refused(query: str, searched: set[str], limit: int) -> str:
    """Why a query is not searched; "" where it is."""
    if not query:
        return NO_QUERY
    if len(searched) >= limit:
        return LIMIT
    return REPEATED if query in searched else ""


def search(episode: Episode, step: Round, k: int) -> Asking[str]:
    """Retrieve for the step's query and condense what came, in view of the reasoning before it."""
    step.action = RETRIEVE
    step.passages = yield from episode.retrieve(step.query, k)
    if not step.passages:
        return NOTHING
    reasoning = Line("Reasoning so far:\n" + outline("".join(s.text for s in episode.record.transcript.turns) + step.trace))
    known = Evidence(episode.question.text, [reasoning, *step.passages, *map(Extract, episode.extracts), SubQuery(step.query)])
    _, condensed = split_thinking((yield episode.generate("reader", "search_o1_read", known)).text)
    step.notes["condensed"] = condensed.strip() or NOTHING
    return step.notes["condensed"]


def outline(reasoning: str) -> str:
    """The reasoning with its middle left out: its first step, its last ones and those with searches; a step is a line."""
    steps = [line for line in reasoning.splitlines() if line.strip()]
    kept = [i for i, line in enumerate(steps) if i == 0 or i >= len(steps) - LAST_STEPS or QUERY in line or RESULT in line]
    return "\n".join(("...\n" if i - before > 1 else "") + steps[i] for before, i in zip([-1, *kept], kept, strict=False))


def final_answer(prompt: Prompt, ending: str) -> str:
    r"""The last `\boxed{…}` that the model wrote in its reply; without one the last line of `ending`, outside its thinking."""
    boxes = [box for segment in prompt.turns if segment.source == "policy" for box in BOXED.findall(segment.text)]
    if boxes:
        plain = PLAIN.fullmatch(boxes[-1].strip())
        return (plain[1] if plain else boxes[-1]).strip()
    lines = split_thinking(ending)[1].strip().splitlines()
    return extract(lines[-1]) if lines else ""


SEARCH_O1 = Method("search-o1", "searches inside long reasoning, documents condensed by a second call", "arXiv 2501.05366",
                   SearchO1Options, search_o1, roles=("generator", "reader"), instructions=("search_o1", "search_o1_read"),
                   head="no_head", defaults={"generator": {"max_new_tokens": 1024}})
