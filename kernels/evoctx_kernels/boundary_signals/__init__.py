"""How far is a trace from its boundary, and does it cross it? The signals and the decision of all rows in one call."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from evoctx_kernels.boundary_signals.checks import check
from evoctx_kernels.boundary_signals.cpu import vectorized
from evoctx_kernels.boundary_signals.reference import INTERPOLATIONS, BoundarySignals, quantile_rank, reference

__all__ = ["INTERPOLATIONS", "BoundarySignals", "boundary_signals", "quantile_rank", "reference"]


def boundary_signals(
    traces: Tensor,
    pool: Tensor,
    indptr: Tensor,
    slots: Tensor,
    thresholds: Sequence[float] | Tensor = (0.3, 0.2, 0.4),
    *,
    active: Tensor | None = None,
    quantile: float = 0.9,
    interpolation: str = "linear",
) -> BoundarySignals:
    """Cosine distances of B traces to their boundaries, and the action they imply (EvoCtx, arXiv 2601.08747).

    With t a trace and x_1 … x_n the vectors of its boundary, d_i = 1 − t·x_i on the vectors as stored (unit norm is
    the caller's business; nothing is clamped):

        near     = min d_i
        centroid = 1 − t·Σx / ‖Σx‖       (the cosine distance to the mean; 1 where ‖Σx‖ = 0)
        tail     = the `quantile` of d
        score    = max(min(near/τ_near, centroid/τ_centroid), tail/τ_tail)
        action   = RETRIEVE iff (near ≥ τ_near and centroid ≥ τ_centroid) or tail ≥ τ_tail

    which is RETRIEVE iff score ≥ 1, equality included: the action is decided by comparisons, the division is rounded
    to nearest. Everything is computed in float32 (float64 for float64 inputs), thresholds cast to it once.

    Args:
        traces: `[B, D]` float32, float16, bfloat16 or float64; any strides.
        pool: `[N, D]`, dtype of `traces`, contiguous.
        indptr: `[B + 1]` int64. Row b's boundary is `pool[slots[indptr[b]:indptr[b + 1]]]`.
        slots: `[nnz]` int64 in [0, N); repeats count as often as they stand there.
        thresholds: (τ_near, τ_centroid, τ_tail), positive: three floats, or a tensor `[3]` or `[B, 3]`.
        active: `[B]` bool; a row that is not active is not read and gets zeros in every output.
        quantile: in [0, 1], of the position quantile · (n − 1) in the sorted distances.
        interpolation: linear, lower, higher, nearest (halves to even) or midpoint, as in `numpy.quantile`.

    Returns:
        `near`, `centroid`, `tail`, `score` `[B]` float32 (float64 for float64 inputs); `argmin` `[B]` int64, the
        position of the nearest vector inside the row, the lowest of equals; `action` `[B]` int8, 1 RETRIEVE, 0 THINK.
        A row with NaN or infinity in its trace or boundary: NaN, argmin −1, THINK. Otherwise an empty boundary: +inf,
        argmin −1, RETRIEVE. A row's outputs have the same bits alone and in any batch.

    Raises:
        ValueError: a shape, device, layout, slot, indptr, threshold, quantile or interpolation is wrong.
        TypeError: a dtype is wrong.
    """
    if not isinstance(thresholds, Tensor):
        work = torch.float64 if traces.dtype == torch.float64 else torch.float32
        thresholds = torch.tensor(tuple(thresholds), dtype=work, device=traces.device)
    return BoundarySignals(*operator(traces, pool, indptr, slots, thresholds, active, quantile, interpolation))


@torch.library.custom_op("evoctx::boundary_signals", mutates_args=())
def operator(
    traces: Tensor,
    pool: Tensor,
    indptr: Tensor,
    slots: Tensor,
    thresholds: Tensor,
    active: Tensor | None,
    quantile: float,
    interpolation: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The registered operator; devices with a kernel of their own register it with `operator.register_kernel`."""
    check(traces, pool, indptr, slots, thresholds, active, quantile, interpolation)
    if traces.shape[0] == 0:
        return empty_outputs(traces)
    return tuple(vectorized(traces, pool, indptr, slots, thresholds, active, quantile, interpolation))


@operator.register_fake
def _(traces, pool, indptr, slots, thresholds, active, quantile, interpolation):
    return empty_outputs(traces)


def empty_outputs(traces: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Uninitialized outputs of the right shapes and dtypes."""
    rows = traces.shape[0]
    work = torch.float64 if traces.dtype == torch.float64 else torch.float32
    near, centroid, tail, score = (traces.new_empty(rows, dtype=work) for _ in range(4))
    return near, traces.new_empty(rows, dtype=torch.int64), centroid, tail, score, traces.new_empty(rows, dtype=torch.int8)
