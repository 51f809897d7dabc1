"""What boundary_signals refuses, with what was expected and what was got."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from evoctx_kernels.boundary_signals.reference import INTERPOLATIONS

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def check(
    traces: Tensor,
    pool: Tensor,
    indptr: Tensor,
    slots: Tensor,
    thresholds: Tensor,
    active: Tensor | None,
    quantile: float,
    interpolation: str,
) -> None:
    """Raise ValueError (shapes, devices, options) or TypeError (dtypes) for the first input that is wrong."""
    check_kinds(traces, pool, indptr, slots, thresholds, active)
    rows = traces.shape[0]
    expect(indptr.shape == (rows + 1,), "indptr", f"[{rows + 1}] for {rows} traces", list(indptr.shape))
    expect(thresholds.shape in ((3,), (rows, 3)), "thresholds", f"[3] or [{rows}, 3]", list(thresholds.shape))
    expect(active is None or active.shape == (rows,), "active", f"[{rows}]", active is not None and list(active.shape))
    expect(0.0 <= quantile <= 1.0, "quantile", "a number in [0, 1]", quantile)
    expect(interpolation in INTERPOLATIONS, "interpolation", "one of " + ", ".join(INTERPOLATIONS), repr(interpolation))


def check_kinds(
    traces: Tensor, pool: Tensor, indptr: Tensor, slots: Tensor, thresholds: Tensor, active: Tensor | None
) -> None:
    """Ranks, dtypes, devices, layout."""
    expect(traces.dim() == 2, "traces", "[B, D]", list(traces.shape))
    expect(pool.dim() == 2 and pool.shape[1] == traces.shape[1], "pool", f"[N, {traces.shape[1]}]", list(pool.shape))
    expect(slots.dim() == 1, "slots", "[nnz]", list(slots.shape))
    expect(traces.dtype in FLOATS, "traces", "float32, float16, bfloat16 or float64", traces.dtype, TypeError)
    expect(pool.dtype == traces.dtype, "pool", f"the dtype of traces, {traces.dtype}", pool.dtype, TypeError)
    for name, tensor in (("indptr", indptr), ("slots", slots)):
        expect(tensor.dtype == torch.int64, name, "torch.int64", tensor.dtype, TypeError)
    expect(thresholds.is_floating_point(), "thresholds", "a floating dtype", thresholds.dtype, TypeError)
    expect(active is None or active.dtype == torch.bool, "active", "torch.bool", active is not None and active.dtype, TypeError)
    expect(pool.is_contiguous(), "pool", "a contiguous tensor", f"strides {pool.stride()}")
    for name, tensor in (("pool", pool), ("indptr", indptr), ("slots", slots), ("thresholds", thresholds), ("active", active)):
        expect(tensor is None or tensor.device == traces.device, name, f"device {traces.device}", tensor is not None and tensor.device)


def check_values(indptr: Tensor, slots: Tensor, thresholds: Tensor, size: int) -> None:
    """What depends on the data: on an accelerator this waits for the device. Few calls, as each costs more than its work."""
    nnz, ends = slots.shape[0], indptr.tolist()
    expect(ends[0] == 0 and ends[-1] == nnz, "indptr", f"0 first and nnz = {nnz} last", f"{ends[0]} and {ends[-1]}")
    if ends != sorted(ends):
        row = next(b for b in range(len(ends)) if ends[b + 1] < ends[b])
        expect(False, "indptr", "non-decreasing values", f"a decrease after row {row}")
    if nnz:
        low, high = map(int, slots.aminmax())
        expect(low >= 0 and high < size, "slots", f"values in [0, {size})", f"values from {low} to {high}")
    if thresholds.numel():
        low, high = map(float, thresholds.detach().aminmax())  # NaN if one is NaN
        if not (low > 0 and high < math.inf):
            usable = (thresholds > 0) & (thresholds < math.inf)
            expect(False, "thresholds", "positive finite values", thresholds[~usable][:3].tolist())


def expect(holds: bool, name: str, expected: str, got: object, error: type[Exception] = ValueError) -> None:
    """Raise unless `holds`."""
    if not holds:
        raise error(f"boundary_signals: {name}: expected {expected}, got {got}")
