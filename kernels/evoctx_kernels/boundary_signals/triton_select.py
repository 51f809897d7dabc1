"""Order statistics of one row's distances, inside a kernel: exact, and tie-stable in their positions."""

from __future__ import annotations

import triton
import triton.language as tl

SHORT = tl.constexpr(64)  # entries in the longest row of `select_short`
BLOCK = tl.constexpr(1024)  # entries that `select_long` looks at at a time
INF = tl.constexpr(float("inf"))


@triton.jit
def quantile_rank(n, QUANTILE: tl.constexpr, INTERPOLATION: tl.constexpr):
    """As `reference.quantile_rank`, in float64 like there: (low, high, weight)."""
    position = tl.maximum(n - 1, 0).to(tl.float64) * QUANTILE
    low, high = tl.floor(position), tl.ceil(position)
    weight = position - low
    if INTERPOLATION == "midpoint":
        weight = (high - low) * 0.5
    elif INTERPOLATION == "lower":
        high = low
    elif INTERPOLATION == "higher":
        low = high
    elif INTERPOLATION == "nearest":
        half = weight == 0.5
        odd = low - 2.0 * tl.floor(low * 0.5)
        low = tl.where((weight > 0.5) | (half & (odd == 1.0)), high, low)
        high = low
    if INTERPOLATION != "linear" and INTERPOLATION != "midpoint":
        weight = weight * 0.0
    return low.to(tl.int32), high.to(tl.int32), weight.to(tl.float32)


@triton.jit
def select_short(distances, n, low, high, KEEP: tl.constexpr):
    """Smallest of up to 64 distances, its position, the values of ranks `low` and `high` and (KEEP) their positions."""
    at = tl.arange(0, SHORT)
    d = tl.load(distances + at, mask=at < n, other=INF)
    ordered = tl.sort(d)
    near = tl.sum(tl.where(at == 0, ordered, 0.0), 0)
    below = tl.sum(tl.where(at == low, ordered, 0.0), 0)
    above = tl.sum(tl.where(at == high, ordered, 0.0), 0)
    argmin = tl.min(tl.where(d == near, at, SHORT), 0)
    low_at, high_at = 0, 0
    if KEEP:  # of equal distances, the first in the row has the lowest rank; both counts in one scan
        equal_low, equal_high = d == below, d == above
        counts = tl.cumsum(equal_low.to(tl.int32) + (equal_high.to(tl.int32) << 16), 0)
        low_wanted = low + 1 - tl.sum((d < below).to(tl.int32), 0)
        high_wanted = high + 1 - tl.sum((d < above).to(tl.int32), 0)
        low_at = tl.sum(tl.where(equal_low & ((counts & 0xFFFF) == low_wanted), at, 0), 0)
        high_at = tl.sum(tl.where(equal_high & ((counts >> 16) == high_wanted), at, 0), 0)
    return near, argmin, below, above, low_at, high_at


@triton.jit
def keys_of(distances, at, n):
    """Distances `at` as int32 keys in the same order; the largest key beyond the row."""
    bits = tl.load(distances + at, mask=at < n, other=0).to(tl.int32, bitcast=True)
    return tl.where(at < n, bits ^ ((bits >> 31) & 0x7FFFFFFF), 0x7FFFFFFF)


@triton.jit
def value_of(key):
    """The distance of a key."""
    return (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def select_long(distances, n, low, high, KEEP: tl.constexpr):
    """As `select_short` for rows of any length, by exact bisection over the 32 bits of order-preserving keys."""
    at = tl.arange(0, BLOCK)
    low_key, bit = -0x80000000, -0x80000000
    for _ in range(0, 32):
        guess = low_key ^ bit
        fewer = 0
        for first in range(0, n, BLOCK):
            fewer += tl.sum((keys_of(distances, first + at, n) < guess).to(tl.int32), 0)
        low_key = tl.where(fewer <= low, guess, low_key)
        bit = (bit >> 1) & 0x7FFFFFFF

    smallest, next_key, up_to_low = 0x7FFFFFFF, 0x7FFFFFFF, 0
    for first in range(0, n, BLOCK):
        keys = keys_of(distances, first + at, n)
        smallest = tl.minimum(smallest, tl.min(keys, 0))
        next_key = tl.minimum(next_key, tl.min(tl.where(keys > low_key, keys, 0x7FFFFFFF), 0))
        up_to_low += tl.sum((keys <= low_key).to(tl.int32), 0)
    high_key = tl.where(high < up_to_low, low_key, next_key)

    argmin = locate(distances, n, smallest, 0)
    low_at, high_at = 0, 0
    if KEEP:
        low_at, high_at = locate(distances, n, low_key, low), locate(distances, n, high_key, high)
    return value_of(smallest), argmin, value_of(low_key), value_of(high_key), low_at, high_at


@triton.jit
def locate(distances, n, key, rank):
    """Position of the entry with `rank` among the sorted ones, its key being known; equal ones rank as they stand."""
    at = tl.arange(0, BLOCK)
    fewer = 0
    for first in range(0, n, BLOCK):
        fewer += tl.sum((keys_of(distances, first + at, n) < key).to(tl.int32), 0)
    seen, position = fewer, 0
    for first in range(0, n, BLOCK):
        equal = (keys_of(distances, first + at, n) == key) & (first + at < n)
        ranks = seen + tl.cumsum(equal.to(tl.int32), 0) - 1
        position += tl.sum(tl.where(equal & (ranks == rank), first + at, 0), 0)
        seen += tl.sum(equal.to(tl.int32), 0)
    return position
