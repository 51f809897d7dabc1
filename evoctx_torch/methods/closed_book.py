"""Closed book: the model answers from its weights alone."""

from __future__ import annotations

from dataclasses import dataclass

from evoctx_torch.methods.base import Episode, Method, Steps


@dataclass(frozen=True, slots=True)
class ClosedBookOptions:
    """Closed book has no options of its own."""


def closed_book(episode: Episode, options: ClosedBookOptions) -> Steps:
    """One call, no retrieval."""
    return (yield episode.generate("generator", "answer"))


CLOSED_BOOK = Method("closed-book", "answer without retrieval", "baseline", ClosedBookOptions, closed_book, retrieves=False)
