"""Inputs for boundary_signals, and the float64 numpy loop that it must agree with."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

THRESHOLDS = (0.3, 0.2, 0.4)
SIZES = (0, 1, 2, 31, 64, 65, 257, 1000)


def unit(rows: int, dim: int, seed: int, dtype: torch.dtype = torch.float32, spread: float = 0.7) -> Tensor:
    """Unit vectors around a common direction, so that distances fall on both sides of the thresholds."""
    g = torch.Generator().manual_seed(seed)
    centre = torch.randn(1, dim, generator=g, dtype=torch.float64) / dim**0.5
    noise = torch.randn(rows, dim, generator=g, dtype=torch.float64) / dim**0.5
    return torch.nn.functional.normalize(centre + spread * noise, dim=1).to(dtype)


def csr(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """(indptr, slots) of rows of slots."""
    ends = np.cumsum([0, *map(len, rows)])
    return torch.from_numpy(ends), torch.tensor([s for row in rows for s in row], dtype=torch.int64)


def batch(sizes: list[int], dim: int, seed: int = 0, dtype: torch.dtype = torch.float32, pool_size: int = 300):
    """(traces, pool, indptr, slots) with rows of the given sizes; long rows repeat slots."""
    rng = np.random.default_rng(seed)
    indptr, slots = csr([rng.integers(0, pool_size, n).tolist() for n in sizes])
    vectors = unit(pool_size + len(sizes), dim, seed, dtype)
    return vectors[pool_size:].clone(), vectors[:pool_size].clone(), indptr, slots


def numpy_loop(traces, pool, indptr, slots, thresholds=THRESHOLDS, quantile=0.9, interpolation="linear"):
    """near, argmin, centroid, tail, score `[B]` in float64, question by question; non-empty finite rows only."""
    out, pool = [], pool.double().numpy()
    for b, trace in enumerate(traces.double().numpy()):
        x = pool[slots[indptr[b] : indptr[b + 1]].numpy()]
        if len(x) == 0:
            out.append((np.inf, -1, np.inf, np.inf, np.inf))
            continue
        d = 1 - x @ trace
        mean = x.mean(0)
        centroid = 1 - mean @ trace / np.linalg.norm(mean)
        tail = np.quantile(d, quantile, method=interpolation)
        score = max(min(d.min() / thresholds[0], centroid / thresholds[1]), tail / thresholds[2])
        out.append((d.min(), d.argmin(), centroid, tail, score))
    return [np.array(column) for column in zip(*out, strict=True)]
