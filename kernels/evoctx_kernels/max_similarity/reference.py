"""The definition of max_similarity: one row after the other, plain PyTorch, exact in float64."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from evoctx_kernels.pair_dots import work_dtype


class MaxSimilarity(NamedTuple):
    """What each query is closest to; fields are described in `max_similarity`."""

    similarity: Tensor
    argmax: Tensor


def reference(
    queries: Tensor, pool: Tensor, indptr: Tensor | None = None, slots: Tensor | None = None, exclude: Tensor | None = None
) -> MaxSimilarity:
    """As `max_similarity`, with inputs unchecked."""
    out = nothing(queries)
    for b, query in enumerate(queries.to(out.similarity.dtype)):
        own = torch.arange(len(pool), device=pool.device) if indptr is None else slots[indptr[b] : indptr[b + 1]].sort().values
        if exclude is not None:
            own = own[own != exclude[b]]
        similarities = (pool[own].to(query.dtype) * query).sum(1)
        if not (query.isfinite().all() and similarities.isfinite().all()):
            out.similarity[b] = math.nan
        elif len(own):
            out.similarity[b] = best = similarities.max()
            out.argmax[b] = own[similarities == best][0]
    return out


def nothing(queries: Tensor) -> MaxSimilarity:
    """The outputs of queries that have nothing to be compared with: -inf, -1."""
    rows = queries.shape[0]
    return MaxSimilarity(queries.new_full((rows,), -math.inf, dtype=work_dtype(queries)), queries.new_full((rows,), -1, dtype=torch.int64))
