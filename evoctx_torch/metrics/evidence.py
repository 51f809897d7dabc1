"""Whether the passages that hold the answer were found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def gold_passages(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Ids under `supporting_passage_ids` of a question's metadata, each once; empty where the data set names none."""
    return tuple(dict.fromkeys(metadata.get("supporting_passage_ids") or ()))


def gold_ids(retrieved: Iterable[str], gold: Iterable[str]) -> list[str]:
    """The retrieved ids, those of chunks of a gold passage (`<id>#<number>`, from an index that cut it) as that passage's id."""
    wanted = set(gold)
    return [source if id not in wanted and (source := id.rpartition("#")[0]) in wanted else id for id in retrieved]


def provenance_scores(under: Iterable[str], gold: Iterable[str]) -> tuple[float | None, float | None]:
    """Precision and recall of raw passages against the gold ones: the share of the different `under` that are gold or chunks of
    gold, and the share of `gold` among them (Thought-Retriever, PAPERS section 4). None where there is nothing to divide by.
    """
    wanted, found = set(gold), set(under)
    if not wanted:
        return None, None
    hits = [id for id in gold_ids(found, wanted) if id in wanted]
    return len(hits) / len(found) if found else None, len(set(hits)) / len(wanted)


def evidence_recall(retrieved: Iterable[str], gold: Iterable[str]) -> float | None:
    """Share of the gold passages among the retrieved ones (all rounds, any order); None when there is no gold."""
    wanted = set(gold)
    return len(wanted & set(retrieved)) / len(wanted) if wanted else None
