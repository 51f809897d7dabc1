"""What the registered operator returns: the signals, and what its backward needs of the forward."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from evoctx_kernels.pair_dots import work_dtype


class Outputs(NamedTuple):
    """`BoundarySignals`, then what is kept for gradients (without rows where nothing is kept)."""

    near: Tensor
    argmin: Tensor
    centroid: Tensor
    tail: Tensor
    score: Tensor
    action: Tensor
    low_at: Tensor  # [B] or [0] int64: positions of the two order statistics of `tail`, −1 in rows without gradient
    high_at: Tensor
    total: Tensor  # [B, D] or [0, D] float32 (float64 for float64 inputs): the sums of the boundaries' vectors


def allocate(traces: Tensor, keep: bool) -> Outputs:
    """Uninitialized outputs."""
    rows, dim = traces.shape
    kept, work = rows if keep else 0, work_dtype(traces)
    near, centroid, tail, score = (traces.new_empty(rows, dtype=work) for _ in range(4))
    argmin, action = traces.new_empty(rows, dtype=torch.int64), traces.new_empty(rows, dtype=torch.int8)
    low_at, high_at = (traces.new_empty(kept, dtype=torch.int64) for _ in range(2))
    return Outputs(near, argmin, centroid, tail, score, action, low_at, high_at, traces.new_empty((kept, dim), dtype=work))
