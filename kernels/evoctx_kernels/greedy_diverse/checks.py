"""What greedy_diverse refuses."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from evoctx_kernels.expect import expect

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def check(pool: Tensor, slots: Tensor, threshold: float, k: int) -> None:
    """Raise ValueError (shapes, devices, numbers) or TypeError (dtypes) for the first input that is wrong."""
    expect(pool.dim() == 2, "greedy_diverse: candidates", "[N, D] with slots, or [B, K, D] without", list(pool.shape))
    expect(slots.dim() == 2, "greedy_diverse: slots", "[B, K]", list(slots.shape))
    expect(pool.dtype in FLOATS, "greedy_diverse: candidates", "float32, float16, bfloat16 or float64", pool.dtype, TypeError)
    expect(slots.dtype == torch.int64, "greedy_diverse: slots", "torch.int64", slots.dtype, TypeError)
    expect(pool.is_contiguous(), "greedy_diverse: candidates", "a contiguous pool", f"strides {pool.stride()}")
    expect(slots.device == pool.device, "greedy_diverse: slots", f"device {pool.device}", slots.device)
    expect(not math.isnan(threshold), "greedy_diverse: threshold", "a number", threshold)
    expect(k >= 1, "greedy_diverse: k", "at least 1", k)


def check_values(slots: Tensor, size: int) -> None:
    """The range of the slots: on an accelerator this waits for the device."""
    if slots.numel():
        low, high = (x.item() for x in slots.aminmax())
        expect(low >= -1 and high < size, "greedy_diverse: slots", f"values in [0, {size}), or -1", f"values from {low} to {high}")
