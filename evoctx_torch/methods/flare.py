"""FLARE (arXiv 2305.06983, section 3.2, FLARE-direct): retrieve when the sentence that comes next is uncertain.

Draft the next sentence. Where any of its tokens has a probability below θ, retrieve with the sentence, its tokens below
β left out, and write the sentence anew from what came; else the draft stands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import accumulate

from evoctx_torch.evidence import Evidence
from evoctx_torch.methods.base import Episode, Method, Steps
from evoctx_torch.methods.chain import answer_in, first_sentence, joined, sentence_span
from evoctx_torch.operations import RETRIEVE, THINK, Completion
from evoctx_torch.options import option
from evoctx_torch.trajectory import Round


@dataclass(frozen=True, slots=True)
class FlareOptions:
    """Options of FLARE; the paper's values are those of 2WikiMultihopQA."""

    rounds: int = option(8, "sentences at most", unit="sentences", paper="open", low=1)
    top_k: int = option(2, "passages a retrieval brings", unit="passages", paper="2", low=1)
    theta: float = option(0.8, "retrieve when a token is less probable than this, θ", unit="probability", paper="0.8", low=0, high=1)
    beta: float = option(0.4, "leave less probable tokens out of the query, β", unit="probability", paper="0.4", low=0, high=1)
    drafts: str = option("closed", "a draft is written from no passages (closed), or from the newest ones, the question's first (newest)",
                         paper="closed (section 3.2.1); newest in the authors' configuration", choices=("closed", "newest"))


def flare(episode: Episode, options: FlareOptions) -> Steps:
    """At most T sentences, two calls and one retrieval each; then, if none said what the answer is, one call more."""
    record, question, chain = episode.record, episode.question.text, ""
    ending, shown = "max_turns", Evidence(question)
    if options.drafts == "newest":
        shown = episode.newest((yield from episode.bootstrap(question, options.top_k)))
    for _ in range(options.rounds):
        completion = yield replace(episode.generate("generator", "chain", shown, chain=chain), pieces=True)
        sentence, tokens = drafted(completion)
        if sentence:
            step = Round(sentence, action=THINK, notes={"draft": sentence, "least_probability": min(p for _, p in tokens)})
            record.rounds.append(step)
            if step.notes["least_probability"] < options.theta:
                step.action, step.query = RETRIEVE, masked(tokens, options.beta) or sentence
                step.passages = yield from episode.gather(step.query, options.top_k)
                newest = episode.newest(step.passages)
                completion = yield episode.generate("generator", "chain", newest, chain=chain)
                step.trace = sentence = first_sentence(completion.text)
                shown = newest if options.drafts == "newest" else shown
        if not sentence:  # the model has nothing more to say
            ending = "no_answer"
            break
        chain = joined(chain, sentence)
        if (said := answer_in(sentence)) is not None:
            record.prediction = said
            return completion
    record.finish_reason = ending
    return (yield episode.generate("generator", "answer"))


def drafted(completion: Completion) -> tuple[str, list[tuple[str, float]]]:
    """The first sentence of a draft, and the text and probability of each of its tokens (those that reach into it)."""
    pieces, logprobs = completion.pieces or (), completion.logprobs or ()
    written = "".join(pieces)
    begin, end = sentence_span(written)
    ends = list(accumulate(map(len, pieces)))
    spans = zip([0, *ends][: len(ends)], ends, pieces, logprobs, strict=True)
    return written[begin:end], [(piece, math.exp(p)) for start, stop, piece, p in spans if start < end and (stop > begin or start >= begin)]


def masked(tokens: list[tuple[str, float]], beta: float) -> str:
    """The sentence without its tokens less probable than β (section 3.2.2, masked sentences as implicit queries)."""
    return " ".join("".join(piece for piece, probability in tokens if probability >= beta).split())


FLARE = Method("flare", "drafts the next sentence; an uncertain one retrieves and is written anew", "arXiv 2305.06983",
               FlareOptions, flare, instructions=("chain", "answer"), head="chain_head")
