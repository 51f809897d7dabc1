"""Order statistics of many rows of different length, in PyTorch."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

SHORT_ROW = 64  # rows up to this length share one padded block, longer ones are with others of their kind


def order_statistics(distances: Tensor, counts: Tensor, low: Tensor, high: Tensor, keep: bool) -> list[Tensor]:
    """Of every row: the smallest distance and where it is, then the same of rank `low` and of rank `high`.

    Args:
        distances: `[nnz]`, row after row, `counts` `[B]` of them each.
        low, high: `[B]` int64, ranks among the row's sorted distances.
        keep: whether the positions of the ranks are wanted; otherwise they come without rows.

    Returns:
        Six `[B]`: value and position in the row, three times. Of equal distances the first ranks lowest. Empty rows get zeros.
    """
    shortest, longest = (int(n) for n in counts.aminmax())
    if shortest > 0 and longest <= SHORT_ROW:
        return of_block(distances, counts, low, high, keep, longest)
    found = [like.new_zeros(counts.shape) for like in (distances, counts) * 3]
    shorter, limit = 0, SHORT_ROW
    while shorter < longest:
        alike = (counts > shorter) & (counts <= limit)
        shorter, limit = limit, limit * 4
        rows = alike.nonzero()[:, 0]
        if len(rows):
            entries = distances[alike.repeat_interleave(counts)]
            for output, some in zip(found, of_block(entries, counts[rows], low[rows], high[rows], keep, min(longest, shorter)), strict=True):
                output[rows[: len(some)]] = some
    return found if keep else [output[: 0 if i in (3, 5) else None] for i, output in enumerate(found)]


def of_block(distances: Tensor, counts: Tensor, low: Tensor, high: Tensor, keep: bool, width: int) -> list[Tensor]:
    """`order_statistics` of rows of 1 to `width` distances, as one padded block."""
    inside = torch.arange(width, device=counts.device) < counts[:, None]
    block = distances.new_full(inside.shape, math.inf).masked_scatter_(inside, distances)
    if keep:
        ordered, order = block.sort(dim=1, stable=True)
        smallest = torch.zeros_like(low)
        return [pick(x, rank) for rank in (smallest, low, high) for x in (ordered, order)]
    ordered = torch.from_numpy(np.sort(block.numpy(), axis=1)) if block.is_cpu else block.sort(dim=1).values  # numpy's is vectorized
    none = counts.new_empty(0)
    return [ordered[:, 0].clone(), block.argmin(dim=1), pick(ordered, low), none, pick(ordered, high), none.clone()]


def pick(block: Tensor, rank: Tensor) -> Tensor:
    """One entry of each row `[B]`, in memory of its own."""
    return block.gather(1, rank[:, None])[:, 0]
