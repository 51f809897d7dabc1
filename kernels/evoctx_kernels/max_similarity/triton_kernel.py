"""max_similarity on a device: against a whole pool tiles of a matrix product, against rows of it one program a query.

A program of the product takes QUERIES queries and SPLIT vectors, whatever there are of both, and leaves a best and its
place; a second launch joins these in one order. Every element of a product is summed over D in the same order, so
neither company nor the place of a query shows in its bits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from evoctx_kernels.max_similarity.reference import MaxSimilarity
from evoctx_kernels.vector_tiles import dots, finite, load_vectors, tiling

INF = tl.constexpr(float("inf"))
PRODUCT = {"QUERIES": 16, "VECTORS": 64, "DEPTH": 32, "SPLIT": 256}
JOINED = 128  # splits read at a time
WARPS = 4


@triton.jit
def product_kernel(
    queries, pool, exclude, bests, places, rows, size, splits,
    D: tl.constexpr, QUERIES: tl.constexpr, VECTORS: tl.constexpr, DEPTH: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Best and lowest place of SPLIT vectors for QUERIES queries: NaN if a product is not finite. Grid (blocks, splits)."""
    row = tl.program_id(0).to(tl.int64) * QUERIES + tl.arange(0, QUERIES)
    there = row < rows
    out = tl.full([QUERIES], -1, tl.int64)
    if exclude is not None:
        out = tl.load(exclude + row, mask=there, other=-1)
    best = tl.full([QUERIES], -INF, tl.float32)
    place = tl.full([QUERIES], -1, tl.int64)
    broken = tl.zeros([QUERIES], tl.int32)
    depth = tl.arange(0, DEPTH)
    for start in range(0, SPLIT, VECTORS):
        vector = tl.program_id(1).to(tl.int64) * SPLIT + start + tl.arange(0, VECTORS)
        inside = vector < size
        product = tl.zeros([QUERIES, VECTORS], tl.float32)
        for j in range(0, D, DEPTH):
            column = j + depth
            deep = column < D
            q = tl.load(queries + row[:, None] * D + column[None, :], mask=there[:, None] & deep[None, :], other=0)
            x = tl.load(pool + vector[None, :] * D + column[:, None], mask=inside[None, :] & deep[:, None], other=0)
            product = tl.dot(q, x, product, input_precision="ieee")
        counts = inside[None, :] & (vector[None, :] != out[:, None])
        broken += tl.sum((counts & ((tl.abs(product) < INF) == 0)).to(tl.int32), 1)
        product = tl.where(counts, product, -INF)
        tile_best = tl.max(product, 1)
        tile_place = tl.min(tl.where(counts & (product == tile_best[:, None]), vector[None, :], size), 1)
        place = tl.where(tile_best > best, tile_place, place)  # strictly: the lowest of equals stays
        best = tl.maximum(best, tile_best)
    at = row * splits + tl.program_id(1)
    tl.store(bests + at, tl.where(broken > 0, float("nan"), best), mask=there)
    tl.store(places + at, place, mask=there)


@triton.jit
def join_kernel(queries, bests, places, similarity, argmax, splits, D: tl.constexpr, COLUMNS: tl.constexpr, JOINED: tl.constexpr):
    """The best of a query's splits. Grid (B,); COLUMNS is a power of two from D up."""
    row = tl.program_id(0).to(tl.int64)
    column, lane = tl.arange(0, COLUMNS), tl.arange(0, JOINED)
    query = tl.load(queries + row * D + column, mask=column < D, other=0).to(tl.float32)
    broken = (tl.sum(query * 0.0, 0) != 0.0).to(tl.int32)
    best = tl.full([JOINED], -INF, tl.float32)
    place = tl.full([JOINED], -1, tl.int64)
    for start in range(0, splits, JOINED):
        split = start + lane
        value = tl.load(bests + row * splits + split, mask=split < splits, other=-INF)
        broken += tl.sum((value != value).to(tl.int32), 0)
        place = tl.where(value > best, tl.load(places + row * splits + split, mask=split < splits, other=-1), place)
        best = tl.maximum(best, value)
    finish(similarity + row, argmax + row, best, place, broken)


@triton.jit
def rows_kernel(
    queries, pool, indptr, slots, exclude, similarity, argmax, size, nnz,
    D: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Query `program_id(0)` against its own slots."""
    row = tl.program_id(0).to(tl.int64)
    start, end = tl.load(indptr + row), tl.load(indptr + row + 1)
    sound = (start >= 0) & (end >= start) & (end <= nnz)
    n = tl.where(sound, end - start, 0).to(tl.int32)
    out = tl.full([], -1, tl.int64)
    if exclude is not None:
        out = tl.load(exclude + row)
    lane = tl.arange(0, ROWS)
    own = load_vectors(queries, row + lane, lane < 1, D, C)
    broken = tl.sum((finite(own, D, C) == 0).to(tl.int32), 0) + (sound == 0).to(tl.int32)
    best = tl.full([ROWS], -INF, tl.float32)
    place = tl.full([ROWS], -1, tl.int64)
    for first in range(0, n, ROWS):
        there = first + lane < n
        slot = tl.load(slots + start + first + lane, mask=there, other=0)
        there = there & ((slot != out) | (slot < 0))
        found = there & (slot >= 0) & (slot < size)
        value = dots(load_vectors(pool, slot, found, D, C), queries, row, D, C)
        broken += tl.sum((there & ((found & (tl.abs(value) < INF)) == 0)).to(tl.int32), 0)
        value = tl.where(found, value, -INF)
        better = (value > best) | (found & (value == best) & (slot < place))
        place = tl.where(better, slot, place)
        best = tl.maximum(best, value)
    finish(similarity + row, argmax + row, best, place, broken)


@triton.jit
def finish(similarity, argmax, best, place, broken):
    """Store the largest of `best` and the lowest place that has it, -inf and -1 where there is none, NaN where `broken`."""
    top = tl.max(best, 0)
    nowhere = 0x7FFFFFFFFFFFFFFF
    lowest = tl.min(tl.where((best == top) & (place >= 0), place, nowhere), 0)
    tl.store(similarity, tl.where(broken > 0, float("nan"), top))
    tl.store(argmax, tl.where((broken > 0) | (lowest == nowhere), -1, lowest))


def launch(
    queries: Tensor, pool: Tensor, indptr: Tensor | None = None, slots: Tensor | None = None, exclude: Tensor | None = None
) -> MaxSimilarity:
    """As `max_similarity`, for vectors that are supported and at least one query; values are checked by the kernels."""
    queries, (rows, dim), device = queries.contiguous(), queries.shape, queries.device
    exclude = None if exclude is None else exclude.contiguous()
    out = MaxSimilarity(torch.empty(rows, dtype=torch.float32, device=device), torch.empty(rows, dtype=torch.int64, device=device))
    with torch.cuda.device_of(queries):
        if indptr is not None and slots is not None:
            rows_kernel[(rows,)](
                queries, pool, indptr.contiguous(), slots.contiguous(), exclude, *out, len(pool), len(slots),
                **tiling(dim, pool.element_size()), num_warps=WARPS, enable_fp_fusion=False,
            )  # fmt: skip
            return out
        splits = triton.cdiv(len(pool), PRODUCT["SPLIT"])
        bests = torch.empty((rows, splits), dtype=torch.float32, device=device)
        places = torch.empty((rows, splits), dtype=torch.int64, device=device)
        if splits:
            product_kernel[(triton.cdiv(rows, PRODUCT["QUERIES"]), splits)](
                queries, pool, exclude, bests, places, rows, len(pool), splits, D=dim, **PRODUCT, num_warps=WARPS, enable_fp_fusion=False
            )
        join_kernel[(rows,)](queries, bests, places, *out, splits, D=dim, COLUMNS=triton.next_power_of_2(dim), JOINED=JOINED, num_warps=WARPS)
    return out
