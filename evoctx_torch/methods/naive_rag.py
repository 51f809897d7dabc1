"""Naive RAG: retrieve once with the question, answer."""

from __future__ import annotations

from dataclasses import dataclass

from evoctx_torch.methods.base import Episode, Method, Steps
from evoctx_torch.options import option


@dataclass(frozen=True, slots=True)
class NaiveRagOptions:
    """Options of naive RAG."""

    top_k: int = option(5, "passages a retrieval brings", unit="passages", paper="5", low=1)


def naive_rag(episode: Episode, options: NaiveRagOptions) -> Steps:
    """One retrieval, one call."""
    yield from episode.bootstrap(episode.question.text, options.top_k)
    return (yield episode.generate("generator", "answer"))


NAIVE_RAG = Method("naive-rag", "retrieve once, answer", "baseline", NaiveRagOptions, naive_rag)
