"""How the vectors of one row are read, inside a kernel."""

# ruff: noqa: RUF005 (Triton has no unpacking of tuples)
from __future__ import annotations

import triton
import triton.language as tl


def tiling(dim: int, itemsize: int, warps: int) -> dict[str, int]:
    """Shapes of the tiles, and how many are on their way: from what a row is alone. A warp's instruction reads 512 bytes.

    A vector is read in chunks of `C`, its largest power of two, unless that makes more than 8 chunks: then in one
    chunk, padded. Short chunks leave lanes for `ROWS` vectors side by side, and few loads for UNROLL tiles a trip.
    """
    chunk = dim & -dim
    if dim // chunk > 8:
        chunk = triton.next_power_of_2(dim)
    rows = max(1, 512 // (chunk * itemsize))
    loads = -(-dim // chunk) * max(1, chunk * itemsize // 512)
    shape = {"D": dim, "C": chunk, "ROWS": rows * warps}
    return shape | {"UNROLL": max(1, 4 // loads), "STAGES": 3 if loads < 8 else 2}


@triton.jit
def load_slots(slots, first, n, ROWS: tl.constexpr, UNROLL: tl.constexpr):
    """Slots of the entries `first` … of a row, UNROLL times ROWS of them; 0 beyond the row."""
    found = ()
    for u in tl.static_range(UNROLL):
        at = first + u * ROWS + tl.arange(0, ROWS)
        found = found + (tl.load(slots + at, mask=at < n, other=0),)
    return found


@triton.jit
def load_vectors(pool, slots, first, n, size, D: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr, UNROLL: tl.constexpr):
    """Vectors of those slots, in UNROLL times D / C tiles [ROWS, C]; zeros beyond the row and outside of the pool."""
    cols = tl.arange(0, C)[None, :]
    tiles = ()
    for u in tl.static_range(UNROLL):
        slot = slots[u]
        inside = ((first + u * ROWS + tl.arange(0, ROWS) < n) & (slot >= 0) & (slot < size))[:, None]
        for j in tl.static_range((D + C - 1) // C):
            mask = inside if D % C == 0 else inside & (j * C + cols < D)
            tiles = tiles + (tl.load(pool + slot[:, None] * D + (j * C + cols), mask=mask, other=0),)
    return tiles


@triton.jit
def count_outside(bad, slots, size, UNROLL: tl.constexpr):
    """`bad` plus, by lane, how many of the slots are outside of the pool."""
    for u in tl.static_range(UNROLL):
        bad += ((slots[u] < 0) | (slots[u] >= size)).to(tl.int32)
    return bad
