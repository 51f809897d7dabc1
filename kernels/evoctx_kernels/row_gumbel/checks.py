"""What the operators of this folder refuse."""

from __future__ import annotations

import torch
from torch import Tensor

from evoctx_kernels.expect import expect

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
LONGEST = 1 << 23  # there are no more distinct values of the noise


def check_keys(operator: str, seeds: Tensor, step: int | Tensor, vocab: int) -> None:
    """Raise ValueError (shapes, sizes, devices) or TypeError (dtypes) for the first input that is wrong."""
    expect(seeds.dim() == 1, f"{operator}: seeds", "[B]", list(seeds.shape))
    expect(seeds.dtype == torch.int64, f"{operator}: seeds", "torch.int64", seeds.dtype, TypeError)
    expect(1 <= vocab <= LONGEST, f"{operator}: vocab", f"a size from 1 to {LONGEST}", vocab)
    if isinstance(step, Tensor):
        expect(step.dtype == torch.int64, f"{operator}: step", "torch.int64", step.dtype, TypeError)
        expect(step.shape == seeds.shape, f"{operator}: step", f"an int or {list(seeds.shape)}", list(step.shape))
        expect(step.device == seeds.device, f"{operator}: step", f"device {seeds.device}", step.device)


def check_choice(logits: Tensor, seeds: Tensor, steps: Tensor, temperature: Tensor, allowed: Tensor | None) -> None:
    """The same for gumbel_argmax. Values are not looked at: temperatures are judged row by row."""
    expect(logits.dim() == 2, "gumbel_argmax: logits", "[B, V]", list(logits.shape))
    expect(logits.dtype in FLOATS, "gumbel_argmax: logits", "float32, float16, bfloat16 or float64", logits.dtype, TypeError)
    check_keys("gumbel_argmax", seeds, steps, logits.shape[1])
    rows = logits.shape[0]
    for name, tensor, shape, dtype in (
        ("seeds", seeds, (rows,), torch.int64),
        ("temperature", temperature, (rows,), torch.float32),
        ("allowed", allowed, logits.shape, torch.bool),
    ):
        if tensor is not None:
            expect(tensor.shape == shape, f"gumbel_argmax: {name}", str(list(shape)), list(tensor.shape))
            expect(tensor.dtype == dtype, f"gumbel_argmax: {name}", str(dtype), tensor.dtype, TypeError)
            expect(tensor.device == logits.device, f"gumbel_argmax: {name}", f"device {logits.device}", tensor.device)
