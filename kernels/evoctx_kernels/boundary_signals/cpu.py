"""boundary_signals in vectorized PyTorch: the CPU path, and the path of any device that has no kernel of its own.

A row's outputs have the same bits alone, in any batch, at any position: every step is either per pair
(distances), per row (sums, norms) or exact (sorting), and which route a row takes depends on its dtype alone.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from evoctx_kernels.boundary_signals.reference import BoundarySignals, quantile_rank

SHORT_ROW = 64  # rows up to this length are sorted in one padded block, longer ones with others of their kind
CHUNK = 8192  # vectors gathered at a time where nothing reads the pool in place

with warnings.catch_warnings():  # CSR tensors announce once per process that they are in beta
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.zeros(2, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), torch.zeros(0), (1, 1))


def vectorized(
    traces: Tensor,
    pool: Tensor,
    indptr: Tensor,
    slots: Tensor,
    thresholds: Tensor,
    active: Tensor | None = None,
    quantile: float = 0.9,
    interpolation: str = "linear",
) -> BoundarySignals:
    """As `boundary_signals`, but with `thresholds` a tensor `[3]` or `[B, 3]` and inputs unchecked."""
    work = torch.float64 if traces.dtype == torch.float64 else torch.float32
    if active is not None:
        indptr, slots = without_inactive(indptr, slots, active)
    counts = indptr.diff()

    in_place = traces.device.type == "cpu" and traces.dtype == work
    dots, totals = (read_in_place if in_place else read_in_chunks)(traces.contiguous(), pool, indptr, slots)
    along, length = (traces.to(work) * totals).sum(-1), totals.square().sum(-1).sqrt()
    centroid = torch.where(length == 0, 1.0, 1 - along / length)

    low, high, weight = quantile_rank(counts, quantile, interpolation)
    ranks = torch.stack((torch.zeros_like(low), low, high, (counts - 1).clamp(min=0)), dim=1)
    values, argmin = order_statistics(1 - dots, indptr, counts, ranks)
    near, below, above, far = values.unbind(1)
    tail = below + (above - below) * weight.to(work)

    empty = counts == 0
    signals = torch.stack((near, centroid, tail), dim=1)
    signals = torch.where(empty[:, None], math.inf, signals)
    # A vector with NaN or infinity shows in the smallest or the largest distance; an empty row has only its trace.
    finite = along.isfinite() & length.isfinite() & (empty | (near.isfinite() & far.isfinite()))
    signals = torch.where(finite[:, None], signals, math.nan)
    argmin = torch.where(finite & ~empty, argmin, -1)

    thresholds = thresholds.to(work)
    ratios, crossed = signals / thresholds, signals >= thresholds
    score = torch.maximum(torch.minimum(ratios[:, 0], ratios[:, 1]), ratios[:, 2])
    action = ((crossed[:, 0] & crossed[:, 1]) | crossed[:, 2]).to(torch.int8)
    near, centroid, tail = (column.clone() for column in signals.unbind(1))  # an operator's outputs share no memory
    outputs = BoundarySignals(near, argmin, centroid, tail, score, action)
    return outputs if active is None else BoundarySignals(*(torch.where(active, output, 0) for output in outputs))


def without_inactive(indptr: Tensor, slots: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
    """The same CSR with inactive rows emptied, so that nothing of them is read."""
    counts = indptr.diff()
    kept = torch.where(active, counts, 0)
    return torch.cat((indptr[:1], kept.cumsum(0))), slots[active.repeat_interleave(counts)]


def read_in_place(traces: Tensor, pool: Tensor, indptr: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
    """Dots `[nnz]` and sums `[B, D]` without a copy of the vectors: a sampled matrix product and a bag of embeddings."""
    rows, columns, nnz = len(traces), len(pool), len(slots)
    if nnz == 0:
        return traces.new_zeros(0), torch.zeros_like(traces)
    # A CSR matrix may not hold more entries than cells, which repeated slots can exceed: empty rows make room.
    room = max(0, -(-nnz // columns) - rows)
    left = torch.cat((traces, traces.new_zeros(room, traces.shape[1]))) if room else traces
    pointers = torch.cat((indptr, indptr[-1:].expand(room))) if room else indptr
    cells = torch.sparse_csr_tensor(pointers, slots, traces.new_zeros(nnz), (rows + room, columns), check_invariants=False)
    dots = torch.sparse.sampled_addmm(cells, left, pool.t(), beta=0.0).values()
    return dots, embedding_bag(slots, pool, indptr, mode="sum", include_last_offset=True)


def read_in_chunks(traces: Tensor, pool: Tensor, indptr: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
    """Dots `[nnz]` and sums `[B, D]` from gathered vectors, accumulated in float32 (float64 for float64 inputs)."""
    work = torch.float64 if traces.dtype == torch.float64 else torch.float32
    dots = torch.empty(len(slots), dtype=work, device=pool.device)
    totals = torch.zeros(traces.shape, dtype=work, device=pool.device)
    for first, last in row_chunks(indptr, CHUNK):
        start, end = int(indptr[first]), int(indptr[last])
        vectors = pool[slots[start:end]].to(work)
        bounds = indptr[first : last + 1] - start
        dots[start:end] = (vectors * traces[first:last].to(work).repeat_interleave(bounds.diff(), dim=0)).sum(-1)
        if start < end:
            everything = torch.arange(end - start, device=pool.device)
            totals[first:last] = embedding_bag(everything, vectors, bounds, mode="sum", include_last_offset=True)
    return dots, totals


def row_chunks(indptr: Tensor, budget: int) -> Iterator[tuple[int, int]]:
    """Ranges of whole rows with at most `budget` entries each, or of a single longer row."""
    first, rows = 0, len(indptr) - 1
    while first < rows:
        last = max(first + 1, int(torch.searchsorted(indptr, indptr[first] + budget, right=True)) - 1)
        yield first, last
        first = last


def order_statistics(distances: Tensor, indptr: Tensor, counts: Tensor, ranks: Tensor) -> tuple[Tensor, Tensor]:
    """The row's sorted distances at `ranks` (`[B, R]` of `[nnz]`) and the position of its smallest, lowest first.

    Rows are sorted in padded blocks of similar length; empty rows get zeros.
    """
    values = distances.new_zeros(ranks.shape)
    argmin = torch.zeros_like(counts)
    longest, low, high = int(counts.max()), 0, SHORT_ROW
    while low < longest:
        rows = ((counts > low) & (counts <= high)).nonzero()[:, 0]
        low, high = high, high * 4
        if len(rows) == 0:
            continue
        position = torch.arange(int(counts[rows].max()), device=rows.device)
        index = (indptr[rows, None] + position).clamp_(max=len(distances) - 1)
        block = torch.where(position < counts[rows, None], distances[index], math.inf)
        block, order = block.sort(dim=1, stable=True)
        values[rows], argmin[rows] = block.gather(1, ranks[rows]), order[:, 0]
    return values, argmin
