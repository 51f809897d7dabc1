"""max_similarity against a matrix product followed by max, and against a loop over queries.

    OMP_NUM_THREADS=1 python -m pytest benchmarks/kernels/bench_max_similarity.py --benchmark-columns=min,median,rounds

CPU seconds on one thread, D = 384 float32, a pool of 20,000. The product alone is the floor: what the operator adds buys
bits that do not depend on the batch, ties to the lowest row, and flags. All contenders find the same rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import torch
from evoctx_kernels.max_similarity import max_similarity
from torch import Tensor
from torch.nn.functional import normalize

DIM, POOL = 384, 20_000


def operator(queries: Tensor, pool: Tensor) -> tuple[Tensor, Tensor]:
    return max_similarity(queries, pool)


def product_then_max(queries: Tensor, pool: Tensor) -> tuple[Tensor, Tensor]:
    """Whose bits depend on the number of queries."""
    return tuple((queries @ pool.T).max(1))


def loop(queries: Tensor, pool: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix-vector product a query."""
    values, places = zip(*((pool @ query).max(0) for query in queries), strict=True)
    return torch.stack(values), torch.stack(places)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("contender", [operator, product_then_max, loop], ids=lambda f: f.__name__)
@pytest.mark.parametrize("rows", [1, 32, 256])
@pytest.mark.benchmark(timer=time.process_time, warmup=False)
def test_max_similarity(benchmark, rows, contender):
    g = torch.Generator().manual_seed(rows)
    vectors = normalize(torch.randn(1, DIM, generator=g) + 0.7 * torch.randn(POOL + rows, DIM, generator=g), dim=1)
    pool, queries = vectors[:POOL].clone(), vectors[POOL:].clone()
    benchmark.group = f"B = {rows}"
    benchmark.extra_info |= {"pool": POOL, "torch": torch.__version__}
    (similarity, place), expected = contender(queries, pool), operator(queries, pool)
    torch.testing.assert_close(similarity, expected[0], rtol=0, atol=1e-6)
    assert (place == expected[1]).float().mean() > 0.99  # two within rounding of each other may change places
    benchmark.pedantic(contender, (queries, pool), rounds=7, warmup_rounds=1)
