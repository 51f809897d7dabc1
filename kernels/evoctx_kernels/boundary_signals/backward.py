"""The gradients of boundary_signals with respect to traces and pool.

With S = Σx, a trace t and upstream gradients g of the distances d_i = 1 − t·x_i and of centroid = 1 − t·S/‖S‖:

    ∂/∂t   = −Σ g_i x_i − g_c S/‖S‖
    ∂/∂x_i = −g_i t + g_c ((t·S) S/‖S‖³ − t/‖S‖)

where g_i is not zero for the nearest vector and the two order statistics of `tail` alone. So one vector a row is added to
all pool rows of its boundary, and a multiple of the trace to three of them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from evoctx_kernels.boundary_signals.outputs import Outputs
from evoctx_kernels.boundary_signals.reference import quantile_rank
from evoctx_kernels.pair_dots import work_dtype


def remember(ctx: Any, inputs: tuple, output: tuple) -> None:
    """Save what the gradients need of inputs and outputs."""
    traces, pool, indptr, slots, thresholds, _, ctx.quantile, ctx.interpolation, _, ctx.keep = inputs
    out = Outputs(*output)
    ctx.save_for_backward(traces, pool, indptr, slots, thresholds, *out)
    ctx.mark_non_differentiable(out.argmin, out.action, out.low_at, out.high_at, out.total)
    ctx.set_materialize_grads(False)


def differentiate(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    """Gradients of the operator's inputs: of traces and pool, None for all others."""
    if not ctx.keep:
        raise RuntimeError("boundary_signals: expected keep=True of the operator where gradients are taken, got keep=False")
    traces, pool, indptr, slots, thresholds, *saved = ctx.saved_tensors
    out, grads = Outputs(*saved), Outputs(*grads)
    work = work_dtype(traces)
    near, centroid, tail = (torch.zeros_like(out.near) if g is None else g for g in (grads.near, grads.centroid, grads.tail))
    if grads.score is not None:
        # Equal branches of min and max share the gradient, as they do in torch.minimum and torch.maximum.
        near_tau, centroid_tau, tail_tau = thresholds.to(work).expand(len(traces), 3).unbind(1)
        near_ratio, centroid_ratio = out.near / near_tau, out.centroid / centroid_tau
        inner = share(torch.minimum(near_ratio, centroid_ratio) - out.tail / tail_tau)
        nearer = share(centroid_ratio - near_ratio)
        near = near + grads.score * inner * nearer / near_tau
        centroid = centroid + grads.score * inner * (1 - nearer) / centroid_tau
        tail = tail + grads.score * (1 - inner) / tail_tau
    weight = quantile_rank(indptr.diff(), ctx.quantile, ctx.interpolation)[2].to(work)
    usable = out.low_at >= 0  # not where: NaN and infinity, an empty boundary, not active
    coefficients = torch.stack((near, tail * (1 - weight), tail * weight, centroid), dim=1)
    coefficients = torch.where(usable[:, None], coefficients, 0)
    positions = torch.stack((out.argmin, out.low_at, out.high_at), dim=1)
    traces_needed, pool_needed = ctx.needs_input_grad[:2]
    deterministic = torch.are_deterministic_algorithms_enabled()
    grad_traces, grad_pool = backward_operator(
        coefficients, positions, traces, pool, indptr, slots, out.total, traces_needed, pool_needed, deterministic
    )
    return (grad_traces if traces_needed else None, grad_pool if pool_needed else None, *(None,) * 8)


def share(ahead: Tensor) -> Tensor:
    """What part of a gradient goes to the branch that is `ahead`: 1, 0, or half of it at equality."""
    return (1 + torch.sign(ahead)) / 2


@torch.library.custom_op("evoctx::boundary_signals_backward", mutates_args=())
def backward_operator(
    coefficients: Tensor,
    positions: Tensor,
    traces: Tensor,
    pool: Tensor,
    indptr: Tensor,
    slots: Tensor,
    total: Tensor,
    traces_needed: bool,
    pool_needed: bool,
    deterministic: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients `[B, D]` of traces and `[N, D]` of pool, in their dtypes; without rows where they are not needed.

    Args:
        coefficients: `[B, 4]`, gradients of the distances at the three `positions` and of centroid; 0 in unusable rows.
        positions: `[B, 3]` int64, in the row: nearest, low and high order statistic; the last two −1 in unusable rows.
        traces, pool, indptr, slots: as they were given to the forward.
        total: `[B, D]`, the sums of the boundaries' vectors.
        traces_needed, pool_needed: which gradients are wanted.
        deterministic: whether the order of all sums must be fixed; on a CPU it always is.
    """
    return vectorized_backward(coefficients, positions, traces, pool, indptr, slots, total, traces_needed, pool_needed)


@backward_operator.register_kernel("cuda")
def _(coefficients, positions, traces, pool, indptr, slots, total, traces_needed, pool_needed, deterministic):
    from evoctx_kernels.boundary_signals.triton_backward import launch  # the package imports without triton
    from evoctx_kernels.boundary_signals.triton_kernel import supports

    if deterministic or not supports(traces):
        return vectorized_backward(coefficients, positions, traces, pool, indptr, slots, total, traces_needed, pool_needed)
    return launch(coefficients, positions, traces, pool, indptr, slots, total, traces_needed, pool_needed)


@backward_operator.register_fake
def _(coefficients, positions, traces, pool, indptr, slots, total, traces_needed, pool_needed, deterministic):
    return wanted(traces, traces_needed), wanted(pool, pool_needed)


def wanted(tensor: Tensor, needed: bool) -> Tensor:
    """Room for the gradient of a matrix, or for none."""
    return tensor.new_empty((tensor.shape[0] if needed else 0, tensor.shape[1]))


def vectorized_backward(
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
    """As `backward_operator`, in a fixed order on every device: the pool's gradient is summed slot by slot."""
    grad_traces, grad_pool = wanted(traces, traces_needed), wanted(pool, pool_needed)
    if len(slots) == 0 or len(traces) == 0:
        return grad_traces.zero_(), grad_pool.zero_()
    usable = positions[:, 1:2] >= 0
    t = torch.where(usable, traces.to(total.dtype), 0)  # where, not times zero: rows that are not usable may hold NaN
    total = torch.where(usable, total, 0)
    square = total.square().sum(dim=1, keepdim=True)
    solid = square > 0  # the centroid of vectors that cancel is constant
    scale = torch.where(solid, coefficients[:, 3:] / square.sqrt(), 0)
    weights = -coefficients[:, :3]
    slots = slots.clamp(0, len(pool) - 1)
    picked = slots[(indptr[:-1, None] + positions).clamp(0, len(slots) - 1)]
    if traces_needed:
        right = pool if pool.dtype == total.dtype else pool[picked.flatten()].to(total.dtype)
        at = picked if right is pool else torch.arange(picked.numel(), device=pool.device).view_as(picked)
        pulls = embedding_bag(at, right, mode="sum", per_sample_weights=weights)
        grad_traces = torch.where(usable, pulls - scale * total, 0).to(traces.dtype)
    if pool_needed:
        pushes = scale * (torch.where(solid, (t * total).sum(dim=1, keepdim=True) / square, 0) * total - t)
        grad_pool = scatter(pushes, t, weights, indptr, slots, picked, len(pool)).to(pool.dtype)
    return grad_traces, grad_pool


def scatter(pushes: Tensor, t: Tensor, weights: Tensor, indptr: Tensor, slots: Tensor, picked: Tensor, size: int) -> Tensor:
    """`[size, D]`: row b of `pushes` added to all its slots, and multiples of its trace to the three picked ones.

    The transposed CSR: entries sorted by slot, in the order of rows where slots are equal, and one sum a slot.
    """
    rows = torch.arange(len(t), device=t.device)
    owners = rows.repeat_interleave(indptr.diff(), output_size=len(slots))
    target, order = torch.cat((slots, picked.flatten())).sort(stable=True)
    source = torch.cat((owners, len(t) + rows.repeat_interleave(3)))[order]
    factors = torch.cat((t.new_ones(len(slots)), weights.flatten()))[order]
    offsets = torch.searchsorted(target, torch.arange(size + 1, device=t.device))
    return embedding_bag(
        source, torch.cat((pushes, t)), offsets, mode="sum", per_sample_weights=factors, include_last_offset=True
    )
