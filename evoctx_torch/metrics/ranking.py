"""One ranked list of passage ids, best first, against the gold ids.

An id that comes back later in the list (several rounds put together) counts at its first place only.
Every function returns None when there is no gold; the caller leaves that row out of the mean.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

RETRIEVAL_METRICS = ("hits@4", "hits@10", "mrr@10", "map@10")
"""The columns of `score_ranking`, in this order."""


def score_ranking(ranked: Sequence[str], gold: Collection[str]) -> dict[str, float | None]:
    """The retrieval columns of one question, each in [0, 1], None without gold."""
    values = hits_at(ranked, gold, 4), hits_at(ranked, gold, 10), reciprocal_rank(ranked, gold), average_precision(ranked, gold)
    return dict(zip(RETRIEVAL_METRICS, values, strict=True))


def hits_at(ranked: Sequence[str], gold: Collection[str], k: int) -> float | None:
    """1 if any gold is among the first k."""
    return float(any(_relevance(ranked, gold, k))) if gold else None


def reciprocal_rank(ranked: Sequence[str], gold: Collection[str], k: int = 10) -> float | None:
    """1 / rank of the first gold among the first k, 0 if there is none there. Its mean is MRR@k."""
    if not gold:
        return None
    flags = _relevance(ranked, gold, k)
    return 1 / (flags.index(True) + 1) if True in flags else 0.0


def average_precision(ranked: Sequence[str], gold: Collection[str], k: int = 10) -> float | None:
    """Σ over gold ranks r ≤ k of precision@r, divided by the number of golds (trec_eval's map_cut). Its mean is MAP@k.

    scikit-learn averages over the golds in the list it is given; golds that were not retrieved are added here.
    """
    if not gold:
        return None
    flags = _relevance(ranked, gold, k)
    if True not in flags:
        return 0.0
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(flags, range(len(flags), 0, -1))) * sum(flags) / len(set(gold))


def _relevance(ranked: Sequence[str], gold: Collection[str], k: int) -> list[bool]:
    wanted = set(gold)
    return [passage in wanted for passage in list(dict.fromkeys(ranked))[:k]]
