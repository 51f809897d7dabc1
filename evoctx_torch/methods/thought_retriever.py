"""Thought-Retriever (arXiv 2604.12231): answers are distilled into thoughts, which later questions find beside the passages.

T ← top-K over corpus ∪ thought memory; A ← answer(Q, T); (thought, confidence) ← distil(Q, A); a confident thought is
offered to the memory with the items it rests on. The memory tests and stores it when the wave ends. PAPERS section 4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import fmean

from evoctx_torch.evidence import Evidence, Extract, Line
from evoctx_torch.methods.base import Asking, Episode, Method, Steps
from evoctx_torch.methods.memory_options import MemoryOptions
from evoctx_torch.metrics.evidence import gold_passages, provenance_scores
from evoctx_torch.metrics.extract import split_thinking
from evoctx_torch.operations import Generate, Passage, Recall, Remember, Thought
from evoctx_torch.options import option
from evoctx_torch.trajectory import Round

MARKED = r"[\s*_]*:[\s*_]*"  # chat models print labels bold
CONFIDENCE = re.compile(rf"confidence{MARKED}([01])(?!\w|[.,]\d)", re.IGNORECASE)
THOUGHT = re.compile(rf"thought{MARKED}(.*?)(?=[\s*_]*confidence{MARKED}|\Z)", re.IGNORECASE | re.DOTALL)
OFFERED, UNSURE, UNPARSABLE, NO_ANSWER, NO_SOURCES = "offered", "unsure", "unparsable", "no_answer", "no_sources"


@dataclass(frozen=True, slots=True)
class ThoughtRetrieverOptions(MemoryOptions):
    """Options of Thought-Retriever."""

    top_k: int = option(8, "passages and thoughts shown, K", unit="items", paper="8", low=1)
    recall: int = option(5, "candidates a shown item: the diverse K are taken from recall * K", paper="5", low=1)
    diversity: float = option(0.85, "an item is shown if its cosine to none shown before exceeds this", unit="cosine", paper="0.85",
                              low=-1, high=1)
    redundancy: float = option(0.85, "a thought is stored if its cosine to all shown and all stored is below this", unit="cosine",
                               paper="0.85", low=-1, high=1)
    confidence: str = option("same-call", "who says whether an answer is worth a thought: the call that distils, or one before it",
                             paper="same-call; its code: separate", choices=("same-call", "separate"))


def thought_retriever(episode: Episode, options: ThoughtRetrieverOptions) -> Steps:
    """Recall, answer; then distil and offer the thought."""
    question, record = episode.question, episode.record
    record.bootstrap_query = question.text
    record.bootstrap = found = (
        yield Recall(question.text, options.top_k, options.recall * options.top_k, options.diversity, episode.within)).passages
    record.columns |= described(found, gold_passages(question.metadata))
    episode.evidence.add_passages(found)
    yield from episode.observe(found)
    episode.evidence.items += map(Extract, episode.extracts)
    answer = yield episode.generate("generator", "answer")
    if not options.freeze_memory:
        sources = tuple(passage.id for passage in found if passage.id not in answer.dropped)
        outcome, thought = yield from distilled(episode, split_thinking(answer.text)[1].strip(), options.confidence, sources)
        if outcome == OFFERED:
            yield Remember(thought, sources, options.redundancy)
        record.rounds.append(Round(notes={"thought": thought, "thought_outcome": outcome, "thought_sources": list(sources)}))
        record.columns["thought"] = outcome
    return answer


def distilled(episode: Episode, answer: str, confidence: str, sources: tuple[str, ...]) -> Asking[tuple[str, str]]:
    """(what became of it, the thought) of question and answer; without an answer or anything it rests on nobody is asked."""
    if not answer or not sources:
        return (NO_SOURCES if answer else NO_ANSWER), ""
    pair = Evidence(episode.question.text, [Line(f"Proposed answer: {answer}")])
    if confidence == "separate":
        sure = said_confidence((yield from said(episode.generate("generator", "confidence", pair))))
        if sure != 1:
            return (UNPARSABLE if sure is None else UNSURE), ""
        reply = yield from said(episode.generate("generator", "distil_thought", pair))
    else:
        reply = yield from said(episode.generate("generator", "distil", pair))
        sure = said_confidence(reply)
    thought = said_thought(reply)
    if sure is None or not thought:
        return UNPARSABLE, thought
    return (OFFERED if sure else UNSURE), thought


def said(asked: Generate) -> Asking[str]:
    """The reply; one that continues a plain text begins with the prompt's last line (`Thought:`), which it goes on from."""
    reply = (yield asked).text
    return reply if asked.prompt.chat else asked.prompt.text.rpartition("\n")[2] + reply


def said_confidence(reply: str) -> int | None:
    """The number after the first `Confidence:` after any thinking; None where it is not 0 or 1."""
    found = CONFIDENCE.search(split_thinking(reply)[1])
    return int(found[1]) if found else None


def said_thought(reply: str) -> str:
    """What stands after the first `Thought:` up to `Confidence:`, on one line; empty where there is none."""
    found = THOUGHT.search(split_thinking(reply)[1])
    return " ".join(found[1].split()) if found else ""


def described(found: tuple[Passage, ...], gold: tuple[str, ...]) -> dict[str, float | None]:
    """The columns of what was recalled: its mean abstraction, and how its raw passages meet the gold ones (docs/metrics.md)."""
    under = [id for item in found for id in (item.provenance if isinstance(item, Thought) else (item.id,))]
    precision, recall = provenance_scores(under, gold)
    level = fmean(item.level if isinstance(item, Thought) else 1.0 for item in found) if found else None
    return {"abstraction": level, "thoughts_recalled": sum(isinstance(item, Thought) for item in found),
            "provenance_precision": precision, "provenance_recall": recall}


THOUGHT_RETRIEVER = Method(
    "thought-retriever", "finds passages and thoughts distilled from earlier answers", "arXiv 2604.12231", ThoughtRetrieverOptions,
    thought_retriever, instructions=("answer", "distil", "confidence", "distil_thought"), head="thought_head", remembers=True)
