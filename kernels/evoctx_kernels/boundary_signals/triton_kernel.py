"""boundary_signals on CUDA: every boundary vector is read once, with 128-bit loads.

One kernel in two variants: one warp a row up to 64 vectors, eight warps for longer rows. Which one a row gets depends on
the row alone, so that its bits do not depend on its company; both are launched over all rows, and a program whose row
is the other variant's ends after three loads. That costs less than asking the device how long the rows are.

Vectors come through shared memory, copied asynchronously STAGES − 1 tiles ahead (as registers, ptxas moves the loads
behind the work that they were to overlap). Dot products and the sum of the vectors stay in registers; the distances go
through `[nnz]` scratch, which the caches hold, because order statistics need them across lanes. FP contraction is off
and the fused multiply-adds are written out, so that roundings happen where they stand here.
"""

# ruff: noqa: RUF005 (Triton has no unpacking of tuples)
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from evoctx_kernels.boundary_signals.outputs import Outputs, allocate
from evoctx_kernels.boundary_signals.triton_select import SHORT, quantile_rank, select_long, select_short
from evoctx_kernels.boundary_signals.triton_tiles import count_outside, load_slots, load_vectors, tiling

INF = tl.constexpr(float("inf"))
MAX_DIM = 1024
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
OPTIONS = {"enable_fp_fusion": False}
# By LONG. So many registers, without spills, let 21 and 16 warps live on a multiprocessor of 65,536.
VARIANTS = {False: OPTIONS | {"num_warps": 1, "maxnreg": 96}, True: OPTIONS | {"num_warps": 8, "maxnreg": 128}}


def supports(traces: Tensor) -> bool:
    """Whether the kernel takes these traces: float32, float16 or bfloat16, D a multiple of 16 up to 1,024."""
    return traces.dtype in DTYPES and traces.shape[1] % 16 == 0 and 0 < traces.shape[1] <= MAX_DIM


def launch(
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
    """As `boundary_signals`, with `thresholds` a tensor; waits for nothing.

    Values are not checked but harmless: a row whose indptr or slots point outside is flagged like one with NaN.
    """
    if not supports(traces):
        expected = f"float32, float16 or bfloat16 [B, D] with D a multiple of 16 up to {MAX_DIM}"
        raise ValueError(f"boundary_signals: traces: expected {expected}, got {traces.dtype} {list(traces.shape)}")
    out = allocate(traces, keep)
    if len(traces) == 0:
        return out
    active = None if active is None else active.contiguous().view(torch.uint8)
    thresholds = thresholds.to(torch.float32).contiguous()
    inputs = traces.contiguous(), pool, indptr.contiguous(), slots.contiguous(), thresholds, active
    scratch = torch.empty(slots.shape, dtype=torch.float32, device=traces.device)
    kept = (out.low_at, out.high_at, out.total) if keep else (None, None, None)
    sizes = 3 if thresholds.dim() == 2 else 0, len(pool), len(slots)
    for long, options in VARIANTS.items():
        tiles = tiling(traces.shape[1], traces.element_size(), options["num_warps"])
        with torch.cuda.device_of(traces):
            boundary_signals_kernel[(len(traces),)](
                *inputs, scratch, *out[:6], *kept, *sizes, quantile, interpolation, keep, long, **tiles, **options
            )
    return out


@triton.jit(do_not_specialize=["threshold_stride", "size", "nnz"])
def boundary_signals_kernel(
    traces, pool, indptr, slots, thresholds, active, scratch,
    near_out, argmin_out, centroid_out, tail_out, score_out, action_out, low_out, high_out, total_out,
    threshold_stride, size, nnz,
    QUANTILE: tl.constexpr, INTERPOLATION: tl.constexpr, KEEP: tl.constexpr, LONG: tl.constexpr,
    D: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr, UNROLL: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Row `program_id(0)`: see `boundary_signals`. `active` may be None; `*_out` of KEEP are None without it."""
    b = tl.program_id(0).to(tl.int64)
    alive = b >= 0
    if active is not None:
        alive = tl.load(active + b) != 0
    start, end = tl.load(indptr + b), tl.load(indptr + b + 1)
    sound = (start >= 0) & (end >= start) & (end <= nnz)
    n = tl.where(alive & sound, end - start, 0).to(tl.int32)
    if (n > SHORT) == LONG:
        K: tl.constexpr = (D + C - 1) // C
        cols = tl.arange(0, C)[None, :]
        trace = ()
        totals = ()
        for j in tl.static_range(K):
            spread = tl.broadcast_to(traces + b * D + j * C + cols, [ROWS, C])  # in the layout of the tiles it meets
            trace = trace + (tl.load(spread, mask=tl.where(alive, j * C + cols < D, False), other=0).to(tl.float32),)
            totals = totals + (tl.zeros([ROWS, C], tl.float32),)

        lanes = tl.arange(0, ROWS)
        bad = tl.zeros([ROWS], tl.int32)
        for first in tl.range(0, n, UNROLL * ROWS, num_stages=STAGES):
            coming = load_slots(slots + start, first, n, ROWS, UNROLL)
            tiles = load_vectors(pool, coming, first, n, size, D, C, ROWS, UNROLL)
            bad = count_outside(bad, coming, size, UNROLL)
            for u in tl.static_range(UNROLL):
                at = first + u * ROWS + lanes
                products = tl.zeros([ROWS, C], tl.float32)
                sums = ()
                for j in tl.static_range(K):
                    x = tiles[u * K + j].to(tl.float32)
                    products = tl.fma(x, trace[j], products)
                    sums = sums + (totals[j] + x,)
                totals = sums
                distance = 1.0 - tl.sum(products, 1)
                bad += ((tl.abs(distance) == INF) | (distance != distance)).to(tl.int32)
                tl.store(scratch + start + at, distance, mask=at < n)

        along = tl.zeros([ROWS, C], tl.float32)
        squares = tl.zeros([1, C], tl.float32)
        for j in tl.static_range(K):
            total = tl.sum(totals[j], 0)[None, :]
            along = tl.fma(totals[j], trace[j], along)
            squares = tl.fma(total, total, squares)
            if KEEP:
                tl.store(total_out + b * D + j * C + cols, total, mask=(j * C + cols < D))
        along = tl.sum(tl.sum(along, 1), 0)
        length = tl.sqrt_rn(tl.sum(tl.sum(squares, 1), 0))
        centroid = tl.where(length == 0.0, 1.0, 1.0 - tl.div_rn(along, length))
        finite = (tl.abs(along) < INF) & (tl.abs(length) < INF) & (tl.sum(bad, 0) == 0) & sound

        tl.debug_barrier()
        low, high, weight = quantile_rank(n, QUANTILE, INTERPOLATION)
        if LONG:
            near, argmin, below, above, low_at, high_at = select_long(scratch + start, n, low, high, KEEP)
        else:
            near, argmin, below, above, low_at, high_at = select_short(scratch + start, n, low, high, KEEP)
        tail = below + (above - below) * weight

        empty = n == 0
        near, centroid, tail = tl.where(empty, INF, near), tl.where(empty, INF, centroid), tl.where(empty, INF, tail)
        near, centroid = tl.where(finite, near, float("nan")), tl.where(finite, centroid, float("nan"))
        tail = tl.where(finite, tail, float("nan"))
        usable = finite & (n > 0)
        taus = thresholds + b * threshold_stride
        near_tau, centroid_tau, tail_tau = tl.load(taus), tl.load(taus + 1), tl.load(taus + 2)
        inner = tl.minimum(tl.div_rn(near, near_tau), tl.div_rn(centroid, centroid_tau))
        score = tl.maximum(inner, tl.div_rn(tail, tail_tau))
        score = tl.where(finite, score, float("nan"))
        action = ((near >= near_tau) & (centroid >= centroid_tau)) | (tail >= tail_tau)

        tl.store(near_out + b, tl.where(alive, near, 0.0))
        tl.store(argmin_out + b, tl.where(alive, tl.where(usable, argmin, -1), 0).to(tl.int64))
        tl.store(centroid_out + b, tl.where(alive, centroid, 0.0))
        tl.store(tail_out + b, tl.where(alive, tail, 0.0))
        tl.store(score_out + b, tl.where(alive, score, 0.0))
        tl.store(action_out + b, (action & alive).to(tl.int8))
        if KEEP:
            tl.store(low_out + b, tl.where(usable, low_at, -1).to(tl.int64))
            tl.store(high_out + b, tl.where(usable, high_at, -1).to(tl.int64))
