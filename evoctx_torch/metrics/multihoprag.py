"""MultiHop-RAG's own scoring, which differs from what its names suggest (docs/metrics.md, MultiHop-RAG)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

MULTIHOPRAG_RANKING = ("multihoprag_hits@4", "multihoprag_hits@10", "multihoprag_mrr@10", "multihoprag_map@10")
"""The keys of `multihoprag_ranking`, in this order."""

_TEMPLATE = re.compile(r'The answer to the question is "(.*?)"')


def clean(prediction: str) -> str:
    """The quoted text of `The answer to the question is "..."` where that stands in the prediction, else all of it."""
    found = _TEMPLATE.search(prediction)
    return found[1] if found else prediction


def hit(prediction: str, gold: str) -> bool:
    """Whether prediction (cleaned) and gold share a lower-cased word; punctuation stays on it: "Yes." does not meet "yes"."""
    return not set(clean(prediction).lower().split()).isdisjoint(gold.lower().split())


def multihoprag_acc(hits: Sequence[float]) -> float:
    """The "accuracy" of a set of questions with these hits, 0 for no question as in the official program."""
    return acc_from_share(sum(hits) / len(hits)) if hits else 0.0


def acc_from_share(p: float) -> float:
    """N / (N + 2(N - tp)) = 1 / (3 - 2p) with p the share of hits; works on arrays. In [1/3, 1]."""
    return 1 / (3 - 2 * p)


def gold_facts(metadata: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The texts under `evidence` of a question's metadata (`[{"fact": …}, …]`, that data set's own gold); None elsewhere."""
    evidence = metadata.get("evidence")
    if not isinstance(evidence, list) or not all(isinstance(item, dict) and isinstance(item.get("fact"), str) for item in evidence):
        return None
    return tuple(item["fact"] for item in evidence)


def multihoprag_ranking(retrieved: Sequence[str], golds: Sequence[str]) -> dict[str, float] | None:
    """Hits@4, Hits@10, MRR@10 and the non-standard MAP@10 over texts, best first; None when there is no gold.

    A passage matches a gold whose text it contains, blanks and newlines (nothing else) dropped from both. Each rank
    adds (golds first found there) / rank, where standard MAP adds (golds found so far) / rank: a perfect list of
    four golds gets 0.52, twelve golds in one passage 1.2.
    """
    if not golds:
        return None
    needles = [_squeeze(gold) for gold in golds]
    found: set[str] = set()
    gain, first = 0.0, 0
    for rank, text in enumerate(map(_squeeze, retrieved[:10]), 1):
        matched = {needle for needle in needles if needle in text}
        first = first or (rank if matched else 0)
        gain += len(matched - found) / rank
        found |= matched
    values = float(1 <= first <= 4), float(first >= 1), 1 / first if first else 0.0, gain / min(len(needles), 10)
    return dict(zip(MULTIHOPRAG_RANKING, values, strict=True))


def _squeeze(text: str) -> str:
    return text.replace(" ", "").replace("\n", "")
