"""What sample_votes refuses, with what was expected and what was got."""

from __future__ import annotations

import torch
from torch import Tensor

from evoctx_kernels.expect import expect
from evoctx_kernels.majority_vote import ABSTAIN, LOWEST

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
MOST_VOTES, MOST_OPTIONS = 64, 8


def check(logits: Tensor, seeds: Tensor, k: int, temperature: Tensor, tie: int) -> None:
    """Raise ValueError or TypeError for the first input that is wrong. Values are not looked at: rows are judged one by one."""
    what = "sample_votes: "
    expect(logits.dim() == 2, what + "logits", "[B, O]", list(logits.shape))
    rows, options = logits.shape
    expect(1 <= options <= MOST_OPTIONS, what + "logits", f"[B, O] with O from 1 to {MOST_OPTIONS}", list(logits.shape))
    expect(logits.dtype in FLOATS, what + "logits", "float32, float16, bfloat16 or float64", logits.dtype, TypeError)
    expect(seeds.shape == (rows,), what + "seeds", f"[{rows}]", list(seeds.shape))
    expect(seeds.dtype == torch.int64, what + "seeds", "torch.int64", seeds.dtype, TypeError)
    expect(1 <= k <= MOST_VOTES, what + "k", f"1 to {MOST_VOTES} votes", k)
    expect(temperature.shape in ((1,), (rows,)), what + "temperature", f"a float or [{rows}]", list(temperature.shape))
    expect(temperature.dtype in FLOATS, what + "temperature", "a floating dtype", temperature.dtype, TypeError)
    for name, tensor in (("seeds", seeds), ("temperature", temperature)):
        expect(tensor.device == logits.device, what + name, f"device {logits.device}", tensor.device)
    expect(LOWEST <= tie < options, what + "tie", f"an option in [0, {options}), {ABSTAIN} or {LOWEST}", tie)
