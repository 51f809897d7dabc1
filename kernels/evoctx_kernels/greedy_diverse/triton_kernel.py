"""greedy_diverse on a device: a program a row, every candidate read once.

Candidates come a tile at a time, in rank order, into registers. A tile is tested against what earlier tiles left, then
its own are kept one by one; the vectors kept are read again, from the caches. It ends when k are kept: with a mild
threshold most candidates are never read. Shapes of tiles follow from D and the dtype alone, so that company never shows.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from evoctx_kernels.greedy_diverse.reference import GreedyDiverse
from evoctx_kernels.vector_tiles import dots, finite, load_vectors, tiling
from evoctx_kernels.vector_tiles import supports as supports_vectors

MAX_KEPT = 128
WARPS = 4


@triton.jit
def greedy_diverse_kernel(
    pool, slots, kept_out, count_out, invalid_out, size, width, k, threshold,
    D: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr, KEPT: tl.constexpr,
):  # fmt: skip
    """Row `program_id(0)`; KEPT is a power of two from k up."""
    b = tl.program_id(0).to(tl.int64)
    lane, place = tl.arange(0, ROWS), tl.arange(0, KEPT)
    kept = tl.full([KEPT], -1, tl.int64)  # positions
    kept_slot = tl.zeros([KEPT], tl.int64)
    count, invalid, first = 0, 0, 0
    while (first < width) & (count < k):
        position = first + lane
        slot = tl.load(slots + b * width + position, mask=position < width, other=-1)
        found = (slot >= 0) & (slot < size)
        tile = load_vectors(pool, slot, found, D, C)
        valid = found & finite(tile, D, C)
        free = valid
        for i in range(count):
            free = free & (dots(tile, pool, tl.sum(tl.where(place == i, kept_slot, 0), 0), D, C) <= threshold)

        wrong = (slot != -1) & (valid == 0)
        next_ = tl.min(tl.where(free, lane, ROWS), 0)
        while (next_ < ROWS) & (count < k):
            chosen = tl.sum(tl.where(lane == next_, slot, 0), 0)
            kept = tl.where(place == count, first + next_, kept)
            kept_slot = tl.where(place == count, chosen, kept_slot)
            count += 1
            wrong = wrong & ((count < k) | (lane < next_))
            free = free & (lane > next_) & (dots(tile, pool, chosen, D, C) <= threshold)
            next_ = tl.min(tl.where(free, lane, ROWS), 0)
        invalid += tl.sum(wrong.to(tl.int32), 0)
        first += ROWS
    tl.store(kept_out + b * k + place, kept, mask=place < k)
    tl.store(count_out + b, tl.zeros([], tl.int64) + count)
    tl.store(invalid_out + b, tl.zeros([], tl.int64) + invalid)


def supports(pool: Tensor, k: int) -> bool:
    """Whether the kernel takes these vectors and k (up to 128)."""
    return supports_vectors(pool) and k <= MAX_KEPT


def launch(pool: Tensor, slots: Tensor, threshold: float, k: int) -> GreedyDiverse:
    """As `greedy_diverse` with pool and slots that are supported; at least one row. Slots are checked by the kernel."""
    (rows, width), device = slots.shape, pool.device
    out = GreedyDiverse(*(torch.empty(shape, dtype=torch.int64, device=device) for shape in ((rows, k), rows, rows)))
    with torch.cuda.device_of(pool):
        greedy_diverse_kernel[(rows,)](
            pool, slots.contiguous(), *out, len(pool), width, k, threshold,
            **tiling(pool.shape[1], pool.element_size()), KEPT=triton.next_power_of_2(k), num_warps=WARPS, enable_fp_fusion=False,
        )  # fmt: skip
    return out
