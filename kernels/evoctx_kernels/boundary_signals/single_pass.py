"""boundary_signals in one pass over the vectors: the path of a CPU where numba is installed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from evoctx_kernels.boundary_signals.numba_kernel import longest, read_rows
from evoctx_kernels.boundary_signals.outputs import Outputs, allocate
from evoctx_kernels.boundary_signals.reference import quantile_rank

SHARE = 8192  # vectors that are worth a thread


def single_pass(
    traces: Tensor,
    pool: Tensor,
    indptr: Tensor,
    slots: Tensor,
    thresholds: Tensor,
    active: Tensor | None = None,
    quantile: float = 0.9,
    interpolation: str = "linear",
    keep: bool = False,
) -> Outputs:
    """As `vectorized`, for float32 and float64 on a CPU. A row whose indptr or slots point outside is flagged as one with NaN."""
    out, rows = allocate(traces, keep), len(traces)
    tensors = traces, pool, indptr, slots, thresholds.to(out.near.dtype).reshape(-1, 3)
    given = [x.detach().contiguous().numpy() for x in tensors]
    rank = ranks(1 << longest(given[2], given[3]).bit_length(), quantile, interpolation)
    given.append(np.ones(rows, np.bool_) if active is None else active.contiguous().numpy())
    threads = max(1, min(torch.get_num_threads(), rows, len(slots) // SHARE))

    def share(part: int) -> None:
        read_rows(rows * part // threads, rows * (part + 1) // threads, *given, *rank, keep, *(x.numpy() for x in out))

    if threads == 1:
        share(0)
    else:
        with ThreadPoolExecutor(threads) as workers:
            list(workers.map(share, range(threads)))
    return out


@lru_cache(maxsize=64)
def ranks(size: int, quantile: float, interpolation: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`quantile_rank` of 0 to `size` values, to be looked up."""
    low, high, weight = quantile_rank(torch.arange(size + 1), quantile, interpolation)
    return low.numpy(), high.numpy(), weight.numpy()
