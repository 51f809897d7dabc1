"""The random bits of all operators: a counter-based hash, so that a number belongs to (seed, step, counter) and to no batch.

    mix(z)  = SplitMix64's finalizer (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators")
    key     = mix(seed + (step + 1) · G)
    h       = mix(key + (counter + 1) · G)          G = 2⁶⁴ / golden ratio; all modulo 2⁶⁴

`hashing_triton` has the same on a device, bit for bit. Shifts are logical: torch has them on int64 only as arithmetic ones.
"""

from __future__ import annotations

import torch
from torch import Tensor


def signed(value: int) -> int:
    """The int64 with the bits of an unsigned 64-bit constant."""
    return value - (1 << 64) if value >= 1 << 63 else value


GOLDEN = signed(0x9E3779B97F4A7C15)
FIRST, SECOND = signed(0xBF58476D1CE4E5B9), signed(0x94D049BB133111EB)


def xor_shift(z: Tensor, bits: int) -> Tensor:
    """z ^= z >>> bits, in place."""
    return z.bitwise_xor_(upper_bits(z, 64 - bits))


def upper_bits(z: Tensor, bits: int) -> Tensor:
    """z >>> (64 − bits): the upper `bits` of every int64, as a number in [0, 2^bits)."""
    return z.bitwise_right_shift(64 - bits).bitwise_and_((1 << bits) - 1)


def scramble(z: Tensor) -> Tensor:
    """`mix` without its last shift, in place; the upper 31 bits are already final."""
    xor_shift(z, 30).mul_(FIRST)
    return xor_shift(z, 27).mul_(SECOND)


def mix(z: Tensor) -> Tensor:
    """SplitMix64's finalizer of int64 `z`, in place."""
    return xor_shift(scramble(z), 31)


def row_keys(seeds: Tensor, steps: Tensor | int) -> Tensor:
    """The key of each row, int64 like `seeds`: mix(seed + (step + 1) · G)."""
    return mix(seeds + (torch.ones_like(seeds) + steps) * GOLDEN)


def uniforms(seeds: Tensor, count: int, step: int = 0) -> Tensor:
    """`count` numbers a row, `[B, count]` float64: ((h >>> 12) + ½) · 2⁻⁵², exact and strictly inside (0, 1)."""
    counters = torch.arange(1, count + 1, device=seeds.device) * GOLDEN
    return upper_bits(mix(row_keys(seeds, step)[:, None] + counters), 52).double().add_(0.5).mul_(2.0**-52)
