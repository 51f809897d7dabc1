"""boundary_signals in vectorized PyTorch: the CPU path, and the path of any input that its device has no kernel for.

A row's outputs have the same bits alone, in any batch, at any position: every step is either per pair (dot products),
per row (sums, norms) or exact (selecting), and which route a row takes depends on its dtype alone. At hundreds of rows
the number of calls counts as much as what they do: rare cases are looked for once and skipped where there are none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from evoctx_kernels.boundary_signals.outputs import Outputs
from evoctx_kernels.boundary_signals.reference import quantile_rank
from evoctx_kernels.boundary_signals.selection import order_statistics
from evoctx_kernels.pair_dots import CHUNK, pair_dots, work_dtype


def vectorized(
    traces: Tensor,
    pool: Tensor,
    indptr: Tensor,
    slots: Tensor,
    thresholds: Tensor,
    active: Tensor | None = None,
    quantile: float = 0.9,
    interpolation: str = "linear",
    keep: bool = False,
) -> Outputs:
    """As `boundary_signals`, but with `thresholds` a tensor `[3]` or `[B, 3]` and inputs unchecked."""
    work = work_dtype(traces)
    if active is not None:
        indptr, slots = without_inactive(indptr, slots, active)
    counts = indptr.diff()

    total = boundary_sums(pool, indptr, slots)  # first: it fetches ahead, which the products do not, and fills the cache
    dots = pair_dots(traces, pool, indptr, slots)
    length = torch.linalg.vector_norm(total, dim=1)
    along = torch.segment_reduce(dots.double(), "sum", offsets=indptr, initial=0).to(work)  # t·Σx
    centroid = 1 - along / length
    low, high, weight = quantile_rank(counts, quantile, interpolation)
    near, argmin, below, low_at, above, high_at = order_statistics(1 - dots, counts, low, high, keep)
    tail = torch.addcmul(below, above - below, weight.to(work))

    # What is not finite in a vector shows in its dot product, and so in the sum of them; an empty row has its trace alone.
    if not math.isfinite(centroid.sum()):
        empty = counts == 0
        finite = (along.isfinite() & length.isfinite()) & (~empty | traces.isfinite().all(dim=1))
        usable = finite & ~empty
        otherwise = torch.where(finite, math.inf, math.nan).to(work)
        centroid = torch.where(length == 0, 1.0, centroid)
        near, centroid, tail = (torch.where(usable, signal, otherwise) for signal in (near, centroid, tail))
        argmin, low_at, high_at = (torch.where(usable, at, -1) if len(at) else at for at in (argmin, low_at, high_at))

    thresholds = thresholds.to(work)
    signals = torch.stack((near, centroid, tail), dim=1)
    near_ratio, centroid_ratio, tail_ratio = (signals / thresholds).unbind(1)
    near_crossed, centroid_crossed, tail_crossed = (signals >= thresholds).unbind(1)
    score = torch.maximum(torch.minimum(near_ratio, centroid_ratio), tail_ratio)
    action = ((near_crossed & centroid_crossed) | tail_crossed).to(torch.int8)
    if active is not None:
        near, argmin, centroid, tail, score, action = (
            torch.where(active, output, 0) for output in (near, argmin, centroid, tail, score, action)
        )
    total = total if keep else total.new_empty((0, total.shape[1]))
    return Outputs(near, argmin, centroid, tail, score, action, low_at, high_at, total)


def without_inactive(indptr: Tensor, slots: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
    """The same CSR with inactive rows emptied, so that nothing of them is read."""
    counts = indptr.diff()
    kept = torch.where(active, counts, 0)
    return torch.cat((indptr[:1], kept.cumsum(0))), slots[active.repeat_interleave(counts)]


def boundary_sums(pool: Tensor, indptr: Tensor, slots: Tensor) -> Tensor:
    """`[B, D]`, the sum of each row's vectors in the working dtype: a bag of embeddings, without a copy if they are stored so."""
    work, rows = work_dtype(pool), len(indptr) - 1
    if len(slots) == 0:
        return pool.new_zeros((rows, pool.shape[1]), dtype=work)
    if pool.dtype == work:
        return embedding_bag(slots, pool, indptr, mode="sum", include_last_offset=True)
    sums = []
    for first, last in row_chunks(indptr, CHUNK):
        start, end = int(indptr[first]), int(indptr[last])
        vectors, everything = pool[slots[start:end]].to(work), torch.arange(end - start, device=pool.device)
        sums.append(boundary_sums(vectors, indptr[first : last + 1] - start, everything))
    return torch.cat(sums)


def row_chunks(indptr: Tensor, budget: int) -> Iterator[tuple[int, int]]:
    """Ranges of whole rows with at most `budget` entries each, or of a single longer row."""
    first, rows = 0, len(indptr) - 1
    while first < rows:
        last = max(first + 1, int(torch.searchsorted(indptr, indptr[first] + budget, right=True)) - 1)
        yield first, last
        first = last
