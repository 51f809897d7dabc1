"""The definition of boundary_signals: one row after the other, plain PyTorch, exact in float64, differentiable."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")


class BoundarySignals(NamedTuple):
    """What is known of each trace; fields are described in `boundary_signals`."""

    near: Tensor
    argmin: Tensor
    centroid: Tensor
    tail: Tensor
    score: Tensor
    action: Tensor


def quantile_rank(counts: Tensor, quantile: float, interpolation: str) -> tuple[Tensor, Tensor, Tensor]:
    """Where the quantile of `counts` (int64, any shape) sorted values lies: at `low + weight * (high - low)`.

    The position is quantile * (n - 1) in float64, as `numpy.quantile` has it; `nearest` rounds halves to even.
    Returns low and high (int64, 0-based ranks) and weight (float64); n = 0 counts as n = 1.
    """
    position = (counts - 1).clamp(min=0).double() * quantile
    low, high = position.floor(), position.ceil()
    weight = torch.zeros_like(position)
    if interpolation == "linear":
        weight = position - low
    elif interpolation == "midpoint":
        weight = (high - low) * 0.5
    elif interpolation == "lower":
        high = low
    elif interpolation == "higher":
        low = high
    else:
        low = high = position.round()
    return low.long(), high.long(), weight


def reference(
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
    thresholds = thresholds.to(work).expand(len(traces), 3)
    floats = traces.new_zeros((len(traces), 4), dtype=work).unbind()
    ints = torch.zeros((len(traces), 2), dtype=torch.int64, device=traces.device)
    rows = list(floats)
    for b in range(len(traces)):
        if active is None or active[b]:
            vectors = pool[slots[indptr[b] : indptr[b + 1]]].to(work)
            rows[b], ints[b, 0], ints[b, 1] = row(traces[b].to(work), vectors, thresholds[b], quantile, interpolation)
    near, centroid, tail, score = (torch.stack(rows) if rows else traces.new_zeros((0, 4), dtype=work)).unbind(1)
    return BoundarySignals(near, ints[:, 0], centroid, tail, score, ints[:, 1].to(torch.int8))


def row(trace: Tensor, vectors: Tensor, thresholds: Tensor, quantile: float, interpolation: str) -> tuple[Tensor, int, int]:
    """One active row, trace `[D]` against vectors `[n, D]`: (near, centroid, tail, score) `[4]`, argmin, action."""
    if not trace.isfinite().all():
        return trace.new_full((4,), math.nan), -1, 0
    if len(vectors) == 0:
        return trace.new_full((4,), math.inf), -1, 1

    values, order = (1 - (vectors * trace).sum(1)).sort(stable=True)  # equal vectors get equal bits, unlike in a matmul
    total = vectors.sum(0)
    length = total.norm()
    centroid = 1 - (total @ trace) / length if length != 0 else torch.ones_like(length)
    low, high, weight = quantile_rank(torch.tensor(len(vectors)), quantile, interpolation)
    tail = values[low] + (values[high] - values[low]) * weight.item()

    if not (values.isfinite().all() and total.isfinite().all() and length.isfinite()):
        return trace.new_full((4,), math.nan), -1, 0
    near_ratio, centroid_ratio, tail_ratio = torch.stack((values[0], centroid, tail)) / thresholds
    score = torch.maximum(torch.minimum(near_ratio, centroid_ratio), tail_ratio)
    retrieve = (values[0] >= thresholds[0] and centroid >= thresholds[1]) or tail >= thresholds[2]
    return torch.stack((values[0], centroid, tail, score)), int(order[0]), int(retrieve)
