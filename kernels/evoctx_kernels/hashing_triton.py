"""`hashing` on a device: the same bits, as functions that kernels inline. Imports triton; see `hashing` for the formulas."""

from __future__ import annotations

import triton
import triton.language as tl

GOLDEN = tl.constexpr(0x9E3779B97F4A7C15)
FIRST, SECOND = tl.constexpr(0xBF58476D1CE4E5B9), tl.constexpr(0x94D049BB133111EB)


@triton.jit
def scramble(z):
    """`mix` without its last shift; the upper 31 bits are already final. `z` is uint64 of any shape."""
    z = (z ^ (z >> 30)) * FIRST
    return (z ^ (z >> 27)) * SECOND


@triton.jit
def mix(z):
    """SplitMix64's finalizer of uint64 `z`."""
    z = scramble(z)
    return z ^ (z >> 31)


@triton.jit
def row_keys(seeds, steps):
    """The key of each row, uint64: mix(seed + (step + 1) · G), for int64 seeds and steps."""
    return mix(seeds.to(tl.uint64) + (steps + 1).to(tl.uint64) * GOLDEN)


@triton.jit
def counted(keys, counters):
    """What `mix` (or `scramble`, where 31 bits are enough) makes of counter c of a key: key + (c + 1) · G, uint64."""
    return keys + (counters + 1).to(tl.uint64) * GOLDEN


@triton.jit
def uniforms(keys, counters):
    """float64 strictly inside (0, 1): ((h >>> 12) + ½) · 2⁻⁵². Through int64, whose conversion is one instruction."""
    return ((mix(counted(keys, counters)) >> 12).to(tl.int64).to(tl.float64) + 0.5) * 2.220446049250313e-16
