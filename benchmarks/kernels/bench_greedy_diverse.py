"""greedy_diverse against a loop over rows with one matrix of cosines each, and against padded torch.

    OMP_NUM_THREADS=1 python -m pytest benchmarks/kernels/bench_greedy_diverse.py --benchmark-columns=min,median,rounds

CPU seconds on one thread: 8 of 40 candidates at cosine 0.85, D = 384 float32, a pool of 20,000. In "varied" results few
candidates resemble each other, in "alike" most do, so that many must be looked at. All contenders keep the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from evoctx_kernels.greedy_diverse import greedy_diverse
from torch import Tensor
from torch.nn.functional import normalize

DIM, POOL, CANDIDATES, KEPT, THRESHOLD = 384, 20_000, 40, 8, 0.85
TOPICS = {"varied": 40, "alike": 6}  # clusters a row's candidates come from


def inputs(rows: int, topics: int) -> tuple[Tensor, Tensor]:
    """(pool, slots); cosines are about 0.9 inside a cluster and far from the threshold everywhere."""
    g = torch.Generator().manual_seed(rows)
    clusters = 500
    centers = normalize(torch.randn(clusters, DIM, generator=g), dim=1)
    pool = normalize(centers[torch.arange(POOL) % clusters] + 0.33 * normalize(torch.randn(POOL, DIM, generator=g), dim=1), dim=1)
    own = torch.randint(0, clusters, (rows, topics), generator=g).gather(1, torch.randint(0, topics, (rows, CANDIDATES), generator=g))
    return pool, own + clusters * torch.randint(0, POOL // clusters, (rows, CANDIDATES), generator=g)


def operator(pool: Tensor, slots: Tensor) -> Tensor:
    return greedy_diverse(pool, slots, threshold=THRESHOLD, k=KEPT).kept


def numpy_loop(pool: Tensor, slots: Tensor) -> Tensor:
    """Row by row: all cosines of the candidates, then a loop."""
    vectors = pool.numpy()
    out = np.full((len(slots), KEPT), -1)
    for b, row in enumerate(slots.numpy()):
        own = vectors[row]
        cosine = own @ own.T
        kept: list[int] = []
        for position in range(len(row)):
            if len(kept) == KEPT:
                break
            if not kept or cosine[position, kept].max() <= THRESHOLD:
                kept.append(position)
        out[b, : len(kept)] = kept
    return torch.from_numpy(out)


def padded_torch(pool: Tensor, slots: Tensor) -> Tensor:
    """All rows at once: all cosines, then candidate after candidate."""
    vectors = pool[slots]
    far = torch.bmm(vectors, vectors.mT) <= THRESHOLD
    kept, count = torch.zeros(slots.shape, dtype=torch.bool), torch.zeros(len(slots), dtype=torch.int64)
    for position in range(CANDIDATES):
        new = (far[:, position] | ~kept).all(1) & (count < KEPT)
        kept[:, position] = new
        count += new
    places = torch.where(kept, kept.cumsum(1) - 1, KEPT)
    return torch.full((len(slots), KEPT + 1), -1).scatter(1, places, torch.arange(CANDIDATES).expand_as(slots))[:, :KEPT]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("contender", [operator, numpy_loop, padded_torch], ids=lambda f: f.__name__)
@pytest.mark.parametrize("topics", TOPICS)
@pytest.mark.parametrize("rows", [32, 256])
@pytest.mark.benchmark(timer=time.process_time, warmup=False)
def test_greedy_diverse(benchmark, rows, topics, contender):
    args = inputs(rows, TOPICS[topics])
    benchmark.group = f"B = {rows}, {topics}"
    benchmark.extra_info |= {"candidates": CANDIDATES, "torch": torch.__version__, "numpy": np.__version__}
    assert torch.equal(contender(*args), operator(*args))
    benchmark.pedantic(contender, args, rounds=9, warmup_rounds=1)
