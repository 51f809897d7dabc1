"""The registered operator: which path a device takes, what tracing sees, how it differentiates."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from evoctx_kernels.boundary_signals.backward import differentiate, remember
from evoctx_kernels.boundary_signals.checks import check, check_values
from evoctx_kernels.boundary_signals.cpu import vectorized
from evoctx_kernels.boundary_signals.outputs import Outputs, allocate
from evoctx_kernels.pair_dots import work_dtype


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
    validate: bool,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """`Outputs`; with `keep` the last three are filled, and gradients can be taken."""
    path = fastest_of_cpu() if traces.is_cpu and traces.dtype == work_dtype(traces) else vectorized
    return tuple(run(path, traces, pool, indptr, slots, thresholds, active, quantile, interpolation, validate, keep))


@operator.register_kernel("cuda")
def _(traces, pool, indptr, slots, thresholds, active, quantile, interpolation, validate, keep):
    from evoctx_kernels.boundary_signals.triton_kernel import launch, supports  # the package imports without triton

    path = launch if supports(traces) else vectorized
    return tuple(run(path, traces, pool, indptr, slots, thresholds, active, quantile, interpolation, validate, keep))


@lru_cache(maxsize=1)
def fastest_of_cpu() -> Callable[..., Outputs]:
    """One compiled pass where numba can be imported, PyTorch's own functions otherwise."""
    try:
        from evoctx_kernels.boundary_signals.single_pass import single_pass
    except ImportError:
        return vectorized
    return single_pass


def run(path, traces, pool, indptr, slots, thresholds, active, quantile, interpolation, validate, keep) -> Outputs:
    """Check, and take the path unless there is nothing to do."""
    check(traces, pool, indptr, slots, thresholds, active, quantile, interpolation)
    if validate or (path is vectorized and not traces.is_cpu):  # which would index outside, and waits for the device anyway
        check_values(indptr, slots, thresholds, len(pool))
    if len(traces) == 0:
        return allocate(traces, keep)
    return path(traces, pool, indptr, slots, thresholds, active, quantile, interpolation, keep)


@operator.register_fake
def _(traces, pool, indptr, slots, thresholds, active, quantile, interpolation, validate, keep):
    return tuple(allocate(traces, keep))


operator.register_autograd(differentiate, setup_context=remember)
