"""The numbers of a thought memory, as docs/metrics.md defines them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from evoctx_torch.memory.records import STORED
from evoctx_torch.memory.store import ThoughtStore


def statistics(store: ThoughtStore) -> dict[str, Any]:
    """Counts, levels, mean pairwise cosine and rejections; values that do not exist are None."""
    thoughts = store.thoughts
    levels = [thought.level for thought in thoughts]
    outcomes = store.outcomes()
    waiting = outcomes.pop("pending", 0)
    return {
        "thoughts": len(thoughts), "runs": len({thought.run for thought in thoughts}),
        "passages_under_them": len({passage for thought in thoughts for passage in thought.provenance}),
        "mean_level": float(np.mean(levels)) if levels else None, "highest_level": max(levels, default=None),
        # A level is a float: [2, 3) holds thoughts made of passages alone and of passages and few thoughts.
        "thoughts_by_level": {f"{low} to below {low + 1}": count for low, count in sorted(Counter(map(int, levels)).items())},
        "mean_pairwise_cosine": mean_pairwise_cosine(store.vectors(thoughts)),
        "offered": outcomes.total(), "rejected": {reason: count for reason, count in sorted(outcomes.items()) if reason != STORED},
        "waiting_for_the_end_of_a_wave": waiting, "encoder": store.encoder.name if store.encoder else None,
    }


def mean_pairwise_cosine(vectors: np.ndarray) -> float | None:
    """Mean cosine of all pairs of different rows of `[n, D]` unit vectors; None for fewer than two.

    The dots of all pairs add up to (|sum|^2 - sum |v|^2) / 2, so no n x n matrix is needed.
    """
    count = len(vectors)
    if count < 2:
        return None
    rows = vectors.astype(np.float64)
    return float((np.square(rows.sum(0)).sum() - np.square(rows).sum()) / (count * (count - 1)))
