"""max_similarity's Triton kernels in the interpreter: values and places of the definition, edges, company, junk memory."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from evoctx_kernels.max_similarity import reference
from evoctx_kernels.max_similarity import triton_kernel as kernel
from vector_cases import clustered, csr, same_bits

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    """Outputs and scratch hold NaN, or an impossible place, before the kernels write them."""
    fresh = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *a, dtype, **k: fresh(*a, dtype=dtype, **k).fill_(torch.nan if dtype.is_floating_point else -99))


def own_rows(counts: list[int], size: int) -> list[list[int]]:
    g = torch.Generator().manual_seed(size)
    return [torch.randint(0, size, (n,), generator=g).tolist() for n in counts]


def assert_close(got, expected):
    torch.testing.assert_close(got.similarity, expected.similarity, rtol=0, atol=5e-7, equal_nan=True)
    assert torch.equal(got.argmax, expected.argmax)


@pytest.mark.parametrize(
    ("rows", "size", "dim", "dtype"),
    [(1, 1, 16, torch.float32), (2, 65, 48, torch.float16), (5, 257, 384, torch.float32), (33, 100, 48, torch.float32), (5, 600, 304, torch.float16)],
)  # the interpreter multiplies the bits of bfloat16 in tl.dot as integers: those products are compiled only
def test_a_pool(rows, size, dim, dtype):
    queries, pool = clustered(rows, dim, seed=1, dtype=dtype), clustered(size, dim, dtype=dtype)
    assert_close(kernel.launch(queries, pool), reference(queries, pool))
    exclude = torch.arange(rows) % (size + 1) - 1
    assert_close(kernel.launch(queries, pool, exclude=exclude), reference(queries, pool, exclude=exclude))


@pytest.mark.parametrize(
    ("counts", "dim", "dtype"),
    [([0, 1, 2, 31], 16, torch.float32), ([64, 0, 65], 48, torch.bfloat16), ([5, 33], 384, torch.float32), ([40, 3], 1024, torch.float16)],
)
def test_rows_of_a_pool(counts, dim, dtype):
    queries, pool = clustered(len(counts), dim, seed=1, dtype=dtype), clustered(70, dim, dtype=dtype)
    indptr, slots = csr(own_rows(counts, 70))
    assert_close(kernel.launch(queries, pool, indptr, slots), reference(queries, pool, indptr, slots))
    exclude = torch.tensor([-1, *slots[:1].tolist()] * len(counts))[: len(counts)]
    assert_close(kernel.launch(queries, pool, indptr, slots, exclude), reference(queries, pool, indptr, slots, exclude))


def test_equal_vectors_tie_to_the_lowest_row():
    base = clustered(13, 48)
    pool = base[torch.arange(600) % 13].contiguous()
    queries = clustered(4, 48, seed=2)
    got = kernel.launch(queries, pool)
    assert torch.equal(got.argmax, reference(queries, base).argmax)
    indptr, slots = csr([[599 - i for i in range(300)], [12, 0], [0, 12], [25, 12, 38]])
    assert torch.equal(kernel.launch(queries, pool, indptr, slots).argmax, reference(queries, pool, indptr, slots).argmax)


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_nan_and_infinity_are_flagged(poison):
    queries, pool = clustered(4, 48, seed=1), clustered(300, 48)
    queries[2, 5] = poison
    assert_close(kernel.launch(queries, pool), reference(queries, pool))
    assert_close(kernel.launch(queries, pool[:0]), reference(queries, pool[:0]))
    pool[270, 3], queries[0, 3] = poison, 0
    exclude = torch.tensor([270, -1, 270, 270])
    assert kernel.launch(queries, pool).similarity.isnan().all()
    assert_close(kernel.launch(queries, pool, exclude=exclude), reference(queries, pool, exclude=exclude))
    indptr, slots = csr([[270, 1], [1, 2], [], [2, 270]])
    assert_close(kernel.launch(queries, pool, indptr, slots), reference(queries, pool, indptr, slots))
    assert_close(kernel.launch(queries, pool, indptr, slots, exclude), reference(queries, pool, indptr, slots, exclude))


def test_what_points_outside_is_flagged_and_not_read():
    queries, pool = clustered(3, 16, seed=1), clustered(20, 16)
    got = kernel.launch(queries, pool, *csr([[1, 20], [-1], [2, 3]]))
    assert got.similarity.isnan().tolist() == [True, True, False]
    assert got.argmax[:2].tolist() == [-1, -1]
    got = kernel.launch(queries, pool, torch.tensor([0, 2, 1, 9]), torch.tensor([1, 2, 3]))
    assert got.similarity.isnan().tolist() == [False, True, True]


def test_a_query_has_the_same_bits_alone_and_in_any_batch(monkeypatch):
    """The BLAS behind the interpreter's tl.dot rounds by an element's place in the tile, the units of a GPU do not."""
    monkeypatch.setattr(np, "matmul", lambda a, b, dtype: (a[:, :, None].astype(dtype) * b[None].astype(dtype)).sum(1))
    pool, queries = clustered(300, 48), clustered(19, 48, seed=1)
    together = kernel.launch(queries, pool)
    order = torch.randperm(19, generator=torch.Generator().manual_seed(0))
    assert same_bits(kernel.launch(queries[order], pool), [x[order] for x in together])
    own = own_rows([9, 40, 3], 300)
    restricted = kernel.launch(queries[:3], pool, *csr(own))
    for b in (0, 2):
        assert same_bits(kernel.launch(queries[b : b + 1], pool), [x[b : b + 1] for x in together])
        assert same_bits(kernel.launch(queries[b : b + 1], pool, *csr(own[b : b + 1])), [x[b : b + 1] for x in restricted])
