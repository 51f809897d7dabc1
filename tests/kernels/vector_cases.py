"""Vectors for greedy_diverse and max_similarity: a pool in clusters, so that neighbours are close, some equal."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def clustered(size: int, dim: int, seed: int = 0, dtype: torch.dtype = torch.float32, clusters: int = 10, spread: float = 0.45) -> Tensor:
    """`[size, dim]` unit vectors; cosines inside a cluster lie around 0.83, the last vector equals the first."""
    g = torch.Generator().manual_seed(seed)
    centers = normalize(torch.randn(clusters, dim, generator=g, dtype=torch.float64), dim=1)
    noise = normalize(torch.randn(size, dim, generator=g, dtype=torch.float64), dim=1)
    vectors = normalize(centers[torch.randint(0, clusters, (size,), generator=g)] + spread * noise, dim=1)
    if size > 1:
        vectors[-1] = vectors[0]
    return vectors.to(dtype)


def ranked(rows: int, width: int, size: int, seed: int = 0, holes: float = 0.1) -> Tensor:
    """`[rows, width]` slots in [0, size), a share of them −1."""
    g = torch.Generator().manual_seed(seed)
    slots = torch.randint(0, size, (rows, width), generator=g)
    return slots.masked_fill(torch.rand(rows, width, generator=g) < holes, -1)


def csr(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    counts = torch.tensor([0] + [len(row) for row in rows])
    return counts.cumsum(0), torch.tensor([slot for row in rows for slot in row], dtype=torch.int64)


def greedy_by_hand(pool: Tensor, slots: Tensor, threshold: float, k: int) -> list[list[int]]:
    """The filter in numpy and float64."""
    vectors, out = pool.double().numpy(), []
    for row in slots.tolist():
        kept: list[int] = []
        for position, slot in enumerate(row):
            if slot >= 0 and len(kept) < k and all(vectors[slot] @ vectors[row[other]] <= threshold for other in kept):
                kept.append(position)
        out.append(kept)
    return out


def decided(pool: Tensor, threshold: float, band: float = 2e-6) -> bool:
    """Whether no pair of the pool lies so close to the threshold that rounding may decide."""
    vectors = pool.double().numpy()
    return bool((np.abs(vectors @ vectors.T - threshold) > band).all())


def same_bits(a, b) -> bool:
    return all(torch.equal(x.nan_to_num(nan=7.0), y.nan_to_num(nan=7.0)) for x, y in zip(a, b, strict=True))
