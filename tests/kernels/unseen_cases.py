"""Candidates and what was seen of them."""

from __future__ import annotations

import torch
from torch import Tensor

SHAPES = [(1, 1, 0, 1), (2, 5, 3, 2), (5, 70, 40, 5), (33, 12, 16, 7), (3, 0, 4, 2), (2, 200, 9, 50), (2, 64, 0, 64)]  # B, K, most seen, k


def batch(rows: int, length: int, most: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """(candidates, indptr, seen); ids repeat, some are padding, rows saw 0 to `most`."""
    g = torch.Generator().manual_seed(seed)
    counts = torch.randint(0, most + 1, (rows,), generator=g)
    indptr = torch.cat((torch.zeros(1, dtype=torch.int64), counts.cumsum(0)))
    ids = torch.tensor([-1, *range(58), 2**62])  # an id may be any int64 from 0 up
    candidates = ids[torch.randint(0, 60, (rows, length), generator=g)]
    return candidates, indptr, ids[torch.randint(0, 60, (int(indptr[-1]),), generator=g)]


def rows_of(inputs: tuple[Tensor, Tensor, Tensor], order: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """The same rows in another order or company."""
    candidates, indptr, seen = inputs
    parts = [seen[indptr[b] : indptr[b + 1]] for b in order]
    return candidates[order], torch.tensor([0, *map(len, parts)]).cumsum(0), torch.cat(parts)
