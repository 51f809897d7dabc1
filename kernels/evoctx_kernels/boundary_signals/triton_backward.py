"""The gradients of boundary_signals on CUDA, one warp a row, with float32 atomics into the pool's gradient.

Atomics add in any order: the last bits of the pool's gradient differ between runs. `backward.vectorized_backward` is what
`torch.use_deterministic_algorithms(True)` takes instead. The formulas stand in `backward`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from evoctx_kernels.boundary_signals.triton_kernel import OPTIONS


def launch(
    coefficients: Tensor,
    positions: Tensor,
    traces: Tensor,
    pool: Tensor,
    indptr: Tensor,
    slots: Tensor,
    total: Tensor,
    traces_needed: bool,
    pool_needed: bool,
) -> tuple[Tensor, Tensor]:
    """As `backward_operator`; sums into the pool's gradient are float32 whatever its dtype, and rounded once."""
    (rows, dim), (size, _) = traces.shape, pool.shape
    grad_traces = torch.empty_like(traces, memory_format=torch.contiguous_format) if traces_needed else traces.new_empty((0, dim))
    sums = torch.zeros((size if pool_needed else 0, dim), dtype=torch.float32, device=pool.device)
    if rows:
        arguments = coefficients, positions, traces.contiguous(), pool, indptr.contiguous(), slots.contiguous(), total
        with torch.cuda.device_of(traces):
            backward_kernel[(rows,)](
                *arguments, grad_traces, sums, traces_needed, pool_needed, dim, chunk(dim), **OPTIONS, num_warps=1
            )
    return grad_traces, sums.to(pool.dtype)


def chunk(dim: int) -> int:
    """Columns at a time: the largest power of two in `dim`, unless that is very short or more than registers should hold."""
    divisor = min(256, dim & -dim)
    return divisor if dim // divisor <= 8 else min(256, triton.next_power_of_2(dim))


@triton.jit
def backward_kernel(
    coefficients, positions, traces, pool, indptr, slots, total, grad_traces, grad_pool,
    TRACES: tl.constexpr, POOL: tl.constexpr, D: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Row `program_id(0)`: its trace's gradient, and its part of the gradients of the vectors in its boundary."""
    b = tl.program_id(0).to(tl.int64)
    K: tl.constexpr = (D + C - 1) // C
    cols = tl.arange(0, C)
    start, end = tl.load(indptr + b), tl.load(indptr + b + 1)
    usable = tl.load(positions + 3 * b + 1) >= 0
    n = tl.where(usable, end - start, 0).to(tl.int32)

    along_parts = tl.zeros([C], tl.float32)
    square_parts = tl.zeros([C], tl.float32)
    for j in tl.static_range(K):
        inside = tl.where(usable, j * C + cols < D, False)
        t = tl.load(traces + b * D + j * C + cols, mask=inside, other=0).to(tl.float32)
        s = tl.load(total + b * D + j * C + cols, mask=inside, other=0)
        along_parts = tl.fma(s, t, along_parts)
        square_parts = tl.fma(s, s, square_parts)
    square = tl.sum(square_parts, 0)
    solid = square > 0  # the centroid of vectors that cancel is constant
    scale = tl.where(solid, tl.div_rn(tl.load(coefficients + 4 * b + 3), tl.sqrt_rn(square)), 0.0)
    turn = tl.where(solid, tl.div_rn(tl.sum(along_parts, 0), square), 0.0)

    for j in tl.static_range(K):
        inside = tl.where(usable, j * C + cols < D, False)
        t = tl.load(traces + b * D + j * C + cols, mask=inside, other=0).to(tl.float32)
        s = tl.load(total + b * D + j * C + cols, mask=inside, other=0)
        pull = -scale * s
        for k in tl.static_range(3):
            weight = -tl.load(coefficients + 4 * b + k)
            at = tl.load(slots + start + tl.load(positions + 3 * b + k), mask=usable, other=0) * D + j * C + cols
            if TRACES:
                pull += weight * tl.load(pool + at, mask=inside, other=0).to(tl.float32)
            if POOL:
                tl.atomic_add(grad_pool + at, weight * t, mask=tl.where(weight != 0, inside, False), sem="relaxed")
        if TRACES:
            tl.store(grad_traces + b * D + j * C + cols, pull, mask=j * C + cols < D)
        if POOL:
            push = scale * (turn * s - t)
            for i in range(0, tl.where(scale != 0, n, 0)):
                slot = tl.load(slots + start + i)
                tl.atomic_add(grad_pool + slot * D + j * C + cols, push, mask=inside, sem="relaxed")
