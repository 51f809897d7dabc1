"""first_unseen on a CUDA device: one warp a row, which stops reading as soon as it has k candidates."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 32  # candidates at a time: one a lane
KNOWN = 8  # ids they are compared with at a time


@triton.jit
def first_unseen_kernel(
    candidates, indptr, seen, ids, ranks, skipped, length, nnz, k, DISTINCT: tl.constexpr, TILE: tl.constexpr, KNOWN: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    candidates += row * length
    ids += row * k
    ranks += row * k
    begin, end = tl.maximum(tl.load(indptr + row), 0), tl.minimum(tl.load(indptr + row + 1), nnz)
    lane = tl.arange(0, TILE)
    taken, passed = 0, 0
    for start in range(0, length, TILE):
        if taken < k:
            rank = start + lane
            candidate = tl.load(candidates + rank, mask=rank < length, other=-1)
            hits = tl.zeros((TILE,), tl.int32)
            for at in range(begin, end, KNOWN):
                place = at + tl.arange(0, KNOWN)
                known = tl.load(seen + place, mask=place < end, other=-1)
                hits += tl.sum((candidate[:, None] == known[None, :]).to(tl.int32), 1)
            if DISTINCT:
                for at in range(0, tl.minimum(start + TILE, length), KNOWN):
                    place = at + tl.arange(0, KNOWN)
                    earlier = tl.load(candidates + place, mask=place < length, other=-1)
                    same = (candidate[:, None] == earlier[None, :]) & (place[None, :] < rank[:, None])
                    hits += tl.sum(same.to(tl.int32), 1)
            fresh = (candidate >= 0) & (hits == 0)
            ordinal = taken + tl.cumsum(fresh.to(tl.int32), 0)
            take = fresh & (ordinal <= k)
            tl.store(ids + ordinal - 1, candidate, mask=take)
            tl.store(ranks + ordinal - 1, rank.to(tl.int64), mask=take)
            passed += tl.sum(((candidate >= 0) & (hits > 0) & (ordinal < k)).to(tl.int32), 0)
            taken += tl.sum(fresh.to(tl.int32), 0)
    for start in range(0, k, TILE):
        column = start + lane
        rest = (column >= taken) & (column < k)
        tl.store(ids + column, tl.zeros((TILE,), tl.int64) - 1, mask=rest)
        tl.store(ranks + column, tl.zeros((TILE,), tl.int64) - 1, mask=rest)
    tl.store(skipped + row, passed)


def launch(candidates: Tensor, indptr: Tensor, seen: Tensor, k: int, distinct: bool) -> tuple[Tensor, Tensor, Tensor]:
    """ids `[B, k]`, ranks `[B, k]`, skipped `[B]` of non-empty inputs; nothing outside `seen` is read, whatever indptr says."""
    rows, length = candidates.shape
    ids, ranks, skipped = candidates.new_empty((rows, k)), candidates.new_empty((rows, k)), candidates.new_empty(rows)
    with torch.cuda.device_of(candidates):
        first_unseen_kernel[(rows,)](
            candidates.contiguous(), indptr.contiguous(), seen.contiguous(), ids, ranks, skipped, length, len(seen), k,
            DISTINCT=distinct, TILE=TILE, KNOWN=KNOWN, num_warps=1,
        )  # fmt: skip
    return ids, ranks, skipped
