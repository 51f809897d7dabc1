"""The methods by name; one file each."""

from __future__ import annotations

from evoctx_torch.errors import UsageError
from evoctx_torch.methods.ace import ACE
from evoctx_torch.methods.adaptive_rag import ADAPTIVE_RAG
from evoctx_torch.methods.base import Episode, Method, Steps
from evoctx_torch.methods.closed_book import CLOSED_BOOK
from evoctx_torch.methods.evoctx import EVOCTX
from evoctx_torch.methods.flare import FLARE
from evoctx_torch.methods.ircot import IRCOT
from evoctx_torch.methods.iter_retgen import ITER_RETGEN
from evoctx_torch.methods.iterdrag import ITERDRAG
from evoctx_torch.methods.modules import NO_MODULES, Modules
from evoctx_torch.methods.naive_rag import NAIVE_RAG
from evoctx_torch.methods.registry import Methods
from evoctx_torch.methods.search_o1 import SEARCH_O1
from evoctx_torch.methods.search_r1 import SEARCH_R1
from evoctx_torch.methods.self_ask import SELF_ASK
from evoctx_torch.methods.thought_retriever import THOUGHT_RETRIEVER

METHODS = Methods((
    CLOSED_BOOK, NAIVE_RAG, EVOCTX, ACE, SEARCH_R1, SEARCH_O1, THOUGHT_RETRIEVER, ITERDRAG, SELF_ASK, ITER_RETGEN, IRCOT, FLARE,
    ADAPTIVE_RAG,
))


def get_method(name: str) -> Method:
    """The method of that name. Raises `UsageError` that lists the known ones, or says what is wrong with another package's."""
    if name not in METHODS:
        raise UsageError(f"no method is named {name!r}; expected one of {', '.join(METHODS)}")
    return METHODS[name]


__all__ = ["METHODS", "NO_MODULES", "Episode", "Method", "Modules", "Steps", "get_method"]
