"""first_unseen in vectorized PyTorch: the CPU path, and the path of any device that has no kernel of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from evoctx_kernels.first_unseen.reference import FirstUnseen

ROWS = 256  # at a time: one long row makes no more than its block wide


def vectorized(candidates: Tensor, indptr: Tensor, seen: Tensor, k: int, distinct: bool = True) -> FirstUnseen:
    """As `first_unseen`, with inputs unchecked and at least one row."""
    starts = range(0, len(candidates), ROWS)
    blocks = [block(candidates[b : b + ROWS], indptr[b : b + ROWS + 1], seen, k, distinct) for b in starts]
    return blocks[0] if len(blocks) == 1 else FirstUnseen(*map(torch.cat, zip(*blocks, strict=True)))


def block(candidates: Tensor, indptr: Tensor, seen: Tensor, k: int, distinct: bool) -> FirstUnseen:
    """The same for a few rows."""
    fresh = unseen(candidates, indptr, seen, distinct)
    ordinal = fresh.cumsum(1)
    # What is not taken is written to one column more, which is cut off.
    column = torch.where(fresh & (ordinal <= k), ordinal - 1, k)
    padding = candidates.new_full((len(candidates), k + 1), -1)
    ranks = torch.arange(candidates.shape[1], device=candidates.device).expand_as(candidates)
    ids, ranks = (padding.scatter(1, column, values)[:, :k].contiguous() for values in (candidates, ranks))
    return FirstUnseen(ids, ranks, ((candidates >= 0) & ~fresh & (ordinal < k)).sum(1))


def unseen(candidates: Tensor, indptr: Tensor, seen: Tensor, distinct: bool) -> Tensor:
    """Which candidates `[B, K]` may be taken: one stable sort a row brings a candidate behind what makes it seen."""
    counts = indptr.diff()
    width = int(counts.max())
    table = candidates.new_full((len(candidates), width), -1)
    table[torch.arange(width, device=seen.device) < counts[:, None]] = seen[indptr[0] : indptr[-1]]
    ids, order = torch.cat((table, candidates), 1).sort(dim=1, stable=True)
    first = torch.ones_like(ids, dtype=torch.bool)
    first[:, 1:] = ids[:, 1:] != ids[:, :-1]
    if distinct:
        fresh = first
    else:  # the first of an id decides for all of them
        place = torch.where(first, torch.arange(ids.shape[1], device=ids.device), 0).cummax(1).values
        fresh = order.gather(1, place) >= width
    return torch.empty_like(fresh).scatter_(1, order, fresh)[:, width:] & (candidates >= 0)
