"""The definition of row_gumbel, which is also its CPU path."""

from __future__ import annotations

import torch
from torch import Tensor


def signed(value: int) -> int:
    """The int64 with the bits of an unsigned 64-bit constant."""
    return value - (1 << 64) if value >= 1 << 63 else value


GOLDEN = signed(0x9E3779B97F4A7C15)
CACHED = 1 << 16  # hashes at a time: 512 KiB stay in the cache
FIRST, SECOND = signed(0xBF58476D1CE4E5B9), signed(0x94D049BB133111EB)


def xor_shift(z: Tensor, bits: int) -> Tensor:
    """z ^= z >>> bits, in place. `>>` on int64 is arithmetic; the mask makes it logical."""
    return z.bitwise_xor_(z.bitwise_right_shift(bits).bitwise_and_((1 << (64 - bits)) - 1))


def scramble(z: Tensor) -> Tensor:
    """SplitMix64's finalizer without its last shift, in place; the upper 31 bits are already final."""
    xor_shift(z, 30).mul_(FIRST)
    return xor_shift(z, 27).mul_(SECOND)


def reference(seeds: Tensor, step: int | Tensor, vocab: int) -> Tensor:
    """As `row_gumbel`, with inputs unchecked."""
    steps = torch.ones_like(seeds) + step
    keys = xor_shift(scramble(seeds + steps * GOLDEN), 31)
    counters = torch.arange(1, vocab + 1, device=seeds.device) * GOLDEN
    noise = torch.empty((len(seeds), vocab), dtype=torch.float32, device=seeds.device)
    block = max(1, CACHED // vocab)
    for some_keys, rows in zip(keys.split(block), noise.split(block), strict=True):
        rows.copy_(scramble(some_keys[:, None] + counters).bitwise_right_shift_(41).bitwise_and_((1 << 23) - 1))
    # (k + 1/2) / 2^23 with 23-bit k is exact in float32 and strictly inside (0, 1)
    return noise.add_(0.5).mul_(2.0**-23).log_().neg_().log_().neg_()
