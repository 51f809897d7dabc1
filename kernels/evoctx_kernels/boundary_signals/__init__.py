"""How far is a trace from its boundary, and does it cross it? The signals and the decision of all rows in one call."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from evoctx_kernels.boundary_signals.reference import INTERPOLATIONS, BoundarySignals, quantile_rank, reference
from evoctx_kernels.boundary_signals.registration import operator
from evoctx_kernels.pair_dots import work_dtype

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
    validate: bool | None = None,
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

    Gradients go to traces and pool, not to thresholds. They are subgradients where a choice is made: `near` is the
    distance of the vector at `argmin` alone; `tail` that of its two order statistics, with the interpolation's weights
    (of equal distances the first in the row ranks lowest); `score` that of its active branch, equal branches sharing it
    equally as in `torch.minimum` and `torch.maximum`. Rows with NaN or infinity, without boundary, or not active, and the
    centroid of vectors that cancel, give zeros. On CUDA the pool's gradient is summed by float32 atomics, so that its
    last bits vary, unless `torch.use_deterministic_algorithms(True)`; on a CPU it never varies.

    On a CPU float32 and float64 take one pass over the vectors where numba is installed, as many threads as
    `torch.get_num_threads()`; without it, and for other dtypes, it is vectorized PyTorch, which reads them twice. The two may
    differ in the last bits.

    On CUDA one launch a variant does everything and nothing waits for the device, for float32, float16 and bfloat16 with
    D a multiple of 16 up to 1,024; any other input takes the CPU's vectorized PyTorch there too, which waits. Rows may be
    of any length: one warp takes up to 64 vectors, eight warps more.

    Args:
        traces: `[B, D]` float32, float16, bfloat16 or float64; any strides.
        pool: `[N, D]`, dtype of `traces`, contiguous.
        indptr: `[B + 1]` int64. Row b's boundary is `pool[slots[indptr[b]:indptr[b + 1]]]`.
        slots: `[nnz]` int64 in [0, N); repeats count as often as they stand there.
        thresholds: (τ_near, τ_centroid, τ_tail), positive: three floats, or a tensor `[3]` or `[B, 3]`.
        active: `[B]` bool; a row that is not active is not read and gets zeros in every output.
        quantile: in [0, 1], of the position quantile · (n − 1) in the sorted distances.
        interpolation: linear, lower, higher, nearest (halves to even) or midpoint, as in `numpy.quantile`.
        validate: whether the values of indptr, slots and thresholds are checked; by default on a CPU alone, because it
            waits for the device. Unchecked, a row of the CUDA kernel or the single pass whose indptr or slots point outside is flagged like
            one with NaN; nothing outside is read.

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
        thresholds = torch.tensor(tuple(thresholds), dtype=work_dtype(traces), device=traces.device)
    validate = traces.device.type == "cpu" if validate is None else validate
    keep = torch.is_grad_enabled() and (traces.requires_grad or pool.requires_grad)
    out = operator(traces, pool, indptr, slots, thresholds, active, quantile, interpolation, validate, keep)
    return BoundarySignals(*out[:6])
