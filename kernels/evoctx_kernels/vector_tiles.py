"""What kernels share that read pool vectors in tiles: a tile is a tuple of chunks [ROWS, C] that cover D. Imports triton."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
MAX_DIM, MAX_CHUNK = 1024, 256
TILE_BYTES = 16384


def supports(vectors: Tensor) -> bool:
    """float32, float16 or bfloat16, D a multiple of 16 up to 1,024."""
    return vectors.dtype in DTYPES and vectors.shape[1] % 16 == 0 and 0 < vectors.shape[1] <= MAX_DIM


def tiling(dim: int, itemsize: int) -> dict[str, int]:
    """A tile's shape, from D and the dtype alone: chunks of a power of two that divides D (where 8 suffice), 16 KiB in all."""
    chunk = min(dim & -dim, MAX_CHUNK)
    if dim // chunk > 8:
        chunk = 128
    rows = TILE_BYTES // (-(-dim // chunk) * chunk * itemsize)
    return {"D": dim, "C": chunk, "ROWS": min(32, 1 << (rows.bit_length() - 1))}


@triton.jit
def load_vectors(pool, slot, mask, D: tl.constexpr, C: tl.constexpr):
    """The pool's rows `slot` [ROWS] int64 in their own dtype, 0 where not `mask`."""
    columns = tl.arange(0, C)[None, :]
    chunks = ()
    for j in tl.static_range((D + C - 1) // C):
        inside = mask[:, None] & (j * C + columns < D)
        chunks = chunks + (tl.load(pool + slot[:, None] * D + (j * C + columns), mask=inside, other=0),)  # noqa: RUF005
    return chunks


@triton.jit
def dots(tile, vectors, row, D: tl.constexpr, C: tl.constexpr):
    """Dot products [ROWS] of a tile's vectors with row `row` (int64, one for all) of `vectors`, in float32."""
    columns = tl.arange(0, C)[None, :]
    total = tl.zeros(tile[0].shape, tl.float32)
    for j in tl.static_range((D + C - 1) // C):
        at = tl.broadcast_to(vectors + row * D + (j * C + columns), tile[0].shape)  # in the layout of the tile
        total = tl.fma(tile[j].to(tl.float32), tl.load(at, mask=j * C + columns < D, other=0).to(tl.float32), total)
    return tl.sum(total, 1)


@triton.jit
def finite(tile, D: tl.constexpr, C: tl.constexpr):
    """Whether each of a tile's vectors is free of NaN and infinity, [ROWS]: 0 · x is NaN iff x is not finite."""
    nought = tl.zeros(tile[0].shape, tl.float32)
    for j in tl.static_range((D + C - 1) // C):
        nought = tl.fma(tile[j].to(tl.float32), 0.0, nought)
    return tl.sum(nought, 1) == 0.0
