"""The definitions: a row's Gumbel noise, and the choice of its token. Plain PyTorch, exact in float64 for float64 logits."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from evoctx_kernels.hashing import GOLDEN, row_keys, scramble, upper_bits

CACHED = 1 << 16  # hashes at a time: 512 KiB stay in the cache


class GumbelChoice(NamedTuple):
    """The token of each row; fields are described in `gumbel_argmax`."""

    token: Tensor
    logprob: Tensor


def counters(vocab: int, device: torch.device) -> Tensor:
    """What each token `[V]` adds to a row's key, int64: (token + 1) · G."""
    return torch.arange(1, vocab + 1, device=device).mul_(GOLDEN)


def gumbel(counted: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The noise of `counted` = key + counter (int64, used up): -log(-log u) with u = (upper 23 hashed bits + 1/2) / 2^23.

    u is exact in float32 and strictly inside (0, 1).
    """
    return upper_bits(scramble(counted), 23).to(dtype).add_(0.5).mul_(2.0**-23).log_().neg_().log_().neg_()


def row_noise(seeds: Tensor, step: int | Tensor, vocab: int) -> Tensor:
    """As `row_gumbel`, with inputs unchecked."""
    keys, counts = row_keys(seeds, step)[:, None], counters(vocab, seeds.device)
    noise = torch.empty((len(seeds), vocab), dtype=torch.float32, device=seeds.device)
    block = max(1, CACHED // vocab)
    for some_keys, rows in zip(keys.split(block), noise.split(block), strict=True):
        rows.copy_(gumbel(some_keys + counts))
    return noise


def reference(logits: Tensor, seeds: Tensor, steps: Tensor, temperature: Tensor, allowed: Tensor | None = None) -> GumbelChoice:
    """As `gumbel_argmax`, row after row, with `steps` and `temperature` tensors `[B]` and inputs unchecked."""
    work = torch.float64 if logits.dtype == torch.float64 else torch.float32
    choice = no_choice(logits)
    counts = counters(logits.shape[1], logits.device)
    for b, key in enumerate(row_keys(seeds, steps)):
        row, warmth = logits[b].to(work), float(temperature[b])
        if row.isnan().any() or (row == math.inf).any() or not 0 <= warmth < math.inf:
            continue
        scores = row if warmth == 0 else row / temperature[b].to(work) + gumbel(key + counts, work)
        if allowed is not None:
            scores = scores.masked_fill(~allowed[b], -math.inf)
        if scores.max() > -math.inf:
            choice.token[b] = token = int((scores == scores.max()).nonzero()[0])
            choice.logprob[b] = row.log_softmax(0)[token]
    return choice


def no_choice(logits: Tensor) -> GumbelChoice:
    """Outputs that flag every row."""
    rows, work = logits.shape[0], torch.float64 if logits.dtype == torch.float64 else torch.float32
    return GumbelChoice(logits.new_full((rows,), -1, dtype=torch.int64), logits.new_full((rows,), math.nan, dtype=work))
