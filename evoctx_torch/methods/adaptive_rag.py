"""Adaptive-RAG (arXiv 2403.14403, section 3): a classifier tells how complex a question is, which chooses how it is answered.

A: without retrieval (closed-book); B: one retrieval (naive-rag); C: several steps (IRCoT in the paper). The classifier is
a prompt to the role `classifier`, or the user's own: `--route-key KEY` reads its class from each question's metadata.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from evoctx_torch.errors import UsageError
from evoctx_torch.evidence import Evidence
from evoctx_torch.methods.base import Episode, Method, Steps
from evoctx_torch.methods.closed_book import CLOSED_BOOK
from evoctx_torch.methods.ircot import IRCOT
from evoctx_torch.methods.iterdrag import ITERDRAG
from evoctx_torch.methods.naive_rag import NAIVE_RAG
from evoctx_torch.methods.replies import UNPARSABLE
from evoctx_torch.metrics.extract import split_thinking
from evoctx_torch.operations import Question
from evoctx_torch.options import option

CLASSES = ("A", "B", "C")
MULTI = {method.name: method for method in (IRCOT, ITERDRAG)}
# The letter at the start of a line, followed by its end or a mark, or after a word that announces it.
CLASS = re.compile(r"^\W*([ABC])(?=\W*$|[.):,])|\b(?:class|label|answer|category|complexity)\W+(?:is\W+)?([ABC])\b",
                   re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class AdaptiveRagOptions:
    """Options of Adaptive-RAG."""

    top_k: int = option(5, "passages a retrieval brings", unit="passages", paper="open", low=1)
    rounds: int | None = option(None, "rounds of the multi-step method (default: its own)", unit="rounds", paper="open", low=1)
    multi: str = option("ircot", "the multi-step method, for class C", paper="ircot", choices=tuple(MULTI))
    unparsable: str = option("B", "the class that is taken where the classifier's reply names none", paper="open", choices=CLASSES)
    route_key: str | None = option(None, "key of each question's metadata that holds its class A, B or C, instead of a --classifier",
                                   paper="open")


def adaptive_rag(episode: Episode, options: AdaptiveRagOptions) -> Steps:
    """Classify, then hand the episode over. `route` is the class, or `unparsable` where `--unparsable` chose."""
    if options.route_key is None:
        asked = episode.generate("classifier", "classify", Evidence(episode.question.text))
        route = named_class((yield asked).text)
    else:
        route = given_class(options, episode.question)
    episode.record.columns["route"] = route
    match options.unparsable if route == UNPARSABLE else route:
        case "A":
            chosen, how = CLOSED_BOOK, {}
        case "B":
            chosen, how = NAIVE_RAG, {"top_k": options.top_k}
        case _:
            chosen, how = MULTI[options.multi], {"top_k": options.top_k} | ({} if options.rounds is None else {"rounds": options.rounds})
    return (yield from episode.hand_over(chosen, chosen.options(**how)))


def named_class(reply: str) -> str:
    """The class that a classifier's reply names, its thinking left out; else `unparsable`."""
    found = CLASS.search(split_thinking(reply)[1])
    return (found[1] or found[2]).upper() if found else UNPARSABLE


def given_class(options: AdaptiveRagOptions, question: Question) -> str:
    """The class in a question's metadata. Raises `UsageError` where there is none."""
    given = question.metadata.get(options.route_key)
    if given not in CLASSES:
        raise UsageError(f"--route-key {options.route_key}: metadata[{options.route_key!r}] of question {question.id!r} is {given!r}; "
                         "expected A, B or C")
    return given


def check(options: AdaptiveRagOptions, question: Question) -> None:
    """Every question has its class, where the user gives them."""
    if options.route_key is not None:
        given_class(options, question)


ADAPTIVE_RAG = Method("adaptive-rag", "a classifier chooses no retrieval, one, or several steps", "arXiv 2403.14403",
                      AdaptiveRagOptions, adaptive_rag, roles=("classifier", "generator"), required=("classifier",),
                      defaults={"classifier": {"max_new_tokens": 8}}, instructions=("classify",), head="classify_head",
                      delegates=(CLOSED_BOOK, NAIVE_RAG, IRCOT, ITERDRAG), check=check,
                      unasked=lambda options: () if options.route_key is None else ("classifier",))
