"""Whether the passages that hold the answer were found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def gold_passages(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Ids under `supporting_passage_ids` of a question's metadata, each once; empty where the data set names none."""
    return tuple(dict.fromkeys(metadata.get("supporting_passage_ids") or ()))


def evidence_recall(retrieved: Iterable[str], gold: Iterable[str]) -> float | None:
    """Share of the gold passages among the retrieved ones (all rounds, any order); None when there is no gold."""
    wanted = set(gold)
    return len(wanted & set(retrieved)) / len(wanted) if wanted else None
