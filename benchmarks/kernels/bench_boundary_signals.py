"""boundary_signals against what one would write without it: a numpy loop over questions, and padded torch.

    OMP_NUM_THREADS=1 python -m pytest benchmarks/kernels/bench_boundary_signals.py --benchmark-columns=min,median,rounds

CPU seconds on one thread, D = 384 float32, boundaries of 1 to 63 vectors out of a pool of 20,000. The table of each
batch size shows the ratio to the fastest in parentheses. All contenders give the same signals and actions, which is
checked before anything is timed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from evoctx_kernels.boundary_signals import boundary_signals
from torch import Tensor
from torch.nn.functional import normalize

DIM, POOL, LONGEST, TAUS = 384, 20_000, 63, (0.3, 0.2, 0.4)


def inputs(rows: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(traces, pool, indptr, slots); vectors lean to a common direction so that both actions occur."""
    g = torch.Generator().manual_seed(rows)
    vectors = normalize(torch.randn(1, DIM, generator=g) + 0.7 * torch.randn(POOL + rows, DIM, generator=g), dim=1)
    counts = torch.randint(1, LONGEST + 1, (rows,), generator=g)
    indptr = torch.cat((torch.zeros(1, dtype=torch.int64), counts.cumsum(0)))
    slots = torch.randint(0, POOL, (int(indptr[-1]),), generator=g)
    return vectors[POOL:].clone(), vectors[:POOL].clone(), indptr, slots


def operator(traces: Tensor, pool: Tensor, indptr: Tensor, slots: Tensor) -> list[np.ndarray]:
    got = boundary_signals(traces, pool, indptr, slots, TAUS)
    return [x.numpy() for x in (got.near, got.centroid, got.tail, got.action)]


def numpy_loop(traces: Tensor, pool: Tensor, indptr: Tensor, slots: Tensor) -> list[np.ndarray]:
    """Question by question, with a sort in place of the much slower `numpy.quantile`."""
    traces, pool, indptr, slots = (x.numpy() for x in (traces, pool, indptr, slots))
    out = np.empty((4, len(traces)), dtype=np.float32)
    for b, trace in enumerate(traces):
        vectors = pool[slots[indptr[b] : indptr[b + 1]]]
        distances = np.sort(1 - vectors @ trace)
        mean = vectors.mean(0)
        centroid = 1 - mean @ trace / np.linalg.norm(mean)
        position = 0.9 * (len(distances) - 1)
        low = int(position)
        high = min(low + 1, len(distances) - 1)
        tail = distances[low] + (distances[high] - distances[low]) * (position - low)
        score = max(min(distances[0] / TAUS[0], centroid / TAUS[1]), tail / TAUS[2])
        out[:, b] = distances[0], centroid, tail, score >= 1
    return list(out)


def numpy_quantile_loop(traces: Tensor, pool: Tensor, indptr: Tensor, slots: Tensor) -> list[np.ndarray]:
    """Question by question as scripts have it: vectors of the boundary stacked from a list, `numpy.quantile`."""
    rows, ends, columns = list(pool.numpy()), indptr.tolist(), slots.tolist()
    out = np.empty((4, len(traces)), dtype=np.float32)
    for b, trace in enumerate(traces.numpy()):
        vectors = np.stack([rows[slot] for slot in columns[ends[b] : ends[b + 1]]])
        distances = 1 - vectors @ trace
        mean = vectors.mean(0)
        near, tail = distances.min(), np.quantile(distances, 0.9)
        centroid = 1 - mean @ trace / np.linalg.norm(mean)
        score = max(min(near / TAUS[0], centroid / TAUS[1]), tail / TAUS[2])
        out[:, b] = near, centroid, tail, score >= 1
    return list(out)


def padded_torch(traces: Tensor, pool: Tensor, indptr: Tensor, slots: Tensor) -> list[np.ndarray]:
    """Every boundary gathered and padded to the longest."""
    counts = indptr.diff()
    inside = torch.arange(int(counts.max())) < counts[:, None]
    index = torch.zeros(inside.shape, dtype=torch.int64).masked_scatter_(inside, slots)
    vectors = pool[index] * inside[:, :, None]
    distances = (1 - torch.bmm(vectors, traces[:, :, None])[:, :, 0]).masked_fill_(~inside, torch.inf)
    total = vectors.sum(1)
    centroid = 1 - (total * traces).sum(1) / total.norm(dim=1)
    ordered = distances.sort(dim=1).values
    position = 0.9 * (counts - 1).double()
    low, high = (ordered.gather(1, x.long()[:, None])[:, 0] for x in (position.floor(), position.ceil()))
    tail = low + (high - low) * position.frac().float()
    score = torch.maximum(torch.minimum(ordered[:, 0] / TAUS[0], centroid / TAUS[1]), tail / TAUS[2])
    return [x.numpy() for x in (ordered[:, 0], centroid, tail, score >= 1)]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("contender", [operator, numpy_loop, numpy_quantile_loop, padded_torch], ids=lambda f: f.__name__)
@pytest.mark.parametrize("rows", [256, 1024, 4096])
@pytest.mark.benchmark(timer=time.process_time, warmup=False)
def test_boundary_signals(benchmark, rows, contender):
    args = inputs(rows)
    benchmark.group = f"B = {rows}"
    benchmark.extra_info |= {"vectors": len(args[3]), "torch": torch.__version__, "numpy": np.__version__}
    got, expected = contender(*args), operator(*args)
    for name, ours, theirs in zip(("near", "centroid", "tail"), got, expected, strict=False):
        np.testing.assert_allclose(ours, theirs, atol=1e-6, err_msg=name)
    assert (got[3] == expected[3]).mean() > 0.999  # a distance within rounding of a threshold may differ
    benchmark.pedantic(contender, args, rounds=7, warmup_rounds=1)
