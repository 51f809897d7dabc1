"""Rows for gumbel_argmax: ordinary ones, and one of every kind that has no choice."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def batch(rows: int, vocab: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(logits, seeds, steps, temperature), temperatures 0, 0.7, 1 and 4 in turn."""
    g = torch.Generator().manual_seed(1000 * rows + vocab + seed)
    logits = (torch.randn(rows, vocab, generator=g, dtype=torch.float64) * 3).to(dtype)
    seeds = torch.randint(0, 2**63 - 1, (rows,), generator=g)
    return logits, seeds, torch.arange(rows) * 7, torch.tensor([0.0, 0.7, 1.0, 4.0]).repeat(rows)[:rows].contiguous()


def strange(vocab: int = 9) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, list[bool]]:
    """(logits, seeds, steps, temperature, allowed) and, of each row, whether it has a choice."""
    logits, seeds, steps, temperature = batch(14, vocab)
    temperature[:] = 1
    allowed = torch.ones_like(logits, dtype=torch.bool)
    logits[1, 3], logits[2, vocab - 1], logits[3], logits[4, 0] = math.nan, math.inf, -math.inf, -math.inf
    logits[5, 3], temperature[5] = math.nan, 0
    logits[6, 1], allowed[6, 1] = math.nan, False  # also where it may not be chosen: the row has no distribution
    allowed[7] = False
    logits[8, : vocab - 1] = -math.inf
    allowed[9, 1:] = False
    allowed[10], allowed[10, 2], logits[10, 2] = False, True, -math.inf
    temperature[11:14] = torch.tensor([-1.0, math.nan, math.inf])
    good = [True, False, False, False, True, False, False, False, True, True, False, False, False, False]
    return logits, seeds, steps, temperature, allowed, good
