"""Which offers are new: the check at store time (Thought-Retriever, arXiv 2604.12231, section 3)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from evoctx_kernels.max_similarity import max_similarity

from evoctx_torch.memory.records import COPY, INVALID, REDUNDANT, STORED, Offer


def outcomes_of(offers: Sequence[Offer], vectors: torch.Tensor, shown: torch.Tensor, stored: torch.Tensor) -> list[str]:
    """What becomes of each offer, tested one by one in their order, so that copies among them are caught.

    An offer is stored iff its cosine to all its sources and to all that is stored, earlier offers included, is below its bound.
    `vectors` `[W, D]` float32 are the offers', `shown` `[n, D]` those of all their sources, offer after offer, `stored` `[N, D]`
    those of all stored thoughts; unit vectors on one device.
    """
    indptr = torch.tensor([0, *(len(offer.sources) for offer in offers)], device=vectors.device).cumsum(0)
    to_shown = max_similarity(vectors, shown, indptr, torch.arange(len(shown), device=vectors.device)).similarity
    to_stored = max_similarity(vectors, stored).similarity if len(stored) else torch.full_like(to_shown, -torch.inf)
    finite = vectors.isfinite().all(1)
    new: list[int] = []
    outcomes = []
    for row, offer in enumerate(offers):
        to_new = max_similarity(vectors[row : row + 1], vectors[new]).similarity[0] if new else to_stored[row]
        if not finite[row]:
            outcomes.append(INVALID)
        elif not to_shown[row] < offer.bound:
            outcomes.append(COPY)
        elif not (to_stored[row] < offer.bound and to_new < offer.bound):
            outcomes.append(REDUNDANT)
        else:
            outcomes.append(STORED)
            new.append(row)
    return outcomes
